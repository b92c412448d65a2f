"""The last 15 minutes and 24 hours: bounded, and all is counted once, in the right place."""

from functools import partial

import pytest
from hypothesis import given
from hypothesis import strategies as st

from exporter.conditions.catalogue import BY_NAME
from exporter.conditions.condition import Condition, Mood
from exporter.model import facts
from exporter.model.events import EventType, Lifecycle, ObjectKind, Pod, Status
from exporter.model.findings import Cause, Outcome, Verdict
from exporter.node.history import (
    QUARTER_SECONDS,
    QUARTERS,
    SECONDS,
    SLOTS,
    Day,
    Quarter,
    Slot,
    stretches,
)
from exporter.node.state import Node
from tests.support.facts import RUNNING, emptied, found, populated, started, up
from tests.support.stage import Stage

pytestmark = pytest.mark.quick

COMPLETE, LOSING, GHOSTS, FEW = (
    BY_NAME[name] for name in ("complete", "losing", "ghosts", "few_lost")
)
MISSED, LATE = (found(verdict, Cause.SILENT) for verdict in (Verdict.MISSED, Verdict.LATE))
SPAN = SLOTS * SECONDS


def slots(stage: Stage, now: float) -> list[Slot]:
    return list(stage.history.slots(now))


def test_each_event_counts_in_the_slot_in_which_it_came() -> None:
    stage = Stage()
    for at in (1.0, 9.9, 10.0, 35.0, 36.0):
        stage.receive(at)
    assert [slot.announced for slot in slots(stage, 45.0)] == [2, 1, 0, 2, 0]
    # Another subscription's copy of an event is none.
    stage.history.hear(started("c1", 44.0), Outcome(copy=True))
    assert slots(stage, 45.0)[-1].announced == 0


def test_what_the_kernel_showed_counts_in_its_slot() -> None:
    """Cgroups that filled or emptied, but not those that the first read found."""
    stage = Stage(populated("c1", 1.0), facts.CgroupsRead(2.0), emptied("c1", 11.0))
    stage.hear(populated("c2", 12.0), facts.CgroupsLost(13.0), populated("c2", 21.0))
    assert [slot.kernel for slot in slots(stage, 25.0)] == [0, 2, 0]


def test_what_the_kubelet_showed_counts_in_its_slot() -> None:
    """Each status that changed, but not those that it shows while it shows all its pods."""
    statuses = Status("c1", RUNNING.state), Status("c2", RUNNING.state)
    shown = partial(facts.Believed, pod=Pod(), changed=statuses, gone=())
    stage = Stage(
        shown(1.0), facts.BeliefsShown(2.0), shown(11.0), facts.Believed(12.0, Pod(), (), ("c1",))
    )
    stage.hear(facts.BeliefsLost(13.0), shown(21.0))
    assert [slot.kubelet for slot in slots(stage, 25.0)] == [0, 2, 0]


def test_the_last_slot_is_counted_while_it_lasts() -> None:
    stage = Stage()
    stage.receive(1.0)
    assert slots(stage, 2.0)[-1].announced == 1
    stage.receive(3.0)
    assert [slots(stage, 4.0)[-1].announced for _ in range(2)] == [2, 2]


def test_a_miss_counts_where_it_was_proven() -> None:
    stage = Stage()
    stage.relist(1.0)
    stage.relist(21.0, MISSED, MISSED)
    found = [
        slot.found[Verdict.MISSED, Lifecycle.DIED, Cause.SILENT] for slot in slots(stage, 30.0)
    ]
    assert found == [0, 0, 2, 0]


def test_the_account_forgets_what_was_found_with_its_slot() -> None:
    stage = Stage()
    stage.relist(5.0, MISSED)
    stage.relist(15.0, MISSED)
    lost = [stage.history.account(at).lost(Cause.SILENT) for at in (20.0, SPAN + 5, SPAN + 15)]
    assert lost == [2, 1, 0]


