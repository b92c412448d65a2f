"""Rules that need a longer story, or other times, than the small worlds have."""

import pytest

from exporter.model.events import Announcement, Lifecycle, ObjectKind
from exporter.model.facts import StreamUnproven
from exporter.model.findings import Cause
from exporter.model.labels import Never
from exporter.pleg.entry import Entry
from exporter.pleg.owed import is_gap, never_rule, start_in_doubt
from exporter.runtimes.runtime import Profile
from tests.support.facts import (
    CONTAINERD_2,
    CREATED,
    CRIO,
    EXITED,
    READY,
    RUNNING,
    Play,
    Shown,
    beat,
    created,
    deleted,
    looked,
    profile,
    relist,
    relists,
    started,
    stopped,
    up,
    wall_ns,
)

BEGUN = (up(), *looked(1, p1=READY))


def test_what_has_no_time_is_neither_backlog_nor_from_before_the_baseline() -> None:
    event = created("c1", 4)._replace(created_at_ns=0)
    play = Play(up(1), *looked(3, p1=READY), event, *relists(5, 11, p1=READY))
    assert play.judged == ["c1 ContainerChanged unseen", "c1 ContainerRemoved missed silent"]


def arrival(at: float, made: float) -> Announcement:
    """Another container's event that arrives then, by the wall clock, too; made at 0: no time."""
    event = deleted("c9", at, made=made)._replace(received_wall_ns=wall_ns(at))
    return event if made else event._replace(created_at_ns=0)


@pytest.mark.parametrize(
    ("event", "reached"),
    [
        (arrival(7.1, made=7.1), True),
        (arrival(7.1, made=6.9), False),
        (arrival(7.1, made=0), True),
        (arrival(6.9, made=7.4), False),
    ],
    ids=["just made", "made before", "without a time", "from the future"],
)
def test_a_miss_is_proven_by_an_event_that_was_made_after_the_grace(
    event: Announcement, *, reached: bool
) -> None:
    """None comes out of order, and none is made after it has arrived. The youngest is named."""
    lists = relists(2, 8, p1=READY, c1=RUNNING)
    play = Play(*BEGUN, beat(0.1), *lists, event, quiet=True)
    assert ("c1 ContainerStarted missed silent" in play.judged) is reached
    named = {f.other for f in play.findings if f.cause is Cause.SILENT}
    assert named == ({"c9"} if reached else set())
    assert {f.other for f in play.findings if f.cause is not Cause.SILENT} == {""}


def test_an_event_from_before_a_watch_does_not_show_that_it_is_served() -> None:
    play = Play(*BEGUN, beat(0.1), started("c1", 2), relist(3, p1=READY, c1=RUNNING), quiet=True)
    play.then(StreamUnproven(5))
    play.then(beat(4.9))
    play.then(*relists(6, p1=READY, c1=RUNNING), *relists(7, 14, p1=READY, c1=EXITED), beat(13))
    assert "c1 ContainerDied missed stalled" in play.judged
    assert {found.other for found in play.findings} == {""}


def test_one_stall_is_enough() -> None:
    """What the same relist finds lost after it does not hide it."""
    early = (created("c1", 1.1), deleted("c1", 1.2), relist(2, p1=READY, c1=CREATED, c2=RUNNING))
    old = deleted("c3", 55, made=10)._replace(received_wall_ns=wall_ns(55))
    lists = relists(20, 56, p1=READY, c1=RUNNING, c2=RUNNING)
    play = Play(*BEGUN, beat(0.1), *early, old, *lists, quiet=True)
    missed = [line for line in play.judged if "missed" in line]
    assert missed == ["c1 ContainerStarted missed stalled", "c2 ContainerStarted missed silent"]
    assert play.ledger.stalls == 1


def test_what_is_missed_in_one_stall_is_one_stall() -> None:
    lists = (relist(3, c1=RUNNING), *relists(20, 40, 60, c1=RUNNING, c2=RUNNING))
    play = Play(up(), beat(0.1), relist(1), *lists, quiet=True)
    starts = [f"{each} ContainerStarted missed stalled" for each in ("c1", "c2")]
    assert (play.judged, play.ledger.stalls) == (starts, 1)
    both = {"c1": RUNNING, "c2": RUNNING}
    play.then(beat(61), *relists(62, 63, **both), *relists(64, 100, c3=RUNNING, **both))
    assert (play.judged[-1], play.ledger.stalls) == ("c3 ContainerStarted missed stalled", 2)


