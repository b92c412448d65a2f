"""One story for each rule that the search of small worlds is too shallow for."""

from dataclasses import replace

import pytest

from exporter.model.events import Announcement, Inquiry, Lifecycle
from exporter.model.facts import CgroupsRead, Discarded, Inquired, StreamRefused, StreamUnproven
from exporter.model.labels import Never
from exporter.pleg.entry import Entry
from exporter.pleg.owed import start_in_doubt
from exporter.pleg.steps import StepState
from exporter.runtimes.known import profile_of
from exporter.runtimes.runtime import Profile
from tests.support.facts import (
    CONTAINERD_2,
    CREATED,
    CRIO,
    EXITED,
    NOTREADY,
    READY,
    RUNNING,
    UNKNOWN,
    Given,
    Play,
    Shown,
    beat,
    created,
    deleted,
    emptied,
    looked,
    of_sandbox,
    populated,
    profile,
    relist,
    relists,
    started,
    stopped,
    up,
    wall_ns,
)

pytestmark = pytest.mark.quick

CONTAINERD_17 = replace(CONTAINERD_2, never=profile_of("containerd", "1.7.24").never)
BEGUN = (up(), *looked(1, p1=READY))
C1 = EXITED.inside("p1")
UNKNOWN_POD = replace(READY, state=UNKNOWN.state)
# Processes that lasted, so that the container seemed to have been started.
LASTED = (created("c1", 2), populated("c1", 2), emptied("c1", 6))
LISTED = (*looked(7, p1=READY, c1=C1), *looked(13, p1=READY, c1=C1))
FAILED = Inquired(14, "c1", Inquiry.NEVER_STARTED)
UNLISTED = (
    *(created("c1", 2), populated("c1", 2), emptied("c1", 15)),
    *(*looked(20, p1=READY, c1=C1), Inquired(20.5, "c1", Inquiry.STARTED)),
)
WHILE_IN_DOUBT = (*LASTED, *LISTED, FAILED, *looked(20, p1=READY, c1=C1))
REMOVED = "c1 ContainerRemoved"
DIED = "c1 ContainerDied"


def disappears(*, amid: Shown, then: Shown) -> tuple[Given, ...]:
    """A container that is removed without a word while its pod is shown so, and then so."""
    before = relist(2, p1=READY, c1=C1)
    return (before, relist(3, p1=amid, c1=C1), relist(4, p1=amid), *relists(5, 10, p1=then))


def pod(event: Announcement) -> Announcement:
    """What a runtime says of a pod."""
    return of_sandbox(event)


