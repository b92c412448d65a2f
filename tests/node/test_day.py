"""The last 24 hours in quarters: bounded, each count in one of them, and for how long what held."""

import pytest

from exporter.conditions.catalogue import BY_NAME
from exporter.conditions.condition import Condition, Mood
from exporter.model.events import EventType, ObjectKind
from exporter.model.findings import Cause, Verdict
from exporter.node.day import QUARTERS, SECONDS, Day, Quarter, stretches
from exporter.node.state import Node
from tests.support.facts import found

pytestmark = pytest.mark.quick

COMPLETE, LOSING, GHOSTS, FEW = (
    BY_NAME[name] for name in ("complete", "losing", "ghosts", "few_lost")
)
MISSED, LATE = (found(verdict, Cause.SILENT) for verdict in (Verdict.MISSED, Verdict.LATE))


class Looked:
    """A day, and the node that it counts."""

    def __init__(self, ahead: float = 0.0) -> None:
        self.node = Node()
        self.day = Day(self.node, ahead)

    def look(self, quarter: float, *holding: Condition) -> None:
        self.day.look(quarter * SECONDS, holding)

    def of(self, now: float = 0.0) -> list[tuple[int, int, int]]:
        """Number, lost and received of each quarter at the time of quarter `now`."""
        seen = self.day.quarters(now * SECONDS)
        return [(each.number, each.lost, each.received) for each in seen]


def test_what_was_counted_since_the_last_look_is_in_the_quarter_of_the_next() -> None:
    looked = Looked()
    for quarter, finding in ((0.1, MISSED), (0.2, MISSED), (1.0, found(Verdict.GAP)), (2.0, LATE)):
        looked.node.tally.add(finding, 0.0)
        looked.node.received[EventType.STARTED, ObjectKind.CONTAINER] += 10
        looked.look(quarter)
    assert looked.of(2) == [(0, 2, 20), (1, 1, 10), (2, -1, 10)]


def test_a_day_is_96_quarters_and_no_more() -> None:
    """Also after a night in which the machine slept."""
    looked = Looked()
    for quarter in range(2 * QUARTERS):
        looked.look(quarter)
    numbers = [number for number, _, _ in looked.of(2 * QUARTERS - 1)]
    assert numbers == list(range(QUARTERS, 2 * QUARTERS))
    assert [number for number, _, _ in looked.of(3 * QUARTERS - 2)] == [2 * QUARTERS - 1]
    assert looked.of(3 * QUARTERS - 1) == []


def test_quarters_begin_when_clocks_show_one() -> None:
    """A process that begins at 02:10 has its second one from 02:15 on."""
    looked = Looked(ahead=600.0)
    looked.look(0.0)
    looked.look(299.0 / SECONDS)
    looked.look(300.0 / SECONDS)
    assert [number for number, _, _ in looked.of(0.4)] == [0, 1]
    assert looked.day.began(1) == 300.0


def test_a_stretch_is_as_long_as_the_condition_held_without_a_pause() -> None:
    """The latest first, of two the more urgent, which alone has the number of the lost."""
    looked = Looked()
    for quarter, holding in {
        0: [BY_NAME["starting"], BY_NAME["kernel_unseen"]],
        1: [LOSING],
        2: [LOSING, GHOSTS],
        3: [COMPLETE],
        4: [FEW, LOSING],
        6: [GHOSTS, LOSING],
    }.items():
        looked.node.tally.add(MISSED, 0.0)
        looked.look(quarter, *holding)
    said = [
        (each.condition, each.first, each.last, each.lost)
        for each in stretches(looked.day.quarters(6 * SECONDS))
    ]
    assert said == [
        (LOSING, 6, 6, 1),
        (GHOSTS, 6, 6, 0),
        (LOSING, 4, 4, 1),
        (FEW, 4, 4, 0),
        (GHOSTS, 2, 2, 0),
        (LOSING, 1, 2, 2),
    ]


def test_the_mood_of_a_quarter_is_the_worst_of_all_looks() -> None:
    looked = Looked()
    moods = []
    for condition in (COMPLETE, FEW, LOSING, COMPLETE):
        looked.look(0, condition)
        moods.append(looked.day.quarters(0.0)[0].mood)
    assert moods == [Mood.GOOD, Mood.UNSURE, Mood.BAD, Mood.BAD]
    assert Quarter(0).mood is Mood.GOOD
