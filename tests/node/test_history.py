"""The last 15 minutes in slots: bounded, and everything counted once, in the right slot."""

from functools import partial

import pytest
from hypothesis import given
from hypothesis import strategies as st

from exporter.model import facts
from exporter.model.events import Lifecycle, Pod, Status
from exporter.model.findings import Cause, Outcome, Verdict
from exporter.node.history import SECONDS, SLOTS, Slot
from tests.support.facts import RUNNING, emptied, found, populated, started, up
from tests.support.stage import Stage

pytestmark = pytest.mark.quick

MISSED = found(Verdict.MISSED, Cause.SILENT)
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
