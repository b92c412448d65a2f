"""From an exit to its notice: whose time counts, what is measured, and what is not."""

from dataclasses import replace

import pytest

from exporter.model.events import Announcement, Lifecycle, ObjectKind
from exporter.model.facts import ClockSet, StreamDown
from exporter.model.findings import Finding, Untimed, Verdict
from tests.support.facts import (
    EXITED,
    MEASURED,
    NOTREADY,
    READY,
    RUNNING,
    UNKNOWN,
    Play,
    emptied,
    looked,
    of_sandbox,
    populated,
    relist,
    stopped,
    up,
    wall_ns,
)
from tests.worlds.families import histories

CONTAINER = ObjectKind.CONTAINER
INSIDE = RUNNING.inside("p1")
OVER = EXITED.inside("p1")
BEGUN = (
    up(),
    *looked(1, p1=READY, c1=INSIDE),
    populated("c1", 1.5),
    *looked(2, p1=READY, c1=INSIDE),
)


def timed(at: float, ended: float | None) -> Announcement:
    """The STOPPED of `c1`, received at `at`; its status says when it ended, or is not there."""
    ended_ns = None if ended is None else wall_ns(ended)
    return stopped("c1", at)._replace(received_wall_ns=wall_ns(at), ended_ns=ended_ns)


def by_another_clock(event: Announcement, ahead: float) -> Announcement:
    by = int(ahead * 1e9)
    return event._replace(
        created_at_ns=event.created_at_ns + by,
        received_wall_ns=event.received_wall_ns + by,
        ended_ns=None if event.ended_ns is None else event.ended_ns + by,
    )


def untimed(play: Play, event: Announcement) -> Untimed | None:
    return play.ledger.judge(event).untimed


def test_an_exit_that_the_kernel_reported_is_measured_at_each_notice() -> None:
    play = Play(*BEGUN, emptied("c1", 8), *looked(10, p1=READY, c1=OVER), timed(12.5, None))
    assert play.delays == ["c1 exit_listed 2", "c1 exit_announced 4.5"]
    measured = [each for each in play.findings if each.verdict in MEASURED]
    assert {(each.kind, each.event) for each in measured} == {(CONTAINER, Lifecycle.DIED)}


def test_a_notification_that_is_read_after_the_notice_makes_no_negative_delay() -> None:
    """The process had ended when the list was made, and when the event was."""
    listed = Play(*BEGUN, *looked(4, p1=READY, c1=OVER), emptied("c1", 4.1))
    assert listed.delays == ["c1 exit_listed 0"]
    play = Play(*BEGUN)
    play.then(emptied("c1", 4.1))
    play.then(timed(4, None))
    assert play.delays == ["c1 exit_announced 0"]


def test_the_first_list_that_showed_it_counts() -> None:
    play = Play(up(), relist(1, c1=RUNNING), relist(4, c1=EXITED), relist(6, c1=UNKNOWN))
    play.then(relist(8, c1=EXITED), timed(9, 3))
    assert play.delays == ["c1 exit_listed 1", "c1 exit_announced 6", "c1 slow 6"]


def test_sandboxes_are_not_measured() -> None:
    """Only containers' exits are what a kubelet waits for, and no status tells a sandbox's."""
    play = Play(*BEGUN, populated("p1", 2), emptied("p1", 3), *looked(4, p1=NOTREADY, c1=INSIDE))
    assert untimed(play, of_sandbox(stopped("p1", 5))) is None
    play.then(populated("p2", 6), emptied("p2", 7), of_sandbox(stopped("p2", 8)))
    assert play.delays == []


def test_an_exit_without_a_time_is_counted_as_that() -> None:
    for event in (timed(5, None), timed(5, None)._replace(ended_ns=0), stopped("c1", 5)):
        play = Play(up(), relist(1, c1=RUNNING))
        assert untimed(play, event) is Untimed.NO_TIME
        assert untimed(play, event._replace(created_at_ns=1)) is None
    inexact = Play(*BEGUN, emptied("c1", 3, exact=False))
    assert untimed(inexact, timed(5, None)) is Untimed.NO_TIME
    # What is in its cgroup is not its process.
    elsewhere = Play(up(), *looked(1, p1=replace(READY, elsewhere=True), c1=INSIDE))
    elsewhere.then(populated("c1", 1.5), emptied("c1", 3))
    assert untimed(elsewhere, timed(5, None)) is Untimed.NO_TIME


