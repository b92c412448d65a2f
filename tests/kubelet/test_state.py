"""What is made of the kubelet's answers: for how long they count, and for what."""

from itertools import product

import pytest
from hypothesis import given
from hypothesis import strategies as st

from exporter.kubelet.comparison import Comparing, Comparison
from exporter.kubelet.state import (
    MEANINGS,
    Announces,
    Configuration,
    Gate,
    Kubelet,
    KubeletReading,
    KubeletStream,
    PollingTerms,
    Problem,
    configuration_of,
    terms_of,
)
from exporter.node.state import Node, RuntimeInfo, StreamState, announces_of
from exporter.pleg.kubelets import ActsOn
from exporter.pleg.profiles import Profile, StreamKind, profile_of

pytestmark = pytest.mark.quick

STARTED = 1_763_700_000.0
PERIOD, BELIEVED, TRUSTED = 30.0, 100.0, 4.0
TERMS = PollingTerms(PERIOD, BELIEVED, TRUSTED)
# One that always announces, one that is configured to, and one that never does.
ALWAYS = profile_of("containerd", "1.7.24")
TOLD = profile_of("cri-o", "1.27.0")
NEVER = profile_of("containerd", "1.6.20")
UNKNOWN = profile_of("hyperspace", "9.1")


def said(
    gate: Gate = Gate.OFF, asked: float = 0.0, started: float | None = STARTED
) -> KubeletReading:
    """An answer."""
    return KubeletReading(asked, gate, started)


def kubelet(*answers: KubeletReading) -> Kubelet:
    """A kubelet that gave these answers."""
    one = Kubelet(TERMS)
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


@pytest.mark.parametrize(
    ("profile", "state", "known", "found"),
    [
        (TOLD, StreamState.STREAMING, Announces.OFF, Announces.ON),
        (TOLD, StreamState.DISABLED, Announces.ON, Announces.OFF),
        (NEVER, StreamState.UNSUPPORTED, Announces.UNKNOWN, Announces.OFF),
        (ALWAYS, StreamState.REFUSED, Announces.UNKNOWN, Announces.ON),
        (NEVER, StreamState.REFUSED, Announces.UNKNOWN, Announces.OFF),
        (TOLD, StreamState.REFUSED, Announces.UNKNOWN, Announces.UNKNOWN),
        (UNKNOWN, StreamState.REFUSED, Announces.UNKNOWN, Announces.UNKNOWN),
        (TOLD, StreamState.REFUSED, Announces.ON, Announces.ON),
        (ALWAYS, StreamState.BACKOFF, Announces.OFF, Announces.OFF),
        (ALWAYS, StreamState.CONNECTING, Announces.UNKNOWN, Announces.UNKNOWN),
    ],
)
def test_whether_the_runtime_announces_is_shown_by_its_stream_or_known_before(
    profile: Profile, state: StreamState, known: Announces, found: Announces
) -> None:
    """Of one that is never asked, its profile may know."""
    assert announces_of(state, profile, known) is found


def test_a_node_whose_kubelet_is_not_polled_has_no_known_configuration() -> None:
    """There may be no kubelet."""
    node = Node(announces=Announces.ON)
    assert node.configuration(0.0) is Configuration.UNKNOWN
    assert node.comparing(0.0) is Comparing.UNKNOWN
    node.kubelet = kubelet(said(Gate.ON))
    assert node.configuration(0.0) is Configuration.BOTH_ON


def test_counts_are_compared_for_as_long_as_an_answer_counts() -> None:
    """And only with a stream that brings each subscriber every event."""
    node = Node(kubelet=kubelet(said(Gate.ON)), comparison=Comparison(5.0))
    assert node.comparing(0.0) is Comparing.UNKNOWN
    reading = KubeletReading(0.0, Gate.ON, STARTED, events=1.0)
    for kind, state in (
        (StreamKind.NONE, Comparing.NOT_SUBSCRIBED),
        (StreamKind.EXCLUSIVE, Comparing.SHARED),
        (StreamKind.BROADCAST, Comparing.COMPARING),
    ):
        node.runtime = RuntimeInfo("containerd", "2.1.9", "v1", kind)
        node.stream = StreamState.REFUSED if kind is StreamKind.NONE else StreamState.STREAMING
        assert node.comparison is not None
        node.comparison.read(reading, node.ours(0.0))
        assert node.comparing(0.0) is state
    assert node.comparing(BELIEVED + 1) is Comparing.UNKNOWN


