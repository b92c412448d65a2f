"""Small fleets of simulated nodes in virtual time, in a Prometheus: a lossy and a healthy one.

Blind spots: `_others` plays kubelets and runtimes; all nodes show one process' CPU, and the memory
of an exporter as the benchmarks have it: all that is simulated beside it is in this process, too.
"""

import asyncio
import json
import random
import tempfile
import time
from collections import deque
from collections.abc import AsyncIterator, Iterator, Mapping
from contextlib import AsyncExitStack, asynccontextmanager
from dataclasses import dataclass, replace
from pathlib import Path
from typing import Final, TextIO

import pytest
import pytest_asyncio
import structlog

from alerts.entries import REPORT_INTERVAL
from dashboards.queries import LINKS
from exporter.model.findings import Cause, Verdict
from promql.series import KUBELET_BUILD, KUBELET_FEATURES
from simulator.churn import simulated_node
from simulator.options import Events, Listens, Options, Runtime
from simulator.runtime import CgroupFiles
from tests.support import prometheus
from tests.support.expressions import groups
from tests.support.observer import Observer, observing
from tests.support.prometheus import Asker, Recorded
from tests.support.runtimes import DEMO
from tests.support.virtual_time import VirtualLoop, clocks_of, in_memory

# Seconds between two scrapes, between two points of a panel, and of a fleet's life.
SCRAPE: Final = 1
STEP: Final = 5
SECONDS: Final = 60
CLUSTER: Final = "demo"
# Whole blocks of Prometheus: a fleet that lives in another one does not see this one.
APART: Final = 4 * 3600.0
_BUCKETS: Final = ("0.005", "0.01", "0.025", "0.05", "0.1", "0.25", "0.5", "1", "2.5", "5", "10")
_MEMORY: Final = 58 * 2.0**20
_KUBELET: Final = "v1.36.2"
# Seconds until all streams are up, and for how long a fleet is scraped before it is looked at.
_SETTLING: Final = 5
_BEFORE: Final = 10
# Rules count what a process that is younger than five minutes has as new.
_OLD: Final = 3600.0
# An alert fires for so long after a silent loss.
_ALERTING: Final = 10


_LOSING: Final = replace(DEMO, pods=20, delay=0.02, strays=0.04, stale=0.1)
_HONEST: Final = replace(_LOSING, ghosts=0.0, strays=0.0, twins=0.0, stale=0.0, wrong=0.0)
_FINE: Final = replace(_HONEST, drop=0, duplicate=0, delay=0.002, failed_starts=0, flaws=0.0)
# Of node-1, node-2 ...; the first two are canaries.
Behaviours = tuple[Options, ...]
_CANARIES: Final = 2
HEALTHY: Final[Behaviours] = (_FINE,) * 3
LOSSY: Final[Behaviours] = (
    _LOSING,
    replace(_FINE, restart_every=15),
    _FINE,
    replace(_FINE, runtime=Runtime.CONTAINERD_1),
    replace(_HONEST, events=Events.DISABLED),
)


@dataclass(frozen=True, slots=True)
class ScrapedFleet:
    """What was scraped of a fleet, as OpenMetrics in a file, from the first scrape to the last."""

    scraped: Path
    began: float
    ended: float


def lived(
    into: Path, nodes: Behaviours, *, seconds: int, churn: float, after: float = 0
) -> ScrapedFleet:
    """Run a fleet, from `after` seconds of the virtual clock on."""
    with (
        asyncio.Runner(loop_factory=VirtualLoop) as runner,
        clocks_of(runner.get_loop()),
        in_memory(),
        structlog.testing.capture_logs(),
        pytest.MonkeyPatch.context() as patch,
        into.open("w", encoding="utf-8") as file,
    ):
        # Jitter: the same in each run.
        patch.setattr(random, "random", random.Random(1).random)
        began = time.time() + after + _SETTLING
        times = [began + each for each in range(_BEFORE + seconds + 1)]
        runner.run(_life(nodes, churn, times, file))
        file.write("# EOF\n")
    return ScrapedFleet(into, times[_BEFORE], times[-1])


@asynccontextmanager
async def asking(*lives: ScrapedFleet) -> AsyncIterator[list[Asker]]:
    """One real Prometheus that knows all these fleets, and evaluated the rules, to be asked."""
    rules = groups()
    for each in (group for group in rules if group["interval"] == REPORT_INTERVAL):
        each["interval"] = "1s"
    recorded = [Recorded(rules, life.began - _BEFORE, life.ended) for life in lives]
    scraped, last = (life.scraped for life in lives), lives[-1]
    async with prometheus.asking(
        *scraped, recorded=recorded, began=last.began, ended=last.ended
    ) as asker:
        yield [replace(asker, began=life.began, ended=life.ended) for life in lives]


