"""Synthetic fleets as OpenMetrics with times, and `shadow-pleg report` about them in this process.

Every increase() is a whole number.
"""

import asyncio
import io
import json
import math
import signal
from collections.abc import Iterable, Iterator, Sequence
from contextlib import redirect_stderr, redirect_stdout
from itertools import product
from pathlib import Path
from typing import Any

import msgspec
import pytest

from exporter.__main__ import main
from exporter.conditions.catalogue import ALL
from exporter.metrics import families
from exporter.model.events import Lifecycle
from exporter.model.findings import Cause
from exporter.model.labels import Flaw, OomKill, StreamState
from promql import series
from tests import ROOT
from tests.support.commands import Outcome
from tests.support.prometheus import Answered, Series, standing_in, write_scrapes

# 2026-11-14T00:00:00Z, a multiple of every slice in use.
START = 1_794_614_400
MINUTE = 60
HOUR = 60 * MINUTE
DAY = 24 * HOUR
WINDOW = 2 * HOUR

EVENTS = tuple(event.label for event in Lifecycle)
CAUSES = tuple(cause.value for cause in Cause)
KINDS = ("ghost", "stray", *series.COUNTED.values())
DISCONNECTS = ("eof", "unavailable", "overflow")
EXIT_EDGES = (*families.EXIT_TO_EVENT.buckets, math.inf)
# What a real Prometheus answered about the fleet `blue`; test_gather compares and writes it.
ANSWERS = ROOT / "tests" / "fleet" / "golden" / "answers.json"
# Transitions of each event in a minute.
A_MINUTE = 25


class ReportNode(msgspec.Struct, frozen=True, forbid_unknown_fields=True, kw_only=True):
    """Nodes of one kind for the whole window; times are minutes since its begin.

    `missed` and `late` (by event and cause), `gaps`, `outage_gaps` (it explains them), `undecided`,
    `disconnects` (by reason), `stalls`, `flaws`, `contradicted` and `oom` (by kind) all happen at
    `lost_at`. `kernel`: whether it is a witness. So do exits `announced`, `listed` and `shown` by
    the kubelet, by the bucket of their delay. `held`: conditions, from one minute to another one,
    exclusive. `down`: the stream is, of so many minutes the first so many. `gate`: "1" or "0";
    empty: not known. `switched`: when to what. `proxy`: the same gate of a kube-proxy beside it.
    `kubelet` is its version; empty: not known. The process restarts at `restarts`, and begins at 0.
    It cannot be scraped while it is `unscraped`, and does not stream while it is `refused`. If it
    is not `watched`, the node has a kubelet only. If it never `receives`, the stream is silent.
    """

    name: str
    number: int = 1
    runtime: str = "containerd"
    version: str = "2.1.9"
    stream: str = "broadcast"
    upgraded: tuple[int, str] | None = None
    missed: dict[str, dict[str, int]] = {}
    late: dict[str, dict[str, int]] = {}
    gaps: dict[str, int] = {}
    outage_gaps: dict[str, int] = {}
    undecided: dict[str, int] = {}
    disconnects: dict[str, int] = {}
    stalls: int = 0
    contradicted: dict[str, int] = {}
    oom: dict[str, int] = {}
    held: dict[str, tuple[int, int]] = {}
    down: tuple[int, int] = (1, 0)
    flaws: dict[str, int] = {}
    kernel: bool = True
    announced: dict[float, int] = {}
    listed: dict[float, int] = {}
    shown: dict[float, int] = {}
    gate: str = ""
    switched: tuple[int, str] | None = None
    proxy: str = ""
    kubelet: str = "v1.36.1"
    disabled: bool = False
    lost_at: int = 45
    restarts: list[int] = []
    unscraped: tuple[int, int] = (0, 0)
    refused: tuple[int, int] = (-1, -1)
    watched: bool = True
    receives: bool = True

    @property
    def names(self) -> list[str]:
        several = [f"{self.name}-{i}" for i in range(self.number)]
        return several if self.number > 1 else [self.name]

    def samples(self, at: int) -> Iterator[tuple[str, str, float]]:
        began = max((moment for moment in self.restarts if moment <= at), default=0)
        for name, labels, number in self._happens():
            yield name, labels, number * (began < self.lost_at <= at)
        lived = (at - began) * A_MINUTE
        for event in EVENTS:
            yield "shadow_pleg_lifecycle_events_total", f'event="{event}"', lived
            yield "shadow_pleg_events_received_total", f'event="{event}"', lived * self.receives
        down = at % self.down[0] < self.down[1]
        for name in (each.name for each in ALL):
            begin, end = self.held.get(name, (0, 0))
            held = begin <= at < end or (name == "stream_down" and down)
            yield "shadow_pleg_node_condition", f'condition="{name}"', held
        yield "shadow_pleg_kernel_witness", 'state="watching"', self.kernel
        now = "refused" if self.refused[0] <= at <= self.refused[1] else "streaming"
        now = "disabled" if self.disabled else "backoff" if down else now
        for state in (each.value for each in StreamState):
            yield "shadow_pleg_stream_state", f'state="{state}"', state == now
        version = self.upgraded[1] if self.upgraded and at >= self.upgraded[0] else self.version
        said = f'name="{self.runtime}",version="{version}",api_version="v1",stream="{self.stream}"'
        yield "shadow_pleg_runtime_info", said, 1
        yield "process_start_time_seconds", "", START + began * MINUTE - (0 if began else DAY)
        yield "shadow_pleg_build_info", 'version="0.1.0",python="3.11.2"', 1

    def _happens(self) -> Iterator[tuple[str, str, float]]:
        """What is counted at `lost_at`."""
        for event, cause in product(EVENTS, CAUSES):
            of = f'event="{event}",object="container",cause="{cause}"'
            missed, late = (it.get(event, {}).get(cause, 0) for it in (self.missed, self.late))
            yield "kube_pod_missed_events_total", of, missed
            yield "shadow_pleg_late_events_total", of, late
        yield "shadow_pleg_stream_stalls_total", "", self.stalls
        for name, labels, values, numbers in (
            ("verdicts", 'verdict="gap",cause="",event', EVENTS, self.gaps),
            ("verdicts", 'verdict="gap",cause="stream_down",event', EVENTS, self.outage_gaps),
            ("verdicts", 'verdict="undecided",cause="",event', EVENTS, self.undecided),
            ("stream_disconnects", "reason", DISCONNECTS, self.disconnects),
            ("contradictions", "kind", KINDS, self.contradicted),
            ("oom_kills", "kind", [each.value for each in OomKill], self.oom),
            ("flawed_events", 'event="STOPPED",flaw', [each.value for each in Flaw], self.flaws),
        ):
            for value in values:
                yield f"shadow_pleg_{name}_total", f'{labels}="{value}"', numbers.get(value, 0)
        for notice, exits in (
            *(("exit_to_event", self.announced), ("exit_to_list", self.listed)),
            *(("exit_to_status", self.shown), ("event_to_status", self.shown)),
        ):
            for le in EXIT_EDGES if exits else ():
                labels = f'le="{"+Inf" if le == math.inf else le}"'
                number = sum(n for edge, n in exits.items() if edge <= le)
                yield f"shadow_pleg_{notice}_seconds_bucket", labels, number