@pytest.mark.parametrize("gate", [Gate.ON, Gate.OFF, Gate.UNLISTED])
def test_an_answer_counts_until_it_is_too_old(gate: Gate) -> None:
    """Then nothing is known; failures alone change nothing."""
    one = kubelet(said(gate, asked=10.0))
    one.failed(Problem.TIMEOUT, "slow")
    assert one.gate(10.0 + BELIEVED) is gate
    assert one.gate(10.1 + BELIEVED) is Gate.UNKNOWN
    assert Kubelet(TERMS).gate(0.0) is Gate.UNKNOWN


@pytest.mark.parametrize(
    ("one", "why"),
    [
        (kubelet(said()), ""),
        (Kubelet(TERMS), "whether the kubelet wants them is not known"),
        (Kubelet(terms_of(PERIOD, 1.0), said()), "--missed-grace is too short to see a kubelet"),
        (kubelet(said(Gate.ON)), "of the kubelet, its gate EventedPLEG is on"),
        (kubelet(said(Gate.UNLISTED)), "of the kubelet, it does not list the gate EventedPLEG"),
        (kubelet(said(started=None)), "the kubelet does not say when it started"),
        (kubelet(said(), said(started=STARTED + 20)), "the kubelet may have been restarted"),
        (kubelet(said(), said(started=STARTED + 1)), ""),
        (kubelet(said(), said(started=STARTED + 20), said(started=STARTED + 20)), ""),
        (kubelet(said(started=None), said()), "the kubelet may have been restarted"),
        (kubelet(said(started=None), said(started=None)), "the kubelet does not say when"),
    ],
)
def test_a_shared_stream_is_ours_only_if_the_kubelet_is_known_to_leave_it(
    one: Kubelet, why: str
) -> None:
    """Whatever is not known speaks against it."""
    assert one.objection(0.0).startswith(why)
    assert bool(one.objection(0.0)) == bool(why)


def test_the_trust_in_an_answer_ends() -> None:
    """Counted from when it was asked for: later, another kubelet may have come."""
    one = kubelet(said(asked=10.0))
    assert one.trusted_until() == 10.0 + TRUSTED
    assert one.objection(10.0 + TRUSTED) == ""
    assert one.objection(10.1 + TRUSTED) == "the kubelet has not answered for 4s"
    assert Kubelet(TERMS).trusted_until() < 0


@pytest.mark.parametrize("problem", Problem)
def test_only_a_kubelet_that_is_not_there_is_doubted_at_once(problem: Problem) -> None:
    """That is how a restart looks; a slow or forbidding kubelet is the one that answered before."""
    one = kubelet(said())
    one.failed(problem, "why")
    gone = problem is Problem.ABSENT
    assert bool(one.objection(0.0)) == gone
    one.record(said(), wall=1.0)
    assert one.objection(0.0) == ""
    assert one.errors == {problem: 1}


@pytest.mark.parametrize(
    ("period", "grace", "trusted", "closely"),
    [
        (30.0, 5.0, 4.0, 2.0),
        (30.0, 60.0, 4.0, 2.0),
        (1.0, 5.0, 4.0, 1.0),
        (30.0, 2.5, 2.0, 1.0),
        (30.0, 2.4, 0.0, 30.0),
        (30.0, 0.0, 0.0, 30.0),
    ],
)
def test_trust_is_shorter_than_the_grace_and_twice_as_long_as_a_reading(
    period: float, grace: float, trusted: float, closely: float
) -> None:
    """So that no reading is needed twice, and nothing is judged before it ends."""
    terms = terms_of(period, grace)
    pause = Kubelet(terms, watched=True).pause()
    assert [terms.trusted, pause] == pytest.approx([trusted, closely])
    assert terms.believed > 3 * period


def test_a_grace_that_is_too_short_is_no_trust() -> None:
    """And it says what to give instead."""
    one = Kubelet(terms_of(PERIOD, 1.0))
    one.record(said(), wall=0.0)
    assert one.objection(0.0).endswith("give at least 2.5s")


@given(
    asked=st.floats(0, 1e6),
    lag=st.just(0.0) | st.floats(0, 10),
    grace=st.integers(0, 100).map(lambda tenths: tenths / 10),
    proven_after=st.just(0.0) | st.floats(0, 10),
)
def test_nothing_that_another_kubelet_took_is_judged_while_we_trust(
    asked: float, lag: float, grace: float, proven_after: float
) -> None:
    """A kubelet that came after the last answer cannot be blamed on the stream.

    What it took is proven later than it came, and settled by a relist that was requested later than
    the grace after that: then the trust is over.
    """
    one = Kubelet(terms_of(PERIOD, grace))
    one.record(said(asked=asked), wall=0.0)
    came = asked + lag
    settled = came + proven_after + grace
    if one.terms.trusted:
        assert one.trusted_until() < settled