STORIES: dict[str, tuple[Profile, tuple[Given, ...], dict[str, str]]] = {
    "a failed start owes no STARTED, however long it lasted, and its exit is never announced": (
        CONTAINERD_2,
        WHILE_IN_DOUBT,
        {"c1 ContainerStarted": "", DIED: "missed by_design"},
    ),
    "CRI-O removes a container with its pod, which still goes on": (
        CRIO,
        disappears(amid=NOTREADY, then=NOTREADY),
        {REMOVED: ""},
    ),
    "or may, while the pod's state is not known": (
        CRIO,
        disappears(amid=NOTREADY, then=UNKNOWN_POD),
        {REMOVED: ""},
    ),
    "it was not with its pod if that is READY again": (
        CRIO,
        disappears(amid=UNKNOWN_POD, then=READY),
        {REMOVED: "missed silent"},
    ),
    "nor if the pod was READY when it disappeared": (
        CRIO,
        disappears(amid=READY, then=NOTREADY),
        {REMOVED: "missed silent"},
    ),
    "what no list or event has shown of its pod cannot accuse CRI-O": (
        CRIO,
        (started("c1", 2)._replace(sandbox_id="p2"), *relists(3, 10, p1=READY)),
        {REMOVED: "missed by_design", DIED: "missed by_design"},
    ),
    "nor can its pod that only the lists left out": (
        CRIO,
        (relist(2, c1=RUNNING.inside("p2")), *relists(3, 10)),
        {REMOVED: "missed by_design", DIED: "missed by_design"},
    ),
    "CRI-O owes no exit by force, though the kernel saw it before the lists": (
        CRIO,
        (
            *(started("c1", 2), populated("c1", 2), relist(3, p1=READY, c1=RUNNING.inside("p1"))),
            *(emptied("c1", 4), *looked(5), *looked(11)),
        ),
        {DIED: "missed by_design"},
    ),
    "nor if the container's state was not known": (
        CRIO,
        (
            *(started("c1", 2), relist(2, p1=READY, c1=RUNNING.inside("p1"))),
            *(relist(3, p1=READY, c1=UNKNOWN.inside("p1")), *relists(5, 11)),
        ),
        {DIED: "missed by_design"},
    ),
    "but an exit that a list has shown, even if it was listed running again": (
        CRIO,
        (
            *(relist(2, p1=READY, c1=RUNNING.inside("p1")), relist(3, p1=READY, c1=C1)),
            *(relist(4, p1=READY, c1=RUNNING.inside("p1")), *relists(5, 11)),
        ),
        {DIED: "missed silent"},
    ),
    "a start that only the kernel saw is due once a list shows its end": (
        CONTAINERD_2,
        (*UNLISTED, *looked(22, p1=READY, c1=C1)),
        {"c1 ContainerStarted": ""},
    ),
    "and is missed after the grace": (
        CONTAINERD_2,
        (*UNLISTED, *looked(27, p1=READY, c1=C1)),
        {"c1 ContainerStarted": "missed silent"},
    ),
    "a start that a list showed to be slow is none, however long it lasted": (
        CONTAINERD_2,
        (
            *(created("c1", 2), populated("c1", 2)),
            *looked(5, p1=READY, c1=CREATED),
            *(CgroupsRead(8), emptied("c1", 9)),
            *relists(14, 20, p1=READY),
        ),
        {"c1 ContainerStarted": ""},
    ),
    "a refusal leaves nothing to judge of what was announced before": (
        CONTAINERD_2,
        (
            *(created("c1", 2), relist(3, p1=READY, c1=CREATED), stopped("c1", 4)),
            *(relist(5, p1=READY, c1=C1), StreamRefused(6), up(20)),
            Inquired(21, "c1", Inquiry.STARTED),
            *relists(22, 30, p1=READY, c1=C1),
        ),
        {"c1 ContainerStarted": ""},
    ),
    "a pod that stopped ran, on CRI-O, too": (
        CRIO,
        (pod(stopped("p2", 2)), *relists(3, 10, p1=READY)),
        {"p2 ContainerStarted": "gap"},
    ),
    "a pod that no list has shown ran, if it stopped": (
        CONTAINERD_17,
        (pod(stopped("p2", 2)), *relists(3, 10, p1=READY)),
        {"p2 ContainerStarted": "gap"},
    ),
    "the exit of a pod that no list has shown, and no event announced, is judged": (
        CONTAINERD_17,
        (pod(created("p2", 2)), *relists(3, 10, p1=READY)),
        {"p2 ContainerDied": "missed by_design"},
    ),
    "a pod that failed to set up stops without having run": (
        CONTAINERD_17,
        (relist(2, p1=READY, p2=NOTREADY), pod(stopped("p2", 3)), *relists(4, 10, p1=READY)),
        {"p2 ContainerStarted": ""},
    ),
    "where such a pod is announced, it lacks its STARTED": (
        CONTAINERD_2,
        (relist(2, p1=READY, p2=NOTREADY), pod(stopped("p2", 3)), *relists(4, 10, p1=READY)),
        {"p2 ContainerStarted": "gap"},
    ),
    "a drop excuses an exit as long as the lists are behind the kernel": (
        CONTAINERD_2,
        (
            *(created("c1", 2), started("c1", 2), populated("c1", 2)),
            *looked(3, p1=READY, c1=RUNNING.inside("p1")),
            emptied("c1", 4),
            *(deleted("c9", 14), Discarded(15)),
            *looked(19, p1=READY, c1=RUNNING.inside("p1")),
            *looked(21, p1=READY, c1=C1),
            *looked(30, p1=READY, c1=C1),
        ),
        {DIED: "missed discarded"},
    ),
    "a drop after the grace excuses no exit that a list has shown": (
        CONTAINERD_2,
        (
            *(created("c1", 1), started("c1", 1)),
            relist(2, p1=READY, c1=RUNNING),
            relist(3, p1=READY, c1=EXITED),
            relist(4, p1=READY, c1=UNKNOWN),
            deleted("c9", 9),
            Discarded(10),
            relist(11, p1=READY, c1=UNKNOWN),
        ),
        {DIED: "missed silent"},
    ),
    "what only a late event names may have gone before the subscription began": (
        CONTAINERD_2,
        (up(5), relist(6, p1=READY), created("c1", 7, made=4), *relists(8, 20, p1=READY)),
        {REMOVED: "missed stream_down"},
    ),
    "a drop excuses what was held up by an event that came since the last drop": (
        CONTAINERD_2,
        (
            *(created("c1", 1), started("c1", 1), relist(2, p1=READY, c1=RUNNING)),
            *(relist(3, p1=READY), deleted("c9", 9), Discarded(10)),
            *(stopped("c1", 11, made=2.5)._replace(received_wall_ns=wall_ns(11)), Discarded(12)),
            relist(13, p1=READY),
        ),
        {REMOVED: "missed discarded"},
    ),
    "what its own list never showed, and left processes behind, ran": (
        CONTAINERD_2,
        (
            populated("c1", 2),
            *looked(6, p1=READY),
            *looked(7, p1=READY, c1=C1),
            *looked(30, p1=READY),
        ),
        {"c1 ContainerStarted": "missed silent", DIED: "missed silent"},
    ),
}


