"""Whose side lost it: only what both sides' counts prove, and whatever they prove."""

from dataclasses import dataclass, field, replace

import pytest
from hypothesis import given
from hypothesis import strategies as st

from exporter.kubelet.comparison import Comparing, Comparison, KubeletCause, Ours
from exporter.kubelet.state import Gate, KubeletReading

pytestmark = pytest.mark.quick

LAG = 5.0
BUCKETS = (1.0, 2.5, 5.0, 10.0, float("inf"))
SILENT, DOWN, GAVE_UP = KubeletCause


def ours(*, subscribed: bool = True, shared: bool = False) -> Ours:
    """The exporter's side."""
    return Ours(subscribed, shared, (1, 0, 0, 0), 0.0)


@dataclass
class Node:
    """A runtime with two subscribers, and the comparison of what they count."""

    comparison: Comparison = field(default_factory=lambda: Comparison(LAG))
    ours: Ours = field(default_factory=ours)
    page: KubeletReading = field(
        default_factory=lambda: KubeletReading(
            0.0, Gate.ON, 1e9, "v1.36.2", stream_errors=0.0, connections=1.0
        )
    )
    # When the kubelet counted each of its events, and how late that was.
    counted: list[tuple[float, float]] = field(default_factory=list)

    def event(self, at: float, *, us: bool = True, kubelet: bool = True, late: float = 0.0) -> None:
        """One event, to both, to one, or to neither; the kubelet counts it so much later."""
        if us:
            self.comparison.heard(at, 0.0)
        if kubelet:
            self.counted.append((at + late, late))

    def events(self, *times: float, us: bool = True, kubelet: bool = True) -> None:
        """Some events."""
        for at in times:
            self.event(at, us=us, kubelet=kubelet)

    def read(self, at: float, took: float = 0.0) -> None:
        """Read the kubelet's page."""
        late = [each for when, each in self.counted if when <= at]
        page = replace(
            self.page,
            requested=at,
            completed=at + took,
            events=float(len(late)),
            delays=tuple((le, float(sum(each <= le for each in late))) for le in BUCKETS),
        )
        self.comparison.read(page, replace(self.ours, fed_until=at + took))

    def close(self, at: float) -> None:
        """One event to both, and the readings that prove what was before it."""
        self.read(at)
        self.event(at + 10)
        self.reads(at + 20, at + 40)

    def reads(self, *times: float) -> None:
        """Read it some times."""
        for at in times:
            self.read(at)

    @property
    def missed(self) -> dict[KubeletCause, int]:
        """What the kubelet missed."""
        return dict(self.comparison.missed)


def test_what_both_received_is_no_loss() -> None:
    """However the readings fall."""
    node = Node()
    for second in range(300):
        node.event(float(second))
        if not second % 7:
            node.read(second + 0.5, took=3.0)
    assert node.missed == {}
    assert node.comparison.only == 0
    assert node.comparison.state is Comparing.COMPARING


def test_what_only_the_kubelet_missed_is_counted_exactly() -> None:
    """Once it has received something later: it might have come late until then."""
    node = Node()
    node.read(0.0)
    node.events(10.0, 10.5)
    node.events(11.0, 11.5, 12.0, kubelet=False)
    node.reads(30.0, 60.0, 90.0)
    assert node.missed == {}
    assert node.comparison.undecided == 3
    node.close(100.0)
    assert node.missed == {SILENT: 3}
    assert node.comparison.undecided == 0


def test_what_neither_received_is_not_the_kubelets_loss() -> None:
    """It is the runtime's; the ledger counts it."""
    node = Node()
    node.read(0.0)
    node.events(10.0, 11.0)
    node.events(12.0, 13.0, us=False, kubelet=False)
    node.events(20.0, 50.0)
    node.reads(30.0, 60.0, 90.0)
    assert node.missed == {}
    assert node.comparison.only == 0
    assert node.comparison.undecided == 0


def test_what_only_the_exporter_missed_is_not_called_the_runtimes() -> None:
    """The kubelet's count shows it."""
    node = Node()
    node.read(0.0)
    node.events(10.0, 50.0, 80.0)
    node.events(20.0, 21.0, us=False)
    node.reads(30.0, 60.0, 90.0, 120.0)
    assert node.comparison.only == 2
    assert node.missed == {}
    node.events(130.0, 131.0, kubelet=False)
    node.close(150.0)
    assert node.missed == {SILENT: 2}


def test_what_comes_late_is_no_loss() -> None:
    """Not even if the kubelet is always late, and always busy."""
    node = Node()
    node.read(0.0)
    for second in range(20, 600):
        node.event(float(second), late=20.0 if second > 100 else 0.0)
        if not second % 30:
            node.read(float(second))
    assert node.missed == {}
    # While it is late nothing is proven; when it is in time again, the loss is.
    node.event(600.0, kubelet=False)
    node.close(630.0)
    assert node.missed == {SILENT: 1}


