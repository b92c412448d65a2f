"""A small fleet of demos, and a real Prometheus that scrapes it.

Here: starting both, waiting until there is enough to see, asking. Not here: what should be seen.
Blind spot: no kubelet and no runtime's own metrics come out of a demo, so `Others` stands in for
them with the names, types and buckets of the real ones.
"""

from __future__ import annotations

import asyncio
import contextlib
import re
import tempfile
import time
from collections.abc import AsyncIterator, Iterator
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any, Final, Self

import aiohttp
import yaml
from prometheus_client import CollectorRegistry, start_http_server
from prometheus_client.core import GaugeMetricFamily, HistogramMetricFamily, Metric
from prometheus_client.registry import Collector

from tests.face.commands import running
from tests.grounds import debian, servers

SCRAPE: Final = 1.0
CLUSTER: Final = "demo"
_BUCKETS: Final = ("0.005", "0.01", "0.025", "0.05", "0.1", "0.25", "0.5", "1", "2.5", "5", "10")


@dataclass(frozen=True, slots=True)
class Node:
    """A demo: its name, whether it is a canary, and what goes wrong there."""

    name: str
    canary: bool
    flags: tuple[str, ...] = ()


# Where relists are rare, since the machine is slow, a start that failed is gone before anybody can
# ask whether it ever ran: then its exit counts as lost.
_FINE: Final = (
    *("--drop=0", "--duplicate=0", "--reorder=0", "--delay=2ms"),
    "--failed-starts=0",
)
HEALTHY: Final = (
    Node("node-1", canary=True, flags=_FINE),
    Node("node-2", canary=True, flags=_FINE),
    Node("node-3", canary=False, flags=_FINE),
)
LOSSY: Final = (
    Node("node-1", canary=True, flags=("--drop=0.05", "--delay=20ms")),
    Node("node-2", canary=True, flags=(*_FINE, "--disconnect-every=15")),
    Node("node-3", canary=False, flags=_FINE),
    Node("node-4", canary=False, flags=(*_FINE, "--runtime=containerd/1.7.24")),
    Node("node-5", canary=False, flags=("--events=disabled",)),
)
# An alert, so that there is one to be marked.
RULES: Final = {
    "groups": [
        {
            "name": "stand",
            "rules": [
                {
                    "alert": "ShadowPlegMissedEvents",
                    "expr": "sum by (cluster, node) "
                    '(increase(kube_pod_missed_events_total{cause="silent"}[10s])) > 0',
                    "labels": {"severity": "warning"},
                }
            ],
        }
    ]
}


class Others(Collector):
    """Metrics of a kubelet that relists every second in 3 ms, and of a containerd; none lost."""

    def __init__(self) -> None:
        self._began = time.time()

    def collect(self) -> Iterator[Metric]:
        """What they have counted since the start."""
        relists = int(time.time() - self._began)
        for name, each in (("duration", 0.003), ("interval", 1.004)):
            family = HistogramMetricFamily(f"kubelet_pleg_relist_{name}_seconds", "A kubelet's.")
            full = [(le, relists if float(le) >= each else 0) for le in _BUCKETS]
            family.add_metric([], [*full, ("+Inf", relists)], sum_value=relists * each)
            yield family
        # Counters without _total, as the kubelet has them: here as gauges, which look the same.
        for name, value in (
            ("kubelet_pleg_discard_events", 0),
            ("kubelet_pleg_last_seen_seconds", time.time() - 0.5),
            ("containerd_cri_container_events_dropped_total", 0),
            ("container_runtime_crio_containers_events_dropped_total", 0),
        ):
            yield GaugeMetricFamily(name, "Somebody else's.", value)


