"""From a runtime that loses events to a page that is delivered, through the real parts.

The rules are those that ship, rendered of the values that ship with every duration divided by 60:
an hour passes in a minute. Runtimes are simulated; exporters, Prometheus and Alertmanager are
processes of their own.
"""

from __future__ import annotations

import contextlib
import re
from collections.abc import AsyncIterator
from contextlib import AsyncExitStack
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any, Final

import aiohttp
import pytest
import yaml
from aiohttp import web

from alerts.__main__ import main as render
from alerts.values import FILE, seconds
from exporter.simulator import node as simulated
from exporter.simulator.options import Events, Options
from tests.support.alertmanager import Webhook, alertmanager, ask, webhook
from tests.support.commands import Running, fetch, running
from tests.support.failures import log_of
from tests.support.real.servers import LOOPBACK, Command, free_port, prometheus
from tests.support.runtimes import short_folder
from tests.support.waiting import until

FASTER: Final = 60
HEALTHY: Final = Options(pods=4, containers_per_pod=2, churn=4)
NODES: Final = ("healthy", "lossy", "stopped", "killed", "disabled")
CLUSTER: Final = "loopback"
# The watch is as much faster as the rules are, but for the grace: a busy machine is late. With
# the share of the time that relists may take left at 1 %, they would be stretched to the rules'
# three seconds there.
FLAGS: Final = (
    "--relist-period=200ms",
    f"--relist-max-duty={FASTER}%",
    "--missed-grace=1s",
    "--log.level=error",
)
# Seconds; the shipped threshold would be 3 s here, and with 20 processes on two cores an exporter's
# relists were 3.7 s late.
STALE: Final = 15
# What inhibits must have the time to fire, also on a busy machine: evaluations are a second apart
# at best, and the stale relist is what fires last.
GROUP_WAIT: Final = STALE + 10
# Rule evaluations, a second apart at best, after which what is wrong with a whole cluster that is
# healthy would fire: it must hold for 2 s. The healthy node is healthy to the end.
HEALTHY_FOR: Final = 5
# And after which a group of alerts would have been delivered again: group_interval is 5 s here.
SETTLED: Final = 8
# A pass never waits so long: that is for a machine that is busy with other tests.
PATIENCE: Final = 180
PAGES: Final = {
    ("critical", "ShadowPlegMissedExitsEventedKubelet", "lossy"),
    ("warning", "ShadowPlegRelistStale", "stopped"),
    ("warning", "ShadowPlegExporterDown", "killed"),
    ("warning", "ShadowPlegStreamDisabled", "disabled"),
}
# What also fires, and is held back: a symptom on the same node or in the same cluster.
HELD_BACK: Final = {
    ("ShadowPlegMissedEvents", "lossy"),
    ("ShadowPlegBudgetBurnFast", ""),
    ("ShadowPlegStreamDown", "stopped"),
}


def faster(value: Any) -> Any:  # noqa: ANN401 - YAML
    """Every duration of the values, divided; never below a second."""
    if isinstance(value, dict):
        return {key: faster(each) for key, each in value.items()}
    if isinstance(value, list):
        return [faster(each) for each in value]
    if isinstance(value, str) and re.fullmatch(r"\d+[smhd]", value):
        return f"{max(1, seconds(value) // FASTER)}s"
    return value


def rendered(into: Path, hook: Webhook) -> None:
    """The shipped rules and Alertmanager's example, for a clock that runs faster."""
    values = faster(yaml.safe_load(FILE.read_text(encoding="utf-8")))
    values["thresholds"]["relist_stale_seconds"] = STALE
    values["alertmanager"] |= {
        "group_wait": f"{GROUP_WAIT}s",
        "receivers": {name: f"{hook.url}/{name}" for name in ("critical", "warning", "info")},
    }
    file = into / "values.yaml"
    file.write_text(yaml.safe_dump(values), encoding="utf-8")
    assert render(["--values", str(file), "--output", str(into)]) == 0


@dataclass(slots=True)
class Node:
    """A runtime that can be replaced, and the process that watches it."""

    name: str
    socket: Path
    port: int = field(default_factory=free_port)
    runtime: AsyncExitStack = field(default_factory=AsyncExitStack)
    exporter: Running | None = None

    async def run(self, options: Options) -> None:
        """Start the runtime, or replace it by another one on the same socket."""
        await self.runtime.aclose()
        await self.runtime.enter_async_context(simulated.run(options, self.socket))

    async def streams(self) -> bool:
        """Whether the exporter listens to the runtime."""
        try:
            page = await fetch(f"http://{LOOPBACK}:{self.port}/metrics")
        except aiohttp.ClientError:
            return False
        return 'shadow_pleg_stream_state{state="streaming"} 1.0' in page.text


@contextlib.asynccontextmanager
async def fleet(home: Path) -> AsyncIterator[dict[str, Node]]:
    """Healthy nodes, watched."""
    async with AsyncExitStack() as stack:
        nodes = {name: Node(name, home / f"{name}.sock") for name in NODES}
        for node in nodes.values():
            stack.push_async_callback(node.runtime.aclose)
            await node.run(HEALTHY)
            listen = f"--web.listen-address={LOOPBACK}:{node.port}"
            endpoint = f"--runtime-endpoint=unix://{node.socket}"
            serve = running("serve", listen, endpoint, *FLAGS)
            node.exporter = await stack.enter_async_context(serve)
        for node in nodes.values():
            await until(node.streams, f"{node.name} streams", seconds=PATIENCE, every=0.3)
        yield nodes