def test_the_account_has_what_came_what_ended_and_how_late_exits_were() -> None:
    """Ends that the exporter caused itself are left out; a second is not late yet."""
    stage = Stage()
    announced = found(Verdict.EXIT_ANNOUNCED)
    stage.relist(5.0, *(announced._replace(seconds=late) for late in (0.2, 1.0, 1.1)))
    stage.receive(6.0)
    stage.node.stream.ends.update(eof=2, unavailable=1, overflow=5)
    account = stage.history.account(20.0)
    assert (account.received, account.ends, account.timed, account.slow) == (1, 3, 3, 1)
    stage.node.stream.ends["eof"] += 1
    assert stage.history.account(SPAN + 5.0).ends == 1


def test_a_fact_of_many_discards_counts_as_many() -> None:
    stage = Stage(facts.Discarded(5.0, 6.0, 700), facts.Discarded(7.0))
    assert slots(stage, 8.0)[-1].discarded == 701


def test_the_stream_keeps_its_state_until_it_changes() -> None:
    """A slot in which it changed is down, too; requesting a stream is no state yet."""
    stage = Stage(
        facts.StreamAsked(1.0), up(12.0), facts.StreamDown(35.0), facts.StreamRefused(52.0)
    )
    down = [slot.number for slot in slots(stage, 65.0) if slot.down]
    assert down == [3, 4, 5]


def test_an_end_that_is_learnt_late_counts_from_when_it_was() -> None:
    """A process that was suspended learns of its lease's end afterwards."""
    stage = Stage(up(1.0))
    stage.relist(45.0)
    stage.hear(facts.StreamDown(15.0))
    assert [slot.down for slot in slots(stage, 45.0)] == [False, True, True, True, True]


def test_an_hour_without_facts_leaves_empty_slots() -> None:
    stage = Stage(facts.StreamDown(1.0))
    stage.receive(2.0)
    last = slots(stage, 3600.0)
    assert (len(last), last[-1].number) == (SLOTS, 360)
    assert {(slot.announced, slot.down) for slot in last} == {(0, True)}


@given(st.lists(st.floats(min_value=0, max_value=3 * SPAN), max_size=200))
def test_slots_are_consecutive_and_bounded(times: list[float]) -> None:
    """Also if events are out of order: one older than the last slot counts there."""
    stage = Stage()
    for at in times:
        stage.receive(at)
    latest = max(times, default=0.0)
    last = slots(stage, latest)
    assert [slot.number - last[0].number for slot in last] == list(range(len(last)))
    assert len(last) <= SLOTS
    assert last[-1].number == int(latest // SECONDS)
    if latest < SPAN:
        assert sum(slot.announced for slot in last) == len(times)


def test_what_was_so_is_remembered_for_as_long_as_its_slots() -> None:
    stage = Stage()
    for at, names in ((1.0, ["ghosts"]), (2.0, ["ghosts"]), (11.0, ["ghosts", "twins"])):
        stage.history.hold(at, names)
    assert stage.history.held(15.0) == {"ghosts": 20.0, "twins": 10.0}
    assert stage.history.held(SPAN + 5.0) == {"ghosts": 10.0, "twins": 10.0}


def test_only_what_is_too_late_to_measure_is_a_lag() -> None:
    stage = Stage()
    for seconds in (0.1, 0.5, 0.6, 2.0):
        stage.history.lagged(1.0, seconds)
    assert stage.history.account(5.0).lags == 2


class Looked:
    """A day, and the node that it counts."""

    def __init__(self, ahead: float = 0.0) -> None:
        self.node = Node()
        self.day = Day(self.node, ahead)

    def look(self, quarter: float, *holding: Condition) -> None:
        self.day.look(quarter * QUARTER_SECONDS, holding)

    def of(self, now: float = 0.0) -> list[tuple[int, int, int]]:
        """Number, lost and received of each quarter at the time of quarter `now`."""
        seen = self.day.quarters(now * QUARTER_SECONDS)
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
    looked.look(299.0 / QUARTER_SECONDS)
    looked.look(300.0 / QUARTER_SECONDS)
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
        for each in stretches(looked.day.quarters(6 * QUARTER_SECONDS))
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
