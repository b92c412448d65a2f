"""What is made of the kubelet's answers: for how long they count, and for what."""

from itertools import product
from pathlib import Path

import pytest
import yaml

from exporter.kubelet.state import MEANINGS, Kubelet, KubeletReading, configuration_of
from exporter.model.labels import (
    Announces,
    Configuration,
    Gate,
    KubeletStream,
    Problem,
    Reliance,
    StreamState,
)
from exporter.node.state import Node, announces_of
from exporter.runtimes.known import profile_of
from exporter.runtimes.kubelets import ActsOn

pytestmark = pytest.mark.quick

PERIOD, BELIEVED = 30.0, 100.0
PROFILES = {
    "always": profile_of("containerd", "1.7.24"),
    "configured": profile_of("cri-o", "1.27.0"),
    "never": profile_of("containerd", "1.6.20"),
    "stranger": profile_of("hyperspace", "9.1"),
}
TABLES = yaml.safe_load(Path(__file__).with_name("states.yaml").read_text(encoding="utf-8"))


def rows(table: str) -> list[tuple[list[str], str]]:
    """The words of each row, and what follows from them."""
    return [(words.split(" "), found) for found, given in TABLES[table].items() for words in given]


def said(gate: Gate, asked: float = 0.0) -> KubeletReading:
    """An answer."""
    return KubeletReading(asked, gate)


def kubelet(*answers: KubeletReading) -> Kubelet:
    """A kubelet that gave these answers."""
    one = Kubelet(PERIOD)
    for answer in answers:
        one.record(answer, wall=answer.requested)
    return one


def test_the_configuration_is_known_only_if_both_sides_are() -> None:
    """Both on, both off, or half; each with words of its own."""
    known = {
        (Gate.ON, Announces.ON): Configuration.BOTH_ON,
        (Gate.OFF, Announces.OFF): Configuration.BOTH_OFF,
        (Gate.ON, Announces.OFF): Configuration.GATE_ONLY,
        (Gate.OFF, Announces.ON): Configuration.RUNTIME_ONLY,
    }
    for pair in product(Gate, Announces):
        assert configuration_of(*pair) is known.get(pair, Configuration.UNKNOWN)
    assert len(set(MEANINGS.values())) == len(Configuration)


@pytest.mark.parametrize(("gate", "known"), [(Gate.ON, True), (Gate.OFF, False)])
def test_what_a_loss_costs_is_known_of_a_kubelet_that_uses_events(
    gate: Gate,
    known: bool,  # noqa: FBT001 - a row of the table
) -> None:
    """As long as its last answer is believed."""
    one = kubelet(KubeletReading(0.0, gate, version="v1.37.0"))
    assert (one.generation(BELIEVED) is not None) is known
    assert one.generation(BELIEVED + 1) is None


@pytest.mark.parametrize(("words", "found"), rows("reliance"))
def test_what_a_kubelet_relies_on_follows_from_its_gate_and_version(
    words: list[str], found: str
) -> None:
    """As long as its last answer is believed."""
    gate, version = words
    one = kubelet(KubeletReading(0.0, Gate(gate), version=version))
    assert one.reliance(BELIEVED) is Reliance(found)
    assert one.reliance(BELIEVED + 1) is Reliance.UNKNOWN
    assert Kubelet(PERIOD).reliance(0.0) is Reliance.UNKNOWN


@pytest.mark.parametrize(("words", "found"), rows("announces"))
def test_whether_the_runtime_announces_is_shown_by_its_stream_or_known_before(
    words: list[str], found: str
) -> None:
    """Of one that is never asked, its profile may know."""
    profile, state, known = words
    shown = announces_of(StreamState(state), PROFILES[profile], Announces(known))
    assert shown is Announces(found)


def test_a_node_whose_kubelet_is_not_polled_has_no_known_configuration() -> None:
    """There may be no kubelet."""
    node = Node(announces=Announces.ON)
    assert node.configuration(0.0) is Configuration.UNKNOWN
    node.kubelet = kubelet(said(Gate.ON))
    assert node.configuration(0.0) is Configuration.BOTH_ON


@pytest.mark.parametrize("gate", [Gate.ON, Gate.OFF, Gate.UNLISTED])
def test_an_answer_counts_until_it_is_too_old(gate: Gate) -> None:
    """Three periods and a reading's timeout; failures alone change nothing."""
    one = kubelet(said(gate, asked=10.0))
    one.failed(Problem.TIMEOUT, "slow")
    assert one.gate(10.0 + BELIEVED) is gate
    assert one.gate(10.1 + BELIEVED) is Gate.UNKNOWN
    assert Kubelet(PERIOD).gate(0.0) is Gate.UNKNOWN


def test_the_state_is_described_in_words() -> None:
    """For the log, the check and the page."""
    one = Kubelet(PERIOD)
    assert one.describe(0.0) == "it has not answered yet"
    one.failed(Problem.ABSENT, "no answer")
    assert one.describe(0.0) == "no answer"
    one.record(KubeletReading(0.0, Gate.OFF, "v1.33.4", discards=3.0), wall=0.0)
    off = "kubelet v1.33.4, its gate EventedPLEG is off, 3 lifecycle events discarded"
    assert one.describe(0.0) == off
    one.failed(Problem.TIMEOUT, "too slow")
    assert one.describe(0.0) == f"{off}; too slow"
    assert one.describe(BELIEVED + 1) == "too slow"


@pytest.mark.parametrize(
    ("errors", "rest"),
    [(0.0, ""), (4.0, ", 4 stream errors"), (5.0, ", 5 stream errors: it has given the stream up")],
)
def test_a_kubelet_that_gave_up_the_stream_is_described_as_such(errors: float, rest: str) -> None:
    """Its gate says on, and it relists all the same."""
    one = KubeletReading(0.0, Gate.ON, "v1.36.2", stream_errors=errors, events=10.0)
    start = f"kubelet v1.36.2, its gate EventedPLEG is on, 10 events received{rest}"
    assert one.describe() == f"{start}, it acts on {ActsOn.ALL.value}"
    assert one.gave_up == (errors == 5.0)


@pytest.mark.parametrize(("words", "found"), rows("streams"))
def test_a_kubelets_counters_show_whether_it_is_connected(words: list[str], found: str) -> None:
    """As far as they can; an answer that is too old shows nothing."""
    gate, version, *numbers = words
    connections, errors = (None if each == "-" else float(each) for each in numbers)
    one = KubeletReading(0.0, Gate(gate), version, stream_errors=errors, connections=connections)
    assert one.stream is kubelet(one).stream(BELIEVED) is KubeletStream(found)
    assert kubelet(one).stream(BELIEVED + 1) is KubeletStream.UNKNOWN
    assert Kubelet(PERIOD).stream(0.0) is KubeletStream.UNKNOWN