@dataclass(slots=True)
class Prometheus:
    """A running one, and the moment at which its fleet was left alone."""

    url: str
    session: aiohttp.ClientSession
    began: float
    ended: float = field(default=0.0)

    async def instant(self, expr: str, at: float | None = None) -> list[dict[str, Any]]:
        """A vector at a moment, else at the end."""
        return await self._ask("query", expr, time=at or self.ended or time.time())

    async def ranged(
        self, expr: str, step: float, span: tuple[float, float] | None = None
    ) -> list[dict[str, Any]]:
        """A matrix over a span, else over all that was scraped."""
        start, end = span or (self.began, self.ended or time.time())
        return await self._ask("query_range", expr, start=start, end=end, step=step)

    async def number(self, expr: str) -> float:
        """The one value of an expression; NaN where there is none."""
        found = await self.instant(expr)
        return float(found[0]["value"][1]) if found else float("nan")

    async def values(self, label: str, series: str) -> list[str]:
        """The values of a label."""
        sent = {"match[]": series, "start": str(self.began)}
        async with self.session.get(f"{self.url}/api/v1/label/{label}/values", params=sent) as got:
            answer = await got.json()
        assert answer["status"] == "success", answer
        return list(answer["data"])

    async def _ask(self, how: str, expr: str, **sent: float) -> list[dict[str, Any]]:
        params = {"query": expr} | {name: str(value) for name, value in sent.items()}
        async with self.session.post(f"{self.url}/api/v1/{how}", data=params) as got:
            answer = await got.json()
        assert answer["status"] == "success", (answer.get("error"), expr)
        # A warning is a mistake in the expression; an info may be a guess.
        assert not answer.get("warnings"), (answer["warnings"], expr)
        return list(answer["data"]["result"])


@dataclass(slots=True)
class Fleet:
    """Demos that run, and Prometheus' targets for them."""

    targets: list[dict[str, Any]]
    ends: contextlib.AsyncExitStack

    @classmethod
    async def started(cls, nodes: tuple[Node, ...], churn: float) -> Self:
        """Start a demo for each node."""
        ends, targets = contextlib.AsyncExitStack(), []
        for seed, node in enumerate(nodes, start=1):
            demo = await ends.enter_async_context(
                running(
                    *("demo", "--web.listen-address=127.0.0.1:0", f"--churn={churn}"),
                    "--log.level=error",
                    *(f"--node-name={node.name}", f"--seed={seed}", *node.flags),
                )
            )
            found = re.search(r"http://([\d.:]+)", await demo.printed())
            assert found
            labels = {"cluster": CLUSTER, "node": node.name, "canary": str(node.canary).lower()}
            targets.append({"targets": [found[1]], "labels": labels})
        return cls(targets, ends)


def configuration(fleet: Fleet, others: int) -> dict[str, Any]:
    """What Prometheus is told to scrape."""
    elsewhere = [
        {"targets": [f"127.0.0.1:{others}"], "labels": each["labels"]} for each in fleet.targets
    ]
    jobs = {"shadow-pleg": fleet.targets, "kubelet": elsewhere, "containerd": elsewhere}
    kept = {
        "kubelet": "kubelet_.+",
        "containerd": "container.+_dropped_total",
        "shadow-pleg": ".+",
    }
    return {
        "global": {"scrape_interval": f"{SCRAPE:g}s", "evaluation_interval": "2s"},
        "rule_files": ["rules.yml"],
        "scrape_configs": [
            {
                "job_name": job,
                "static_configs": targets,
                "metric_relabel_configs": [
                    {"source_labels": ["__name__"], "regex": kept[job], "action": "keep"}
                ],
            }
            for job, targets in jobs.items()
        ],
    }


@contextlib.asynccontextmanager
async def watched(
    nodes: tuple[Node, ...], *, churn: float = 20
) -> AsyncIterator[tuple[Prometheus, Fleet]]:
    """A fleet, and a Prometheus that scrapes it; both end with the block."""
    registry = CollectorRegistry()
    registry.register(Others())
    server, thread = start_http_server(0, addr="127.0.0.1", registry=registry)
    with tempfile.TemporaryDirectory(prefix="sp-dash-") as folder:
        fleet = await Fleet.started(nodes, churn)
        async with fleet.ends:
            home = Path(folder)
            config = configuration(fleet, server.server_port)
            (home / "prometheus.yml").write_text(yaml.safe_dump(config))
            (home / "rules.yml").write_text(yaml.safe_dump(RULES))
            async with _prometheus(home) as prometheus:
                yield prometheus, fleet
    await asyncio.to_thread(server.shutdown)
    server.server_close()
    await asyncio.to_thread(thread.join)


@contextlib.asynccontextmanager
async def _prometheus(home: Path) -> AsyncIterator[Prometheus]:
    binary = debian.find("prometheus")
    assert binary is not None
    async with (
        servers.prometheus((binary,), home, home / "prometheus.yml") as url,
        aiohttp.ClientSession(timeout=aiohttp.ClientTimeout(30)) as session,
    ):
        yield Prometheus(url, session, time.time())