@pytest.mark.parametrize(
    ("version", "errors", "cause"),
    [
        ("v1.36.2", 0.0, SILENT),
        ("v1.36.2", 1.0, DOWN),
        ("v1.36.2", 5.0, GAVE_UP),
        ("v1.40.0", 5.0, DOWN),
    ],
)
def test_the_cause_is_what_the_kubelets_stream_did(
    version: str, errors: float, cause: KubeletCause
) -> None:
    """By its counters, and by what its generation does after so many errors."""
    node = Node()
    node.page = replace(node.page, version=version)
    node.read(0.0)
    node.event(10.0, kubelet=False)
    node.page = replace(node.page, stream_errors=errors)
    node.close(30.0)
    assert node.missed == {cause: 1}


def test_a_kubelet_that_gave_up_misses_everything() -> None:
    """It receives nothing later that could prove it, and never will."""
    node = Node()
    node.read(0.0)
    node.page = replace(node.page, stream_errors=5.0)
    node.events(10.0, 11.0, kubelet=False)
    node.read(30.0)
    node.event(40.0, kubelet=False)
    node.reads(60.0, 90.0, 120.0)
    assert node.missed == {GAVE_UP: 3}


def test_a_kubelet_that_only_counts_nothing_more_may_yet() -> None:
    """It stands still, or its stream is silent: undecided for as long as that lasts."""
    node = Node()
    node.read(0.0)
    for second in range(1, 200):
        node.event(float(second), kubelet=False)
        node.read(second + 0.5)
    node.reads(230.0)
    assert node.missed == {}
    assert node.comparison.undecided == 199


def test_after_an_outage_the_next_loss_is_silent_again() -> None:
    """Once both agree at a quiet moment."""
    node = Node()
    node.read(0.0)
    node.event(10.0, kubelet=False)
    node.page = replace(node.page, stream_errors=1.0, connections=2.0)
    node.close(30.0)
    node.event(80.0, kubelet=False)
    node.close(100.0)
    assert node.missed == {DOWN: 1, SILENT: 1}


@pytest.mark.parametrize("started", [1e9 + 60, 1e9])
def test_a_restarted_kubelet_begins_anew(started: float) -> None:
    """Its counters did; what was proven stays, what was not is not known any more."""
    node = Node()
    node.read(0.0)
    node.event(10.0, kubelet=False)
    node.close(30.0)
    node.events(80.0, 81.0, kubelet=False)
    node.read(90.0)
    node.counted.clear()
    node.page = replace(node.page, started=started)
    node.close(110.0)
    node.close(210.0)
    assert node.missed == {SILENT: 1}
    assert node.comparison.only == 0


def test_a_reading_in_the_middle_of_a_burst_proves_nothing_too_much() -> None:
    """Events in flight at either end may be on either side of it."""
    node = Node()
    for tenth in range(1, 1000):
        node.event(tenth / 10, kubelet=tenth != 500, late=3.0)
        if not tenth % 73:
            node.read(tenth / 10, took=2.0)
    assert node.missed == {}
    assert node.comparison.undecided >= 1
    # The first reading was as busy, so that the one loss cannot be proven even now.
    node.close(200.0)
    assert node.missed == {}


@pytest.mark.parametrize("break_it", ["subscribed", "breaks", "late"])
def test_what_the_exporter_missed_while_it_could_not_hear_is_not_the_kubelets_alone(
    break_it: str,
) -> None:
    """A break on this side, or an own event that was late, explains a lower count."""
    node = Node()
    node.read(0.0)
    node.event(10.0)
    node.reads(30.0)
    match break_it:
        case "subscribed":
            node.ours = replace(node.ours, subscribed=False)
        case "breaks":
            node.ours = replace(node.ours, breaks=(2, 1, 0, 0))
        case _:
            node.comparison.heard(39.0, LAG + 1)
            node.comparison.heard(39.0, None)
    node.events(40.0, 41.0, us=False)
    node.events(45.0, us=False)
    node.reads(60.0, 90.0)
    node.events(100.0)
    node.reads(120.0, 150.0)
    assert node.comparison.only == 0
    assert node.missed == {}


@pytest.mark.parametrize(
    ("gate", "events", "side", "state"),
    [
        (Gate.OFF, 1.0, ours(), Comparing.NOT_WANTED),
        (Gate.UNLISTED, 1.0, ours(), Comparing.UNKNOWN),
        (Gate.ON, None, ours(), Comparing.NO_COUNTERS),
        (Gate.ON, 1.0, ours(shared=True), Comparing.SHARED),
        (Gate.ON, 1.0, ours(subscribed=False), Comparing.NOT_SUBSCRIBED),
        (Gate.ON, 1.0, ours(), Comparing.COMPARING),
    ],
)
def test_where_the_counts_cannot_be_compared_it_says_why(
    gate: Gate, events: float | None, side: Ours, state: Comparing
) -> None:
    """And nothing is undecided where nothing is compared."""
    one = Comparison(LAG)
    assert one.state is Comparing.UNKNOWN
    one.read(KubeletReading(0.0, gate, 1e9, events=events, completed=0.0), side)
    assert one.state is state
    assert one.undecided == 0


