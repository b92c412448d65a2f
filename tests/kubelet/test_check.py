"""`shadow-pleg check` with a kubelet to ask: what it says, and what to do about it."""

from typing import Any

import pytest

from exporter.commands.check import CheckLine, examine
from exporter.kubelet.state import MEANINGS
from exporter.model.labels import Configuration
from exporter.settings.config import Config
from simulator.options import Events, Options, Runtime
from tests.support import kubelets as server
from tests.support.kubelets import FakeKubelet, KubeletPage, kubelet
from tests.support.runtimes import simulated
from tests.support.scripted_runtime import ScriptedServer

pytestmark = pytest.mark.virtual_time

EXCLUSIVE = Options(churn=0, runtime=Runtime.CONTAINERD_1)
CRIO_WITHOUT = Options(churn=0, runtime=Runtime.CRIO, events=Events.DISABLED)
BROADCAST = Options(churn=0)
OLD = Options(churn=0, events=Events.UNIMPLEMENTED)


async def lines(runtime: ScriptedServer, fake: FakeKubelet, **others: Any) -> dict[str, CheckLine]:  # noqa: ANN401 - settings
    """What the check says, by subject."""
    config = Config(runtime_endpoint=runtime.socket, kubelet_metrics_url=fake.url, **others)
    return {line.subject: line for line in await examine(config)}


ASKS, LEAVES, HIDES = KubeletPage(gate=True), KubeletPage(gate=False), KubeletPage(gate=None)
ON = "kubelet v1.33.4, its gate EventedPLEG is on, 3 lifecycle events discarded"
OFF = ON.replace(" is on", " is off")
UNLISTED = "does not list the gate EventedPLEG"
REFUSED = "takes events from the kubelet (containerd#7318): relist only"
BOTH_ON, BOTH_OFF = MEANINGS[Configuration.BOTH_ON], MEANINGS[Configuration.BOTH_OFF]
RUNTIME_ONLY, GATE_ONLY = MEANINGS[Configuration.RUNTIME_ONLY], MEANINGS[Configuration.GATE_ONLY]
# Of one line, the level, words in it, and how its remedy begins; without a level it is not there.
SAID = (
    (BROADCAST, ASKS, CheckLine("kubelet", "ok", ON)),
    (BROADCAST, LEAVES, CheckLine("kubelet", "ok", OFF)),
    (BROADCAST, HIDES, CheckLine("kubelet", "note", UNLISTED, "before Kubernetes 1.26 there is")),
    (BROADCAST, HIDES, CheckLine("both", "", "")),
    (BROADCAST, ASKS, CheckLine("both", "ok", BOTH_ON)),
    (BROADCAST, LEAVES, CheckLine("both", "ok", RUNTIME_ONLY)),
    (CRIO_WITHOUT, LEAVES, CheckLine("both", "ok", BOTH_OFF)),
    # The kubelet relies on what is not there.
    (
        CRIO_WITHOUT,
        ASKS,
        CheckLine("both", "note", GATE_ONLY, "switch the gate off; or put enable_pod"),
    ),
    (
        OLD,
        ASKS,
        CheckLine("both", "note", GATE_ONLY, "switch the gate off; or containerd announces"),
    ),
    # Something else may use it, and a trial would take an event along.
    (EXCLUSIVE, LEAVES, CheckLine("stream", "fail", REFUSED, "upgrade the runtime, or, where")),
    (EXCLUSIVE, LEAVES, CheckLine("events", "", "")),
    (EXCLUSIVE, ASKS, CheckLine("stream", "fail", REFUSED, "upgrade the runtime, or, where")),
)


@pytest.mark.parametrize(("options", "page", "expected"), SAID)
async def test_check_says_what_fits_together_and_what_to_do_if_not(
    options: Options, page: KubeletPage, expected: CheckLine
) -> None:
    """The gate, and what follows with this runtime."""
    async with simulated(options) as runtime, kubelet(page) as fake:
        said = await lines(runtime, fake)
        assert options is not EXCLUSIVE or runtime.runtime.channel.subscriptions == 0
    line = said.get(expected.subject, CheckLine(expected.subject, "", ""))
    assert line.level == expected.level
    assert expected.text in line.text
    assert line.remedy.startswith(expected.remedy)
    assert bool(line.remedy) == bool(expected.remedy)


async def test_a_kubelet_that_forbids_it_is_noted_with_the_rule_that_is_needed() -> None:
    """The node can be watched without it: that is a note."""
    async with simulated() as runtime, kubelet() as fake:
        fake.answer = server.status(403)
        said = await lines(runtime, fake)
    assert said["kubelet"].level == "note"
    assert "allow `get` on `nodes/metrics`" in said["kubelet"].text
    assert said["stream"].level == "ok"
    assert "both" not in said
