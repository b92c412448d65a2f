"""What the timeline draws: each number in its place, the two witnesses on their sides."""

import re

import pytest

from exporter.node.history import SECONDS, SLOTS, History
from exporter.node.state import Node
from exporter.pleg.events import Announcement, EventType, ObjectKind
from exporter.pleg.facts import (
    CgroupsRead,
    Discarded,
    Relist,
    StreamDown,
    StreamRefused,
    StreamUp,
)
from exporter.pleg.findings import NOTHING, Cause, Finding, Outcome, Verdict
from exporter.web.status.timeline import SlotRow, Timeline, timeline_of
from tests.support.facts import found, populated

pytestmark = pytest.mark.quick

# 2023-11-14 22:13:20 UTC, at monotonic time 0.
EPOCH = 1_700_000_000
SPAN = SLOTS * SECONDS
BAR = re.compile(r"M([\d.]+) 50v(-?\d+)h0\.8V50z")


SEEN, GAP = found(Verdict.WITNESSED), found(Verdict.GAP)
SILENT, STALLED, DOWN, OURS, SHARED, DESIGN = (found(Verdict.MISSED, cause) for cause in Cause)


class Drawn:
    """A history that is drawn at the end of its quarter of an hour."""

    def __init__(self) -> None:
        self.node = Node()
        self.history = History(self.node)

    def relist(self, slot: int, *findings: Finding) -> None:
        """A relist in that slot."""
        at = slot * SECONDS + 1
        self.history.took(Relist(at, at, 0, 3, (), ()), Outcome(findings))

    def hear(self, slot: int, number: int) -> None:
        """That many events in that slot."""
        for _ in range(number):
            self.history.took(Announcement("c1", EventType.STARTED, slot * SECONDS + 2, 1), NOTHING)
            self.node.received[EventType.STARTED, ObjectKind.CONTAINER] += 1

    def drawn(self, now: float = SPAN - 1, period: float = 10.0) -> Timeline:
        """As of then."""
        return timeline_of(self.history, now, EPOCH + now, period)


def bars(path: str) -> dict[float, int]:
    """Height by place."""
    assert BAR.sub("", path) == ""
    return {float(place): int(height) for place, height in BAR.findall(path)}


def test_the_relist_is_above_the_axis_and_the_stream_below_it() -> None:
    """To the same scale: the longest bar of both is as tall as there is room for."""
    drawn = Drawn()
    drawn.relist(0, *[SEEN] * 20)
    drawn.hear(0, 10)
    drawn.hear(89, 40)
    timeline = drawn.drawn()
    assert bars(timeline.relist) == {0.1: -25}
    assert bars(timeline.stream) == {0.1: 12, 89.1: 50}
    assert timeline.most == 40


def test_what_the_kernel_showed_is_a_third_row() -> None:
    """On the same scale, and in the words; absent where it showed nothing."""
    drawn = Drawn()
    drawn.hear(0, 10)
    assert drawn.drawn().kernel == ""
    assert "kernel" not in drawn.drawn().summary
    drawn.history.took(CgroupsRead(1.0), NOTHING)
    for _ in range(5):
        drawn.history.took(populated("c1", 895.0), NOTHING)
    timeline = drawn.drawn()
    assert bars(timeline.kernel) == {89.1: -25}
    assert "5 changes of cgroups shown by the kernel" in timeline.summary


def test_a_single_event_is_small_but_visible() -> None:
    """Alone, and next to a long one."""
    few, many = Drawn(), Drawn()
    few.hear(1, 1)
    many.hear(1, 1)
    many.hear(2, 1000)
    assert bars(few.drawn().stream) == {1.1: 10}
    assert bars(many.drawn().stream) == {1.1: 2, 2.1: 50}


def test_losses_and_excused_misses_are_marked_differently() -> None:
    """A gap is a loss; what a runtime never announces is not."""
    drawn = Drawn()
    drawn.relist(0, SEEN, SILENT, STALLED, GAP)
    drawn.relist(45, DOWN)
    drawn.relist(46, OURS, SHARED)
    drawn.history.took(Discarded(465.0, None, 7), NOTHING)
    drawn.relist(60, DESIGN)
    timeline = drawn.drawn()
    assert [(mark.left, mark.text) for mark in timeline.lost] == [(0.0, "22:13:20: 3 lost")]
    assert [mark.text for mark in timeline.excused] == [
        "22:20:50: 1 missed by the exporter itself",
        "22:21:00: 2 missed by the exporter itself, 7 discarded here",
    ]


