"""From a runtime that loses events to a page that is delivered, through the real parts.

The rules are those that ship, rendered of the values that ship with every duration divided by 60:
an hour passes in a minute. Runtimes are simulated; exporters, Prometheus and Alertmanager are
processes of their own.
"""

import contextlib
import re
from collections.abc import AsyncIterator
from contextlib import AbstractAsyncContextManager, AsyncExitStack
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any, Final

import aiohttp
import pytest
import yaml
from aiohttp import web

from alerts.__main__ import main as render
from alerts.values import FILE, seconds
from simulator.churn import simulated_node
from simulator.options import Events, Options
from testbed.servers import LOOPBACK, Command, free_port, prometheus, served
from testbed.waiting import until
from tests.support.alertmanager import Webhook, alertmanager, ask, webhook
from tests.support.commands import Running, fetch, running
from tests.support.runtimes import short_folder

FASTER: Final = 60
HEALTHY: Final = Options(pods=4, containers_per_pod=2, churn=4)
NODES: Final = ("healthy", "lossy", "stopped", "killed", "disabled")
CLUSTER: Final = "loopback"
# The exporters are as much faster as the rules are, but for the grace: a busy machine is late. With
# the share of the time that relists may take left at 1 %, they would be stretched to the rules'
# three seconds there.
FLAGS: Final = (
    "--relist-period=500ms",
    f"--relist-max-duty={FASTER}%",
    "--missed-grace=1s",
    "--log.level=error",
)
# Seconds; the shipped threshold would be 3 s here, and with 20 processes on two cores an exporter's
# relists were 3.7 s late.
STALE_SECONDS: Final = 15
# Nothing is delivered until all alerts have arrived, however long they take to fire: then the
# configuration is loaded again, with a time in which Alertmanager has seen all that inhibits.
HELD: Final = "group_wait: 1h"
RELEASED: Final = "group_wait: 3s"
# Rule evaluations, a second apart at best, after which what is wrong with a whole cluster that is
# healthy would fire: it must hold for 2 s. The healthy node is healthy to the end.
HEALTHY_FOR: Final = 5
# And after which a group of alerts would have been delivered again: group_interval is 5 s here.
SETTLED: Final = 8
# A pass never waits so long: that is for a machine that is busy with other tests.
PATIENCE_SECONDS: Final = 180
PAGES: Final = {
    ("critical", "ShadowPlegMissedEvents", "lossy"),
    ("warning", "ShadowPlegRelistStale", "stopped"),
    ("warning", "ShadowPlegExporterDown", "killed"),
    ("warning", "ShadowPlegGateWithoutEvents", "disabled"),
}
# What also fires, and is inhibited: a symptom on the same node or in the same cluster.
INHIBITED: Final = {
    ("ShadowPlegBudgetBurn", ""),
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
    values["thresholds"]["relist_stale_seconds"] = STALE_SECONDS
    receivers = {name: f"{hook.url}/{name}" for name in ("critical", "warning", "info")}
    values["alertmanager"] |= {"group_wait": HELD.split()[1], "receivers": receivers}
    file = into / "values.yaml"
    file.write_text(yaml.safe_dump(values), encoding="utf-8")
    assert render(["--values", str(file), "--output", str(into)]) == 0


@dataclass(slots=True)
class WatchedNode:
    """A runtime that can be replaced, and the process that watches it."""

    name: str
    socket: Path
    port: int = field(default_factory=free_port)
    runtime: AsyncExitStack = field(default_factory=AsyncExitStack)
    exporter: Running | None = None

    async def run(self, options: Options) -> None:
        """Start the runtime, or replace it by another one on the same socket."""
        await self.runtime.aclose()
        await self.runtime.enter_async_context(simulated_node(options, self.socket))

    async def streams(self) -> bool:
        """Whether the exporter listens to the runtime."""
        try:
            page = await fetch(f"http://{LOOPBACK}:{self.port}/metrics")
        except aiohttp.ClientError:
            return False
        return 'shadow_pleg_stream_state{state="streaming"} 1.0' in page.text


@contextlib.asynccontextmanager
async def fleet(home: Path) -> AsyncIterator[dict[str, WatchedNode]]:
    """Healthy nodes, watched."""
    async with AsyncExitStack() as stack:
        nodes = {name: WatchedNode(name, home / f"{name}.sock") for name in NODES}
        for node in nodes.values():
            stack.push_async_callback(node.runtime.aclose)
            await node.run(HEALTHY)
            listen = f"--web.listen-address={LOOPBACK}:{node.port}"
            endpoint = f"--runtime-endpoint=unix://{node.socket}"
            serve = running("serve", listen, endpoint, *FLAGS)
            node.exporter = await stack.enter_async_context(serve)
        for node in nodes.values():
            await until(node.streams, f"{node.name} streams", seconds=PATIENCE_SECONDS, every=0.3)
        yield nodes


def kubelet() -> AbstractAsyncContextManager[str]:
    """What rules read of a kubelet with the feature gate on; gives its URL."""

    async def page(_: web.Request) -> web.Response:
        return web.Response(text='kubernetes_feature_enabled{name="EventedPLEG",stage="ALPHA"} 1\n')

    app = web.Application()
    app.router.add_get("/metrics", page)
    return served(app)


def scraping(into: Path, nodes: dict[str, WatchedNode], gate: str, pager: str) -> Path:
    """Prometheus' configuration: the fleet, two kubelets, the rendered rules."""

    def target(address: str, node: str) -> dict[str, Any]:
        return {"targets": [address], "labels": {"node": node, "cluster": CLUSTER}}

    kubelets = [target(gate.removeprefix("http://"), node) for node in ("lossy", "disabled")]
    exporters = [target(f"{LOOPBACK}:{node.port}", node.name) for node in nodes.values()]
    managers = [{"static_configs": [{"targets": [pager.removeprefix("http://")]}]}]
    config = {
        "global": {"scrape_interval": "1s", "scrape_timeout": "1s", "evaluation_interval": "1s"},
        "rule_files": [str(into / "rules.yaml")],
        "scrape_configs": [
            {
                "job_name": "shadow-pleg",
                "static_configs": exporters,
            },
            {"job_name": "kubelet", "static_configs": kubelets},
        ],
        "alerting": {"alertmanagers": managers},
    }
    file = into / "prometheus.yml"
    file.write_text(yaml.safe_dump(config), encoding="utf-8")
    return file


async def settled(url: str, times: int) -> None:
    """Wait until all that is true now has been evaluated so many times."""

    async def evaluations() -> float:
        text = (await fetch(f"{url}/metrics")).text
        name = "prometheus_rule_group_iterations_total"
        # What the report reads is recorded every five minutes, and no alert depends on it.
        groups = re.findall(rf"^{name}\{{(.*)\}} (\S+)$", text, re.MULTILINE)
        return min(float(number) for group, number in groups if "recording.report" not in group)

    enough = await evaluations() + times

    async def passed() -> bool:
        return await evaluations() >= enough

    await until(passed, f"{times} evaluations", seconds=PATIENCE_SECONDS, every=0.5)


async def firing(url: str) -> set[tuple[str, str]]:
    """What Prometheus says fires."""
    found = await ask(f"{url}/api/v1/query", query='ALERTS{alertstate="firing"}')
    labels = [each["metric"] for each in found["data"]["result"]]
    return {(each["alertname"], each.get("node", "")) for each in labels}


async def received(url: str, *, inhibited: bool) -> set[tuple[str, str]]:
    """What Alertmanager has and inhibits; or what it delivers, or will."""
    chosen = {"active": str(not inhibited).lower(), "inhibited": str(inhibited).lower()}
    found = await ask(f"{url}/api/v2/alerts", **chosen)
    return {(each["labels"]["alertname"], each["labels"].get("node", "")) for each in found}


async def trouble(nodes: dict[str, WatchedNode]) -> None:
    """All at once, each on a node of its own."""
    exporter = nodes["killed"].exporter
    assert exporter is not None
    exporter.process.kill()
    await nodes["stopped"].runtime.aclose()
    await nodes["disabled"].run(Options(pods=4, churn=4, events=Events.DISABLED))
    # Other pods than before: an id that comes again is late, whichever runtime lost it.
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
        routes = tmp_path / "alertmanager.yml"
        pager = await stack.enter_async_context(
            alertmanager(alertmanager_command, tmp_path, routes)
        )
        config = scraping(tmp_path, nodes, gate, pager)
        url = await stack.enter_async_context(prometheus(prometheus_command, tmp_path, config))

        await settled(url, HEALTHY_FOR)
        assert await firing(url) == set()

        await trouble(nodes)
        paged = {page[1:] for page in PAGES}

        async def has_all() -> bool:
            inhibited = await received(pager, inhibited=True)
            return inhibited >= INHIBITED and await received(pager, inhibited=False) >= paged

        await until(has_all, "Alertmanager has all alerts", seconds=PATIENCE_SECONDS, every=0.3)
        assert hook.delivered == []
        text = routes.read_text(encoding="utf-8")
        assert text.count(HELD) == 1
        routes.write_text(text.replace(HELD, RELEASED), encoding="utf-8")
        await ask(f"{pager}/-/reload", {})

        def delivered() -> bool:
            return hook.firing >= PAGES

        await until(delivered, f"all of {PAGES}", seconds=PATIENCE_SECONDS, every=0.3)
        await settled(url, SETTLED)
        assert await received(pager, inhibited=False) == paged
        assert {tuple(body["groupLabels"]) for body in hook.bodies} == {("alertname", "cluster")}
        assert sorted(hook.delivered) == sorted((*page, "firing") for page in PAGES)
        assert len(hook.bodies) == len(PAGES)