def test_a_very_short_grace_is_no_reason_to_hurry() -> None:
    """Both sides have a second at least."""
    assert Comparison(0.0).lag == 1.0


STEPS = st.lists(
    st.tuples(
        st.sampled_from([0.0, 0.01, 0.3, 4.0, 12.0]),
        st.sampled_from(["both", "both", "both", "kubelet", "us", "neither", "read", "read"]),
        st.sampled_from([0.0, 0.0, 0.5, 4.9, 8.0, 40.0]),
    ),
    max_size=60,
)


@given(STEPS)
def test_no_order_of_things_proves_more_than_is_true(
    steps: list[tuple[float, str, float]],
) -> None:
    """Never more than each side really lost; and on a side that lost nothing, never too little."""
    node, now, free, lost, own = Node(), 10.0, 0.0, 0, 0
    latest = 0.0
    node.read(0.0)
    for pause, what, seconds in steps:
        now += pause
        if what == "read":
            node.read(now, took=min(seconds, 4.9))
            now += min(seconds, 4.9)
        else:
            lost += what == "us"
            own += what == "kubelet"
            # One stream keeps its order, so that each is at least as late as the one before.
            free = max(free, now + seconds)
            latest = max(latest, free - now)
            us, kubelet = what in {"both", "us"}, what in {"both", "kubelet"}
            node.event(now, us=us, kubelet=kubelet, late=free - now if kubelet else 0.0)
        assert sum(node.missed.values()) <= lost
        assert node.comparison.only <= own
    now = max(now, free) + 100
    # Quiet readings that prove all: nothing is on its way.
    node.close(now)
    node.close(now + 100)
    assert sum(node.missed.values()) <= lost
    assert node.comparison.undecided == 0
    if not own:
        assert sum(node.missed.values()) == lost
    if not lost and latest <= LAG:
        assert node.comparison.only == own


@pytest.mark.parametrize(
    ("state", "missed", "only", "lost", "text"),
    [
        (Comparing.UNKNOWN, {}, 0, 0, ""),
        (Comparing.NOT_WANTED, {}, 0, 3, ""),
        (Comparing.NO_COUNTERS, {}, 0, 0, "what it received is not known: it does not count"),
        (Comparing.SHARED, {}, 0, 0, "what it received cannot be compared: the runtime gives"),
        (Comparing.NOT_SUBSCRIBED, {}, 0, 0, "what it received is not compared"),
        (Comparing.COMPARING, {}, 0, 0, "it has missed nothing that the exporter received"),
        (
            Comparing.COMPARING,
            {SILENT: 2, GAVE_UP: 1},
            4,
            5,
            "it missed 3 events that the exporter received (2 while it was connected, 1 after it",
        ),
        (
            Comparing.COMPARING,
            {DOWN: 1},
            0,
            2,
            "it missed 1 events that the exporter received (1 while its stream was down); the 2",
        ),
    ],
)
def test_whose_loss_it_is_is_told_in_words(
    state: Comparing, missed: dict[KubeletCause, int], only: int, lost: int, text: str
) -> None:
    """And what the counts cannot tell."""
    one = Comparison(LAG)
    one.missed.update(missed)
    one.only = only
    words = one.describe(state, lost)
    assert words.startswith(text)
    assert bool(words) == bool(text)


def test_what_is_not_settled_is_told() -> None:
    """It may still come, or the counts cannot prove it."""
    node = Node()
    node.read(0.0)
    node.event(10.0, kubelet=False)
    node.read(20.0)
    words = node.comparison.describe(node.comparison.state, 0)
    assert words.endswith("; of 1 that is not settled")


def test_a_busy_moment_proves_a_part() -> None:
    """And a quiet one the rest."""
    node = Node()
    node.read(0.0)
    for tenth in range(20):
        node.event(10 + tenth / 10, kubelet=False)
    node.event(28.0)
    node.read(30.0)
    node.event(32.0)
    node.reads(60.0)
    assert node.missed == {SILENT: 19}
    assert node.comparison.undecided == 1
    node.close(90.0)
    assert node.missed == {SILENT: 20}
    assert node.comparison.undecided == 0


@pytest.mark.parametrize("late", [LAG - 1, LAG + 20])
def test_the_exporter_may_be_the_later_one(late: float) -> None:
    """By a little, or so late that nobody knows any more to which reading the event belongs."""
    node = Node()
    node.read(0.0)
    node.counted.append((10.0, 0.0))
    node.read(11.0)
    node.comparison.heard(10.0 + late, late)
    node.close(60.0)
    assert node.missed == {}
    assert node.comparison.only == 0


def test_a_restarted_kubelet_that_has_counted_more_is_another_one_all_the_same() -> None:
    """What the former one had not received yet is not this one's loss."""
    node = Node()
    node.read(0.0)
    node.event(10.0)
    node.events(11.0, 12.0, kubelet=False)
    node.read(30.0)
    node.counted.clear()
    node.page = replace(node.page, started=1e9 + 35)
    node.events(*(40.0 + number for number in range(10)))
    node.close(70.0)
    node.close(170.0)
    assert node.missed == {}
