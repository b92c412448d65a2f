"""`shadow-pleg check` with a kubelet to ask: what it says, and what to do about it."""

import pytest

from exporter.commands.check import CheckLine, examine
from exporter.kubelet.state import MEANINGS
from exporter.model.labels import Configuration
from exporter.settings.config import Config
from simulator.options import Options
from tests.support import kubelets as server
from tests.support.kubelets import FakeKubelet, KubeletPage, kubelet
from tests.support.runtimes import DISABLED, EXCLUSIVE, QUIET, UNIMPLEMENTED, simulated
from tests.support.scripted_runtime import ScriptedServer

pytestmark = pytest.mark.virtual_time


async def lines(runtime: ScriptedServer, fake: FakeKubelet) -> dict[str, CheckLine]:
    """What the check says, by subject."""
    config = Config(runtime_endpoint=runtime.socket, kubelet_metrics_url=fake.url)
    return {line.subject: line for line in await examine(config)}


ASKS, LEAVES, HIDES = KubeletPage(gate=True), KubeletPage(gate=False), KubeletPage(gate=None)
ON = "kubelet v1.33.4, its gate EventedPLEG is on, 3 lifecycle events discarded"
OFF = ON.replace(" is on", " is off")
UNLISTED = "does not list the gate EventedPLEG"
SWITCH = "switch the gate off; or"
REFUSED = "takes events from the kubelet (containerd#7318): relist only"
BOTH_ON, BOTH_OFF = MEANINGS[Configuration.BOTH_ON], MEANINGS[Configuration.BOTH_OFF]
RUNTIME_ONLY, GATE_ONLY = MEANINGS[Configuration.RUNTIME_ONLY], MEANINGS[Configuration.GATE_ONLY]
# Of one line, the level, words in it, and how its remedy begins; without a level it is not there.
SAID = (
    (QUIET, ASKS, CheckLine("kubelet", "ok", ON)),
    (QUIET, LEAVES, CheckLine("kubelet", "ok", OFF)),
    (QUIET, HIDES, CheckLine("kubelet", "note", UNLISTED, "before Kubernetes 1.26 there is")),
    (QUIET, HIDES, CheckLine("both", "", "")),
    (QUIET, ASKS, CheckLine("both", "ok", BOTH_ON)),
    (QUIET, LEAVES, CheckLine("both", "ok", RUNTIME_ONLY)),
    (DISABLED, LEAVES, CheckLine("both", "ok", BOTH_OFF)),
    # The kubelet relies on what is not there.
    (DISABLED, ASKS, CheckLine("both", "note", GATE_ONLY, f"{SWITCH} put enable_pod")),
    (UNIMPLEMENTED, ASKS, CheckLine("both", "note", GATE_ONLY, f"{SWITCH} containerd announces")),
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