def test_the_summary_tells_what_was_announced_after_all() -> None:
    """A loss that is taken back is in no other number of the page, either."""
    drawn = Drawn()
    drawn.relist(10, STALLED, STALLED, STALLED)
    drawn.relist(12, found(Verdict.LATE, Cause.STALLED), found(Verdict.LATE, Cause.STREAM_DOWN))
    assert "3 lost (1 announced after all)," in drawn.drawn().summary


def test_the_table_says_the_same_without_quiet_slots() -> None:
    """The newest first."""
    drawn = Drawn()
    drawn.history.took(StreamUp(1.0, 7), NOTHING)
    drawn.relist(3, SEEN, SEEN, SILENT, DOWN, DESIGN)
    drawn.hear(3, 4)
    drawn.history.took(CgroupsRead(1.0), NOTHING)
    drawn.history.took(populated("c1", 35.0), NOTHING)
    drawn.history.took(Discarded(35.0), NOTHING)
    drawn.relist(4)
    drawn.hear(5, 1)
    assert drawn.drawn().lines == (
        SlotRow(5, "22:14:10", 0, 1, 0, 0, 0, 0, 0, "up"),
        SlotRow(3, "22:13:50", 2, 4, 1, 1, 1, 1, 1, "up"),
    )


@pytest.mark.parametrize("up", [True, False], ids=["down", "never up"])
def test_the_stream_is_down_where_it_was_for_a_moment(up: bool) -> None:  # noqa: FBT001 -- a case
    """Before its first state is known, it is neither up nor down."""
    drawn = Drawn()
    drawn.relist(0)
    if up:
        drawn.history.took(StreamUp(101.0, 7), NOTHING)
    drawn.history.took(StreamDown(451.0), NOTHING)
    drawn.history.took(StreamUp(471.0, 7), NOTHING)
    timeline = drawn.drawn()
    assert [(mark.left, mark.width) for mark in timeline.down] == [(50.0, 3.33)]
    ups = [(mark.left, mark.width) for mark in timeline.up]
    assert ups == ([(11.11, 38.89)] if up else []) + [(53.33, 46.67)]


def test_a_runtime_without_a_stream_is_neither_up_nor_down() -> None:
    """It has nothing to announce with."""
    drawn = Drawn()
    drawn.history.took(StreamRefused(1.0), NOTHING)
    timeline = drawn.drawn()
    assert timeline.up == timeline.down == ()
    drawn.hear(2, 1)
    assert drawn.drawn().lines[-1].heard == "none"


@pytest.mark.parametrize(("period", "width"), [(10.0, 3.33), (30.0, 6.67)])
def test_lists_are_answered_between_two_relists(period: float, width: float) -> None:
    """A relist holds for its period and some: where none comes after that, there is a hole."""
    drawn = Drawn()
    drawn.relist(0)
    drawn.relist(45)
    marks = drawn.drawn(period=period).relists
    assert [(mark.left, mark.width) for mark in marks] == [(0.0, width), (50.0, width)]


def test_ticks_are_round_times_and_none_is_cut_off() -> None:
    """Every five minutes of the clock on the wall."""
    assert [(tick.text, tick.left) for tick in Drawn().drawn().ticks] == [
        ("22:20", 44.44),
        ("22:25", 77.78),
    ]
    assert [tick.text for tick in Drawn().drawn(now=SPAN + 99).ticks] == ["22:20", "22:25"]
    assert [tick.text for tick in Drawn().drawn(now=SPAN - 60).ticks] == ["22:15", "22:20", "22:25"]


def test_a_young_process_begins_at_the_right_end() -> None:
    """Now is always at the same place."""
    drawn = Drawn()
    drawn.hear(0, 3)
    timeline = drawn.drawn(now=5.0)
    assert bars(timeline.stream) == {89.1: 30}
    assert timeline.summary == (
        "In the last 10 seconds: 0 transitions seen by the relist, 3 events announced by the"
        " stream, 0 lost, 0 missed by the exporter itself."
    )


def test_what_did_not_change_looks_the_same() -> None:
    """A second later in the same slot: nothing to draw."""
    drawn = Drawn()
    drawn.relist(3, SEEN, SILENT)
    assert drawn.drawn(now=50.2) == drawn.drawn(now=59.7)
    assert drawn.drawn(now=59.7) != drawn.drawn(now=60.2)