def test_it_is_asked_often_only_while_a_stream_depends_on_it() -> None:
    """And less and less often where that fails: the kubelet has other work."""
    one = kubelet(said())
    assert one.pause() == PERIOD
    one.watched = True
    assert one.pause() == TRUSTED / 2
    pauses = []
    for _ in range(40):
        one.failed(Problem.FORBIDDEN, "why")
        pauses.append(one.pause())
    assert pauses[:4] == [4.0, 8.0, 16.0, PERIOD]
    assert set(pauses[3:]) == {PERIOD}
    one.record(said(Gate.ON), wall=0.0)
    assert one.pause() == PERIOD
    assert Kubelet(TERMS, watched=True).pause() == TRUSTED / 2


def test_it_was_asked_once_it_has_answered_or_failed() -> None:
    """Until then one may wait for it."""
    one, other = Kubelet(TERMS), kubelet(said())
    assert (one.polled, other.polled) == (False, True)
    one.failed(Problem.TIMEOUT, "slow")
    assert one.polled


def test_what_is_known_is_told_in_words() -> None:
    """For the log, the check and the page."""
    one = Kubelet(TERMS)
    assert one.describe(0.0) == "it has not answered yet"
    one.failed(Problem.ABSENT, "no answer")
    assert one.describe(0.0) == "no answer"
    one.record(KubeletReading(0.0, Gate.OFF, STARTED, "v1.33.4", discards=3.0), wall=0.0)
    off = "kubelet v1.33.4, its gate EventedPLEG is off, 3 lifecycle events discarded"
    assert one.describe(0.0) == off
    one.failed(Problem.TIMEOUT, "too slow")
    assert one.describe(0.0) == f"{off}; too slow"
    assert one.describe(BELIEVED + 1) == "too slow"


@pytest.mark.parametrize(
    ("errors", "tells"),
    [
        (0.0, "10 events received"),
        (4.0, "10 events received, 4 stream errors"),
        (5.0, "10 events received, 5 stream errors: it has given the stream up"),
    ],
)
def test_a_kubelet_that_gave_the_stream_up_is_told_as_such(errors: float, tells: str) -> None:
    """Its gate says on, and it relists all the same."""
    one = KubeletReading(0.0, Gate.ON, None, "v1.36.2", stream_errors=errors, events=10.0)
    start = f"kubelet v1.36.2, its gate EventedPLEG is on, {tells}"
    assert one.describe() == f"{start}, it acts on {ActsOn.ALL.value}"
    assert one.gave_up == (errors == 5.0)


@pytest.mark.parametrize(
    ("gate", "version", "connections", "errors", "stream"),
    [
        (Gate.OFF, "v1.36.2", 0.0, 0.0, KubeletStream.NOT_WANTED),
        (Gate.UNLISTED, "v1.25.0", None, None, KubeletStream.UNKNOWN),
        (Gate.ON, "v1.26.0", None, None, KubeletStream.UNKNOWN),
        (Gate.ON, "v1.36.2", 1.0, 0.0, KubeletStream.CONNECTED),
        (Gate.ON, "v1.36.2", 4.0, 4.0, KubeletStream.CONNECTED),
        (Gate.ON, "v1.36.2", 0.0, 0.0, KubeletStream.RETRYING),
        (Gate.ON, "v1.37.0", 5.0, 5.0, KubeletStream.GAVE_UP),
        # No generation that is known: only what any of them would count like this.
        (Gate.ON, "v1.40.0", 9.0, 8.0, KubeletStream.CONNECTED),
        (Gate.ON, "v1.40.0", 8.0, 8.0, KubeletStream.RETRYING),
    ],
)
def test_its_counters_show_whether_it_is_connected(
    gate: Gate,
    version: str,
    connections: float | None,
    errors: float | None,
    stream: KubeletStream,
) -> None:
    """As far as they can; an answer that is too old shows nothing."""
    one = KubeletReading(0.0, gate, STARTED, version, stream_errors=errors, connections=connections)
    assert one.stream is stream
    assert kubelet(one).stream(BELIEVED) is stream
    assert kubelet(one).stream(BELIEVED + 1) is KubeletStream.UNKNOWN
    assert Kubelet(TERMS).stream(0.0) is KubeletStream.UNKNOWN


@pytest.mark.parametrize(("seconds", "number"), [(0.5, 10.0), (1.0, 8.0), (4.0, 8.0), (5.0, 3.0)])
def test_how_many_events_were_late_is_never_too_few(seconds: float, number: float) -> None:
    """Between two bounds of the histogram, all that may have been."""
    one = KubeletReading(0.0, Gate.ON, events=10.0, delays=((1.0, 2.0), (5.0, 7.0)))
    assert one.received_later_than(seconds) == number
    assert KubeletReading(0.0, Gate.OFF).received_later_than(seconds) == 0.0