def scrapes_of(
    nodes: Iterable[ReportNode], cluster: str, minutes: int = 120, step: int = 1
) -> Iterator[str]:
    """Lines of OpenMetrics; without a cluster, targets have an instance only."""
    for node in nodes:
        for name in node.names:
            own = f'cluster="{cluster}",instance="{name}",node="{name}"'
            own = own if cluster else f'instance="{name}",job="s"'
            for at in range(0, minutes + 1, step):
                when = START + at * MINUTE
                yield f"kubelet_pleg_relist_interval_seconds_count{{{own}}} {at} {when}\n"
                # A relist each second, which takes 10 ms.
                yield f"kubelet_pleg_relist_duration_seconds_count{{{own}}} {60 * at} {when}\n"
                yield f"kubelet_pleg_relist_duration_seconds_sum{{{own}}} {0.6 * at:g} {when}\n"
                if node.kubelet:
                    build = f'{own},git_version="{node.kubelet}"'
                    yield f"kubernetes_build_info{{{build}}} 1 {when}\n"
                if node.gate:
                    gate = f'{own},name="EventedPLEG",stage="ALPHA"'
                    since, other = node.switched or (minutes + 1, node.gate)
                    now = other if at >= since else node.gate
                    yield f"kubernetes_feature_enabled{{{gate}}} {now} {when}\n"
                if node.proxy:
                    other = own.replace(f'instance="{name}"', f'instance="{name}:10249"')
                    gate = f'{other},name="EventedPLEG",stage="ALPHA"'
                    yield f"kubernetes_feature_enabled{{{gate}}} {node.proxy} {when}\n"
                    yield f'kubernetes_build_info{{{other},git_version="v1.35.0"}} 1 {when}\n'
                if node.watched and not node.unscraped[0] <= at < node.unscraped[1]:
                    for metric, labels, value in node.samples(at):
                        yield f"{metric}{{{own},{labels}}} {float(value)} {when}\n"


