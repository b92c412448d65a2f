"""`shadow-pleg check` with a kubelet to ask: what it says, and what to do about it."""

from __future__ import annotations

from typing import Any

import pytest

from exporter.commands.check import Line, examine
from exporter.kubelet.state import MEANINGS, Configuration
from exporter.settings.config import Config
from exporter.simulator.options import Events, Options, Runtime
from tests.support import kubelet_server as server
from tests.support.kubelet_pages import KubeletPage
from tests.support.kubelet_server import FakeKubelet, kubelet
from tests.support.runtimes import simulated
from tests.support.scripted_runtime import ScriptedServer

pytestmark = pytest.mark.virtual_time

EXCLUSIVE = Options(churn=0, runtime=Runtime.CONTAINERD_1)
CRIO = Options(churn=0, runtime=Runtime.CRIO)
CRIO_WITHOUT = Options(churn=0, runtime=Runtime.CRIO, events=Events.DISABLED)
BROADCAST = Options(churn=0)
OLD = Options(churn=0, events=Events.UNIMPLEMENTED)


async def lines(runtime: ScriptedServer, fake: FakeKubelet, **others: Any) -> dict[str, Line]:  # noqa: ANN401 - settings
    """What the check says, by subject."""
    config = Config(runtime_endpoint=runtime.socket, kubelet_metrics_url=fake.url, **others)
    return {line.subject: line for line in await examine(config)}


@pytest.mark.parametrize(
    ("options", "page", "found"),
    [
        (BROADCAST, KubeletPage(gate=True), Configuration.BOTH_ON),
        (BROADCAST, KubeletPage(gate=False), Configuration.RUNTIME_ONLY),
        (CRIO_WITHOUT, KubeletPage(gate=False), Configuration.BOTH_OFF),
        (EXCLUSIVE, KubeletPage(gate=True), Configuration.BOTH_ON),
        (CRIO, KubeletPage(gate=False), Configuration.RUNTIME_ONLY),
    ],
)
async def test_what_fits_together_is_told(
    options: Options, page: KubeletPage, found: Configuration
) -> None:
    """The gate, and what follows with this runtime."""
    async with simulated(options) as runtime, kubelet(page) as fake:
        said = await lines(runtime, fake)
    word = "on" if page.gate else "off"
    assert said["kubelet"] == Line(
        "kubelet",
        "ok",
        f"kubelet v1.33.4, its gate EventedPLEG is {word}, 3 lifecycle events discarded",
    )
    assert said["both"] == Line("both", "ok", MEANINGS[found])


@pytest.mark.parametrize("options", [CRIO_WITHOUT, OLD])
async def test_a_half_configured_node_is_told_what_to_do(options: Options) -> None:
    """The kubelet relies on what is not there."""
    async with simulated(options) as runtime, kubelet(KubeletPage(gate=True)) as fake:
        both = (await lines(runtime, fake))["both"]
    assert (both.level, both.text) == ("note", MEANINGS[Configuration.GATE_ONLY])
    assert both.remedy.startswith("switch the gate off; or ")
    assert ("enable_pod_events = true" in both.remedy) == (options is CRIO_WITHOUT)


async def test_a_gate_that_is_not_listed_is_no_answer() -> None:
    """Neither on nor off, and it says why that may be."""
    async with simulated() as runtime, kubelet(KubeletPage(gate=None)) as fake:
        said = await lines(runtime, fake)
    assert said["kubelet"].level == "note"
    assert "does not list the gate EventedPLEG" in said["kubelet"].text
    assert "before Kubernetes 1.26" in said["kubelet"].remedy
    assert "both" not in said


async def test_a_kubelet_that_forbids_it_is_noted_with_the_rule_that_is_needed() -> None:
    """The node can be watched without it: that is a note."""
    async with simulated() as runtime, kubelet() as fake:
        fake.answer = server.status(403)
        said = await lines(runtime, fake)
    assert said["kubelet"].level == "note"
    assert "allow `get` on `nodes/metrics`" in said["kubelet"].text
    assert said["stream"].level == "ok"
    assert "both" not in said


async def test_a_shared_stream_is_taken_where_the_kubelet_leaves_it_and_not_tried() -> None:
    """A trial would take an event along."""
    async with simulated(EXCLUSIVE) as runtime, kubelet() as fake:
        said = await lines(runtime, fake)
        assert runtime.runtime.channel.subscriptions == 0
    assert said["stream"].level == "ok"
    assert said["stream"].text.endswith("serve takes it while the kubelet leaves it")
    assert "events" not in said


async def test_a_shared_stream_that_the_kubelet_wants_is_not_safe() -> None:
    """The same runtime, another kubelet."""
    async with simulated(EXCLUSIVE) as runtime, kubelet(KubeletPage(gate=True)) as fake:
        stream = (await lines(runtime, fake))["stream"]
    assert stream.level == "fail"
    assert stream.text.endswith("not safe to subscribe: of the kubelet, its gate EventedPLEG is on")
    assert "known to leave it" in stream.remedy


async def test_without_the_flag_nothing_is_said_of_the_kubelet() -> None:
    """It is not polled."""
    async with simulated() as runtime, kubelet() as fake:
        found = await examine(Config(runtime_endpoint=runtime.socket))
        assert not fake.requests
    assert not {"kubelet", "both"} & {line.subject for line in found}