async def _life(nodes: Behaviours, churn: float, times: list[float], file: TextIO) -> None:
    await asyncio.sleep(times[0] - _SETTLING - time.time())
    async with AsyncExitStack() as stack:
        home = Path(stack.enter_context(tempfile.TemporaryDirectory()))
        scraping = []
        for number, behaviour in enumerate(nodes, start=1):
            canary = number <= _CANARIES
            listens = Listens.EVENTED if canary else Listens.POLLED
            options = replace(behaviour, churn=churn, seed=number, kubelet=listens)
            # The machine's cgroups are not those of these containers.
            socket, root, pods = (home / f"{number}.{end}" for end in ("sock", "cgroups", "pods"))
            cgroups = CgroupFiles(root) if options.ghosts else None
            await stack.enter_async_context(simulated_node(options, socket, cgroups, pods))
            own = {"kubelet_pods_endpoint": pods} | ({"cgroup_root": root} if cgroups else {})
            watching = observing(socket, relist_period=2, missed_grace=1, **own)
            watch = await stack.enter_async_context(watching)
            scraping.append(_scraped(f"node-{number}", watch, times, file, canary=canary))
        await asyncio.gather(*scraping)


async def _scraped(
    node: str, watch: Observer, times: list[float], file: TextIO, *, canary: bool
) -> None:
    own = {"cluster": CLUSTER, "node": node, "canary": str(canary).lower()}
    silent = deque[int](maxlen=_ALERTING)
    own_process = {
        "process_start_time_seconds": times[0] - _OLD,
        "process_resident_memory_bytes": _MEMORY,
    }
    for relists, at in enumerate(times):
        await asyncio.sleep(at - time.time())
        families = watch.registry.collect()
        exported = (("shadow-pleg", s.name, s.labels, s.value) for f in families for s in f.samples)
        others = _others(relists, at, canary=canary)
        for job, name, labels, value in (*exported, *others):
            target = own | {"job": job, "instance": f"{node}:{job}"}
            file.write(_sample_line(name, target | labels, own_process.get(name, value), at))
        silent.append(watch.node.tally.total(Verdict.MISSED, Cause.SILENT))
        if silent[-1] > silent[0]:
            # As Prometheus itself would write it.
            alert = {"alertname": "ShadowPlegMissedEvents", "alertstate": "firing"}
            of = {"severity": "warning", "cluster": CLUSTER, "node": node}
            file.write(_sample_line("ALERTS", alert | of, 1, at))


def _sample_line(name: str, labels: Mapping[str, str], value: float, at: float) -> str:
    text = ",".join(f"{label}={json.dumps(of)}" for label, of in labels.items())
    return f"{name}{{{text}}} {float(value)} {at:.3f}\n"


def _others(
    relists: int, now: float, *, canary: bool
) -> Iterator[tuple[str, str, dict[str, str], float]]:
    """Samples of a kubelet that relists every second in 3 ms, and of a containerd; none lost."""
    for name, each in (("duration", 0.003), ("interval", 1.004)):
        metric = f"kubelet_pleg_relist_{name}_seconds"
        for le in (*_BUCKETS, "+Inf"):
            yield "kubelet", f"{metric}_bucket", {"le": le}, relists * (float(le) >= each)
        yield "kubelet", f"{metric}_count", {}, relists
        yield "kubelet", f"{metric}_sum", {}, relists * each
    # Without _total, as most kubelets have it.
    yield "kubelet", "kubelet_pleg_discard_events" + "_total" * canary, {}, 0
    yield "kubelet", "kubelet_pleg_last_seen_seconds", {}, now - 0.5
    yield "kubelet", KUBELET_BUILD, {"git_version": _KUBELET}, 1
    yield "kubelet", KUBELET_FEATURES, {"name": "EventedPLEG"}, canary
    for dropped in ("containerd_cri_container", "container_runtime_crio_containers"):
        yield "containerd", f"{dropped}_events_dropped_total", {}, 0


def chosen(step: int, span: float, rate: int = 0) -> dict[str, str]:
    """What Grafana would put in for points so many seconds apart, `span` of them.

    `rate`: the rate interval, else a step and a scrape.
    """
    return dict.fromkeys(("cluster", "job", "node"), ".*") | {
        "__rate_interval": f"{rate or step + SCRAPE}s",
        "__interval": f"{step}s",
        "__interval_ms": f"{1000 * step}",
        "__range": f"{span:.0f}s",
        "runbooks": LINKS.runbooks,
    }


CHOSEN = chosen(STEP, SECONDS)


@pytest.fixture(scope="session")
def both_lives(tmp_path_factory: pytest.TempPathFactory) -> tuple[ScrapedFleet, ScrapedFleet]:
    """A fleet with every kind of trouble, and one that loses nothing."""
    home = tmp_path_factory.mktemp("lives")
    return (
        lived(home / "lossy", LOSSY, seconds=SECONDS, churn=8),
        lived(home / "healthy", HEALTHY, seconds=SECONDS, churn=8, after=APART),
    )


@pytest_asyncio.fixture(scope="session", loop_scope="session")
async def both_fleets(both_lives: tuple[ScrapedFleet, ScrapedFleet]) -> AsyncIterator[list[Asker]]:
    """Both, in one Prometheus."""
    async with asking(*both_lives) as both:
        yield both


@pytest.fixture(scope="session")
def lossy(both_fleets: list[Asker]) -> Asker:
    return both_fleets[0]


@pytest.fixture(scope="session")
def healthy(both_fleets: list[Asker]) -> Asker:
    return both_fleets[1]