def test_backlog_and_exits_in_an_outage_are_not_the_runtimes_delay() -> None:
    play = Play(up(), relist(1, c1=RUNNING), StreamDown(2), up(10))
    assert untimed(play, timed(11, 4)._replace(created_at_ns=wall_ns(5))) is Untimed.OUTAGE
    play = Play(up(), relist(1, c1=RUNNING), up(10))
    assert untimed(play, timed(11, 6)._replace(created_at_ns=wall_ns(7))) is Untimed.OUTAGE
    assert untimed(Play(up(), relist(1, c1=RUNNING), StreamDown(2), up(10)), timed(11, 10)) is None
    play = Play(up(), relist(1, c1=RUNNING), StreamDown(2), relist(6, c1=EXITED), up(10))
    taken = play.ledger.judge(timed(11, 4))
    assert taken.untimed is Untimed.OUTAGE
    assert [(f.verdict, f.seconds) for f in taken.findings][:1] == [(Verdict.EXIT_LISTED, 2)]


def test_what_ended_after_the_clock_was_set_is_measured() -> None:
    """By the clock as it is now; a clock that was set back had to pass its former time first."""
    for step, ended in ((100.0, 2.0), (-1.0, 3.0)):
        play = Play(up(), relist(1, c1=RUNNING), ClockSet(2, step))
        play.then(by_another_clock(timed(5, ended), step))
        assert play.delays == [f"c1 exit_announced {5 - ended:g}"]


def test_what_ended_before_a_small_step_is_not_measured() -> None:
    """Its time is of the clock before, and looks as if it were of this one."""
    play = Play(up(), relist(1, c1=RUNNING), ClockSet(2, 0.3))
    event = by_another_clock(timed(5, 1.8), 0.3)
    assert untimed(play, event) is Untimed.CLOCK


def test_a_clock_that_was_set_back_by_hours_spoils_ten_minutes_of_exits() -> None:
    """No runtime announces an exit so much later that its time could be of the clock before."""
    for received, why in ((601, Untimed.CLOCK), (603, None)):
        play = Play(up(), relist(1, c1=RUNNING), ClockSet(2, -7200.0))
        event = by_another_clock(timed(received, received - 0.5), -7200)
        assert untimed(play, event) is why


@pytest.mark.parametrize("ended", [-1e9, 399.0])
def test_an_end_long_before_the_lists_that_showed_it_running_is_not_measured(ended: float) -> None:
    ran = (up(), relist(1, c1=RUNNING), relist(999, c1=RUNNING))
    listed_last = Play(*ran, timed(1000, ended), relist(1001, c1=EXITED))
    assert listed_last.delays == []
    assert untimed(Play(*ran), timed(1000, ended)) is Untimed.CLOCK
    listed_first = Play(*ran, relist(1000, c1=EXITED), timed(1100, ended))
    assert listed_first.delays == []
    seen = Play(*BEGUN, emptied("c1", 999), timed(1000, ended), *looked(1001, p1=READY, c1=OVER))
    assert seen.delays == ["c1 exit_announced 1", "c1 exit_listed 2"]


def test_an_end_whose_clean_up_took_minutes_is_measured() -> None:
    """Lists show the container running meanwhile, and are late."""
    ran = (up(), relist(1, c1=RUNNING), relist(999, c1=RUNNING))
    play = Play(*ran, timed(1000, 400), relist(1001, c1=EXITED))
    assert play.delays == ["c1 exit_announced 600", "c1 slow 600", "c1 exit_listed 601"]
    late = Play(*ran, relist(1000, c1=EXITED), timed(1100, 400))
    assert late.delays == ["c1 exit_listed 600", "c1 exit_announced 700", "c1 slow 700"]


def test_each_delay_is_measured_once_and_is_not_negative() -> None:
    """Whatever clocks and witnesses say; and each first STOPPED is measured or says why not."""
    measured = 0
    for log in histories():
        play, found = Play(), list[Finding]()
        for fact in log:
            taken = play.ledger.judge(fact)
            found += (f for f in taken.findings if f.verdict in MEASURED)
            announced = [f for f in taken.findings if f.verdict is Verdict.EXIT_ANNOUNCED]
            assert not (announced and taken.untimed)
        assert all(f.seconds is not None and f.seconds >= 0 for f in found)
        assert len({(f.container_id, f.verdict) for f in found}) == len(found)
        measured += len(found)
    assert measured > 100