# A large fleet as the recording rules keep it: a sample in five minutes of what a report reads.
RECORDED = 5 * MINUTE
# Transitions of a node in five minutes, and how many silent misses a bad node has.
TRANSITIONS, LOST = 300, 7
# Prometheus' own --query.max-samples, and its --query.timeout for ten million samples a second, of
# which a third is enough; and the number of nodes that both are for.
MOST_SAMPLES, MOST_READ, LARGE = 50_000_000, 400_000_000, 3000
BAD_ONE_IN = 100
BAD = ("ContainerDied", "silent")


def write_recorded_fleet(file: Path, nodes: int, days: int) -> Path:
    return write_scrapes(
        file, _recorded(nodes, range(START - RECORDED, START + days * DAY + 1, RECORDED))
    )


def _recorded(nodes: int, times: range) -> Iterator[Series]:
    number = len(times)
    growing = times, [TRANSITIONS * i for i in range(number)]
    each = times, [TRANSITIONS // len(EVENTS) * i for i in range(number)]
    nothing, one = (times, [0] * number), (times, [1] * number)
    lost = times, [LOST * (i > number // 2) for i in range(number)]
    scraped = [times[1], times[-1]], [1, 1]
    values = {series.LIFECYCLE: each} | dict.fromkeys(
        (series.UP, series.KERNEL, series.RUNTIME), one
    )
    values |= dict.fromkeys((series.RECEIVED, series.EXIT_TO_EVENT, series.EXIT_TO_LIST), growing)
    labels: dict[str, tuple[str, ...]] = {
        "event": EVENTS,
        "cause": CAUSES,
        "flaw": tuple(flaw.value for flaw in Flaw),
        "kind": tuple(series.COUNTED.values()),
        "condition": tuple(series.REPORTED),
        "le": tuple(map(str, EXIT_EDGES)),
        "name": ("containerd",),
        "stream": ("broadcast",),
    }
    for i in range(nodes):
        node = {"cluster": "blue", "node": f"node-{i:04}"}
        own = {**node, "job": "shadow-pleg", "instance": f"10.0.{i // 250}.{i % 250}:13386"}
        labels["version"] = (f"2.1.{i % 5}",)
        for kept in series.KEPT:
            for of in product(*(labels[name] for name in kept.by)):
                bad = i % BAD_ONE_IN == 0 and kept is series.MISSED and of == BAD
                name = {"__name__": kept.recorded, **dict(zip(kept.by, of, strict=True))}
                yield own | name, *(lost if bad else values.get(kept, nothing))
        yield node | {"__name__": series.KUBELET_KEPT, "job": "kubelet"}, *one
        yield own | {"__name__": series.PRESENT}, *scraped
        kubelet = node | {"job": "kubelet", "instance": f"10.0.{i // 250}.{i % 250}:10250"}
        yield kubelet | {"__name__": series.KUBELET}, *scraped
        build = {"__name__": series.KUBELET_BUILD, "git_version": "v1.36.1"}
        yield kubelet | build, *scraped


class Reported(Outcome):
    """How a report ended."""

    @property
    def data(self) -> dict[str, Any]:
        assert (self.code, self.err) == (0, "")
        found: dict[str, Any] = json.loads(self.out)
        return found


async def reported(url: str, *flags: str, end: int = START + WINDOW) -> Reported:
    """Run the command in a thread: all of it but the signals, which belong to a process.

    It writes JSON about the fleets' window, which is enough for a verdict, unless flags say so.
    """
    usual = ("--output-format=json", "--window=2h", "--min-time=1h", "--min-nodes=1")
    arguments = ["report", f"--prometheus-url={url}", *usual, f"--end={end}", *flags]
    with pytest.MonkeyPatch.context() as patch:
        patch.setattr(signal, "signal", lambda *_: None)
        with redirect_stdout(io.StringIO()) as out, redirect_stderr(io.StringIO()) as err:
            code = await asyncio.to_thread(main, arguments)
    return Reported(code, out.getvalue(), err.getvalue())


def recorded_answers() -> list[Answered]:
    return [Answered(**each) for each in json.loads(ANSWERS.read_text(encoding="utf-8"))]


async def mixed(
    *flags: str, known: Sequence[Answered] = (), warnings: tuple[str, ...] = ()
) -> Reported:
    """About the fleet `blue`, from a stand-in that answers as Prometheus did, or as is known."""
    async with standing_in(*(known or recorded_answers()), warnings=warnings) as url:
        return await reported(url, '--selector=cluster="blue"', *flags)
