"""When something was made, by clocks that are set; and what is measured then."""

from math import inf

import pytest

from exporter.model.events import Announcement, Flawed
from exporter.model.facts import ClockSet, Discarded, StreamDown
from exporter.model.findings import Verdict
from exporter.model.labels import Flaw
from exporter.pleg.clock import WallClock
from tests.support.facts import (
    EPOCH_NS,
    EXITED,
    RUNNING,
    Given,
    Play,
    beat,
    created,
    relist,
    started,
    stopped,
    up,
)

BACK, FORWARD = ClockSet(100, -40.0), ClockSet(100, 40.0)


def stamped(event: Announcement, ahead: float) -> Announcement:
    """The same, by a clock that was ahead by so many seconds when it was made."""
    return event._replace(created_at_ns=event.created_at_ns + int(ahead * 1e9))


@pytest.mark.parametrize(
    ("sets", "received", "made", "ahead", "found"),
    [
        # The clock never was set while we were there.
        ((), 50, 20, 0, 20),
        ((), 50, 49.95, 0.1, 50),
        ((), 50, 20, 40, -inf),
        # Made after it was set, and right before that was noticed.
        ((BACK,), 150, 120, 0, 120),
        ((BACK,), 100, 99.95, 0, 99.95),
        ((FORWARD,), 100, 99.95, 0, 99.95),
        # Made before, and come later.
        ((BACK,), 101, 99, 40, 99),
        ((BACK,), 101, 20, 40, 20),
        ((FORWARD,), 101, 99, -40, 99),
        ((FORWARD,), 500, 20, -40, 20),
        # Once the clock has passed its former time, this cannot be told.
        ((BACK,), 150, 99, 40, 139),
        # More than one step in between.
        ((ClockSet(90, 7.0), BACK), 101, 80, 33, 80),
        ((ClockSet(90, 7.0), BACK), 101, 95, 40, 95),
        ((ClockSet(90, -7.0), BACK), 101, 80, 47, 80),
        # By a clock that was set back before we were there, or longer ago than is remembered.
        ((BACK,), 101, 99, 7000, -inf),
        (tuple(ClockSet(90.0 + n, -40.0) for n in range(9)), 99, 89, 9 * 40, -inf),
        (tuple(ClockSet(90.0 + n, -40.0) for n in range(8)), 99, 89, 8 * 40, 89),
    ],
)
def test_an_event_is_dated_by_the_clock_as_it_was_then(
    sets: tuple[ClockSet, ...], received: float, made: float, ahead: float, found: float
) -> None:
    """`ahead`: of the clock as it is set when the event comes."""
    clock = WallClock()
    for each in sets:
        clock.was_set(each)
    assert clock.made(stamped(created("c1", received, made), ahead)) == pytest.approx(found)


def test_an_event_without_a_time_was_made_when_it_came() -> None:
    assert WallClock().made(created("c1", 50)._replace(created_at_ns=0)) == 50


def test_what_is_of_this_moment_is_in_no_doubt() -> None:
    assert WallClock().past(EPOCH_NS, 50, EPOCH_NS) == 50
    assert WallClock().past(EPOCH_NS + 1000, 50, EPOCH_NS) is None


def test_how_long_an_event_took_is_not_measured_where_the_clock_was_set() -> None:
    """In between; or so far back that it may have been. Nor is that of backlog, or of no time."""

    def delay(fact: ClockSet | None, event: Announcement) -> float | None:
        play = Play(up(), relist(1), *([fact] if fact else []))
        return play.ledger.judge(event).delay

    assert delay(None, created("c1", 101, 99)) == 2
    assert delay(None, created("c1", 101, 0)._replace(created_at_ns=0)) is None
    assert delay(None, created("c1", 101, -1)) is None
    assert delay(FORWARD, stamped(created("c1", 101, 99), -40)) is None
    assert delay(FORWARD, created("c1", 101, 100)) == 1
    for received, seconds in ((139, None), (142, 1)):
        assert delay(BACK, created("c1", received, received - 1)) == seconds


@pytest.mark.parametrize(
    ("seen", "is_found"),
    [
        ((created("c1", 141), started("c1", 142)), True),
        ((started("c1", 142),), True),
        # It began before that, or may have.
        ((created("c1", 139), started("c1", 142)), False),
        ((created("c1", 99),), False),
        ((), False),
        ((created("c1", 142, made=-1),), False),
    ],
)
def test_times_are_wrong_only_if_the_clock_was_not_set_since_the_start(
    seen: tuple[Announcement, ...], *, is_found: bool
) -> None:
    """That is known only of what was announced since then: other flaws need no such proof."""
    wrong = Flawed((Flaw.WRONG_TIME, Flaw.EMPTY_STATUS), 2)
    facts: tuple[Given, ...] = (
        up(),
        relist(1),
        BACK,
        *seen,
        stopped("c1", 200)._replace(flawed=wrong),
    )
    found = [f.cause for f in Play(*facts).findings if f.verdict is Verdict.FLAWED]
    assert found == ([Flaw.WRONG_TIME] if is_found else []) + [Flaw.EMPTY_STATUS]


def test_a_loss_waits_until_the_clock_has_passed_its_former_time() -> None:
    """Until then an event that looks young may have waited for longer than it says."""
    ran = (up(), relist(1, c1=RUNNING), relist(99, c1=RUNNING), BACK)
    shown = [relist(at, c1=EXITED) for at in (100, 110, 120, 140)]
    play = Play(*ran, *shown)
    assert play.judged == []
    play.then(relist(145, c1=EXITED), relist(147, c1=EXITED))
    assert play.judged == ["c1 ContainerDied missed silent"]
    # What befell the stream until then may explain it, too.
    outage = Play(*ran, *shown, StreamDown(143), up(144))
    outage.then(*(relist(at, c1=EXITED) for at in (145, 147, 160)))
    assert outage.judged == ["c1 ContainerDied missed stream_down"]


def test_what_was_overdue_before_the_clock_was_set_back_may_be_dropped_after_that() -> None:
    """Though a drop before it explained nothing, and no list came in between."""
    play = Play(up(), relist(1, c1=RUNNING), relist(99, c1=RUNNING), relist(100, c1=EXITED))
    play.then(beat(107), Discarded(108), ClockSet(109, -40.0), Discarded(110))
    play.then(relist(156, c1=EXITED))
    assert play.judged == ["c1 ContainerDied missed discarded"]