def test_a_stall_counts_whenever_the_clock_began() -> None:
    lists = relists(-10, 30, c1=RUNNING)
    play = Play(up(-30), beat(-29), relist(-20), *lists, quiet=True)
    assert (play.judged, play.ledger.stalls) == (["c1 ContainerStarted missed stalled"], 1)


@pytest.mark.parametrize(("announced", "doubted"), [(None, False), (2.0, True)])
def test_an_announced_exit_is_in_doubt_where_failed_starts_are_announced_too(
    announced: float | None, *, doubted: bool
) -> None:
    """One that no event announced, and no list has just shown, needs no answer."""
    entry = Entry("c1", state=EXITED.state)
    entry.steps[Lifecycle.DIED].announced = announced
    assert start_in_doubt(entry, profile(Never.STOPPED_ONLY_IF_RAN)) is doubted
    assert not start_in_doubt(entry, profile())
    entry.ran = True
    assert not start_in_doubt(entry, profile(Never.STOPPED_ONLY_IF_RAN))


@pytest.mark.parametrize(
    ("kind", "listed", "never", "gap"),
    [
        (ObjectKind.SANDBOX, False, Never.SANDBOX_FAILED, True),
        (ObjectKind.SANDBOX, True, Never.SANDBOX_FAILED, False),
        (ObjectKind.SANDBOX, True, Never.STOPPED_ONLY_IF_RAN, True),
        (ObjectKind.CONTAINER, True, Never.STOPPED_ONLY_IF_RAN, False),
        (ObjectKind.CONTAINER, True, Never.SANDBOX_FAILED, True),
    ],
)
def test_an_exit_shows_that_a_start_is_missing_unless_it_may_have_failed(
    kind: ObjectKind, never: Never, *, listed: bool, gap: bool
) -> None:
    entry = Entry("c1", kind, listed=listed)
    entry.steps[Lifecycle.DIED].announced = 2.0
    assert is_gap(entry, Lifecycle.STARTED, profile(never)) is gap


@pytest.mark.parametrize(
    ("gone", "announced", "forced"), [(True, None, True), (True, 2.0, False), (False, None, False)]
)
def test_a_forced_removal_is_one_of_the_whole_pod_without_an_exit(
    announced: float | None, *, gone: bool, forced: bool
) -> None:
    entry = Entry("c1", ObjectKind.CONTAINER, gone_while_running=True, ran=True)
    sandbox = Entry("p1", ObjectKind.SANDBOX, gone_while_running=gone)
    sandbox.steps[Lifecycle.DIED].announced = announced
    rule = never_rule(entry, Lifecycle.DIED, sandbox, profile(Never.FORCED_REMOVAL))
    assert rule == (Never.FORCED_REMOVAL if forced else None)


@pytest.mark.parametrize(("of", "cause"), [(CRIO, "silent"), (CONTAINERD_2, "stream_down")])
def test_who_serves_a_subscriber_at_once_owes_what_comes_before_any_event(
    of: Profile, cause: str
) -> None:
    play = Play(up(), relist(1), relist(2, c1=RUNNING), beat(9), quiet=True, profile=of)
    play.then(relist(10, c1=RUNNING))
    assert play.judged == [f"c1 ContainerStarted missed {cause}"]


@pytest.mark.parametrize(
    ("shown", "never", "doubts"),
    [
        (EXITED, [Never.STOPPED_ONLY_IF_RAN], ("c1",)),
        (CREATED, [Never.STOPPED_ONLY_IF_RAN], ()),
        (EXITED, [], ()),
    ],
)
def test_a_container_whose_start_is_in_doubt_is_named_with_its_exit(
    shown: Shown, never: list[Never], doubts: tuple[str, ...]
) -> None:
    play = Play(up(), relist(1), relist(2, c1=shown), profile=profile(*never))
    assert play.ledger.judge(stopped("c1", 3)).doubts == doubts