@pytest.mark.parametrize(("runtime", "facts", "expected"), STORIES.values(), ids=STORIES)
def test_a_rule_leads_to_this_verdict(
    runtime: Profile, facts: tuple[Given, ...], expected: dict[str, str]
) -> None:
    """It leads to this verdict, or to none."""
    play = Play(*BEGUN, *facts, profile=runtime)
    judged = {of: [line for line in play.judged if line.startswith(of)] for of in expected}
    assert judged == {of: [f"{of} {how}"] if how else [] for of, how in expected.items()}


def test_a_stall_is_counted_once_until_a_younger_event_ends_it() -> None:
    """However many events are missing meanwhile."""
    play = Play(*BEGUN, beat(0.1), *relists(2, 40, p1=READY, c1=RUNNING), quiet=True)
    assert play.ledger.stalls == 1
    play.then(relist(41, p1=READY), relist(80, p1=READY))
    assert play.ledger.stalls == 1
    play.then(beat(81), relist(82, p1=READY, c2=RUNNING), relist(120, p1=READY))
    assert play.ledger.stalls == 2
    # Made before the last stall was found, so it does not end that one.
    old = created("c3", 121, made=100)._replace(received_wall_ns=wall_ns(121))
    play.then(old, *relists(122, 160, p1=READY, c4=RUNNING))
    assert play.ledger.stalls == 2


def test_what_has_no_time_is_neither_backlog_nor_from_before_the_baseline() -> None:
    """A runtime may leave the time out."""
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
    """None comes out of order, and none is made after it has arrived."""
    lists = relists(2, 8, p1=READY, c1=RUNNING)
    play = Play(*BEGUN, beat(0.1), *lists, event, quiet=True)
    assert ("c1 ContainerStarted missed silent" in play.judged) is reached


def test_an_event_from_before_a_watch_does_not_show_that_it_is_served() -> None:
    """It was received, and waited to be taken."""
    play = Play(*BEGUN, beat(0.1), started("c1", 2), relist(3, p1=READY, c1=RUNNING), quiet=True)
    play.then(StreamUnproven(5))
    play.then(beat(4.9))
    play.then(*relists(6, p1=READY, c1=RUNNING), *relists(7, 14, p1=READY, c1=EXITED), beat(13))
    assert "c1 ContainerDied missed stalled" in play.judged


def test_a_copy_of_backlog_counts_as_backlog_only() -> None:
    """Each event is counted once."""
    play = Play(up(5), *looked(6, p1=READY), created("c1", 7, made=4, stream=1))
    taken = play.ledger.take(created("c1", 8, made=4, stream=2))
    assert (taken.copy, taken.backlog) == (False, True)


def test_one_read_proves_the_starts_of_all_that_lasted() -> None:
    """Not that of the last one alone."""
    cgroups = (populated("c1", 2), populated("c2", 2))
    play = Play(*BEGUN, created("c1", 2), created("c2", 2), *cgroups, CgroupsRead(5))
    assert play.witnessed == ["c1 ContainerStarted witnessed", "c2 ContainerStarted witnessed"]


def test_one_stall_is_enough() -> None:
    """What the same relist finds lost after it does not hide it."""
    early = (created("c1", 1.1), deleted("c1", 1.2), relist(2, p1=READY, c1=CREATED, c2=RUNNING))
    old = deleted("c3", 55, made=10)._replace(received_wall_ns=wall_ns(55))
    lists = relists(20, 56, p1=READY, c1=RUNNING, c2=RUNNING)
    play = Play(*BEGUN, beat(0.1), *early, old, *lists, quiet=True)
    missed = [line for line in play.judged if "missed" in line]
    assert missed == ["c1 ContainerStarted missed stalled", "c2 ContainerStarted missed silent"]
    assert play.ledger.stalls == 1


def test_why_an_exit_was_not_judged_is_known() -> None:
    """Evidence shows it."""
    failed = Play(*BEGUN, *WHILE_IN_DOUBT)
    lists: tuple[Given, ...] = (*looked(7, p1=READY, c1=C1), *relists(8, 20, p1=READY))
    short = Play(*BEGUN, created("c1", 2), *lists)
    entries = [play.ledger.known("c1") for play in (failed, short)]
    states = [entry and entry.steps[Lifecycle.DIED].state for entry in entries]
    assert states == [StepState.BY_DESIGN, StepState.UNDECIDED]


@pytest.mark.parametrize(("announced", "doubted"), [(None, False), (2.0, True)])
def test_an_announced_exit_is_in_doubt_where_failed_starts_are_announced_too(
    announced: float | None, *, doubted: bool
) -> None:
    """One that no event announced, and no list has just shown, needs no answer."""
    entry = Entry("c1", state=EXITED.state)
    entry.steps[Lifecycle.DIED].announced = announced
    assert start_in_doubt(entry, profile(Never.STOPPED_MEANS_RAN)) is doubted
    assert not start_in_doubt(entry, profile())