@contextlib.asynccontextmanager
async def kubelet() -> AsyncIterator[str]:
    """What rules read of a kubelet with the feature gate on; gives its address."""
    metrics = 'kubernetes_feature_enabled{name="EventedPLEG",stage="ALPHA"} 1\n'

    async def page(_: web.Request) -> web.Response:
        return web.Response(text=metrics)

    app = web.Application()
    app.router.add_get("/metrics", page)
    runner = web.AppRunner(app)
    await runner.setup()
    try:
        await web.TCPSite(runner, LOOPBACK, 0).start()
        yield f"{LOOPBACK}:{runner.addresses[0][1]}"
    finally:
        await runner.cleanup()


def scraping(into: Path, nodes: dict[str, Node], gate: str, alertmanager_url: str) -> Path:
    """Prometheus' configuration: the fleet, one kubelet, the rendered rules."""

    def target(address: str, node: str) -> dict[str, Any]:
        return {"targets": [address], "labels": {"node": node, "cluster": CLUSTER}}

    exporters = [target(f"{LOOPBACK}:{node.port}", node.name) for node in nodes.values()]
    config = {
        "global": {"scrape_interval": "1s", "scrape_timeout": "1s", "evaluation_interval": "1s"},
        "rule_files": [str(into / "rules.yaml")],
        "scrape_configs": [
            {"job_name": "shadow-pleg", "static_configs": exporters},
            {"job_name": "kubelet", "static_configs": [target(gate, "lossy")]},
        ],
        "alerting": {
            "alertmanagers": [
                {"static_configs": [{"targets": [alertmanager_url.removeprefix("http://")]}]}
            ]
        },
    }
    file = into / "prometheus.yml"
    file.write_text(yaml.safe_dump(config), encoding="utf-8")
    return file


async def evaluations(url: str) -> float:
    """How often Prometheus has evaluated the slowest of the groups."""
    text = (await fetch(f"{url}/metrics")).text
    counts = re.findall(r"^prometheus_rule_group_iterations_total\{.*\} (\S+)$", text, re.MULTILINE)
    assert counts
    return min(map(float, counts))


async def settled(url: str, times: int) -> None:
    """Wait until whatever is true now has been evaluated so many times."""
    enough = await evaluations(url) + times

    async def passed() -> bool:
        return await evaluations(url) >= enough

    await until(passed, f"{times} evaluations", seconds=PATIENCE, every=0.5)


async def firing(url: str) -> set[tuple[str, str]]:
    """What Prometheus says fires."""
    found = await ask(f"{url}/api/v1/query", query='ALERTS{alertstate="firing"}')
    labels = [each["metric"] for each in found["data"]["result"]]
    return {(each["alertname"], each.get("node", "")) for each in labels}


async def held_back(url: str, *, held: bool = True) -> set[tuple[str, str]]:
    """What Alertmanager has and does not deliver; or the rest, delivered or about to be."""
    chosen = {"active": str(not held).lower(), "inhibited": str(held).lower()}
    found = await ask(f"{url}/api/v2/alerts", **chosen)
    return {(each["labels"]["alertname"], each["labels"].get("node", "")) for each in found}


async def trouble(nodes: dict[str, Node]) -> None:
    """All at once, each on a node of its own."""
    exporter = nodes["killed"].exporter
    assert exporter is not None
    exporter.process.kill()
    await nodes["stopped"].runtime.aclose()
    await nodes["disabled"].run(Options(pods=4, churn=4, events=Events.DISABLED))
    # Other pods than before: an id that comes again is late, whoever lost it.
    lossy = Options(pods=4, containers_per_pod=2, churn=4, drop=0.4, seed=2)
    await nodes["lossy"].run(lossy)


# A minute of mostly waiting.
@pytest.mark.timeout(600)
async def test_each_trouble_is_one_page_and_health_is_none(
    prometheus_command: Command, alertmanager_command: Command, tmp_path: Path
) -> None:
    """A loss, a stopped runtime, a killed exporter, a disabled stream: one delivery each."""
    async with AsyncExitStack() as stack:
        hook = await stack.enter_async_context(webhook())
        gate = await stack.enter_async_context(kubelet())
        nodes = await stack.enter_async_context(fleet(stack.enter_context(short_folder())))
        rendered(tmp_path, hook)
        config = tmp_path / "alertmanager.yml"
        pager = await stack.enter_async_context(
            alertmanager(alertmanager_command, tmp_path, config)
        )
        config = scraping(tmp_path, nodes, gate, pager)
        url = await stack.enter_async_context(prometheus(prometheus_command, tmp_path, config))
        for daemon in ("alertmanager", "prometheus"):
            stack.enter_context(log_of(daemon, (tmp_path / f"{daemon}.log").read_text))

        await settled(url, HEALTHY_FOR)
        assert await firing(url) == set()
        assert hook.delivered == []

        await trouble(nodes)
        await until(lambda: hook.firing >= PAGES, f"all of {PAGES}", seconds=PATIENCE, every=0.3)
        await settled(url, SETTLED)
        assert await held_back(pager) >= HELD_BACK
        assert await held_back(pager, held=False) == {page[1:] for page in PAGES}
        assert {tuple(body["groupLabels"]) for body in hook.bodies} == {("alertname", "cluster")}
        assert sorted(hook.delivered) == sorted((*page, "firing") for page in PAGES)
        assert len(hook.bodies) == len(PAGES)
