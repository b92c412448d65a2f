"""One small story for each verdict: facts, and the findings that follow from them.

The grace is 5 s, the runtime containerd 2; the baseline is usually at 1 s.
"""

import pytest

from exporter.pleg.facts import Fact, StreamAsked, StreamRefused, StreamUp
from tests.support.facts import (
    CREATED,
    EXITED,
    RUNNING,
    UNKNOWN,
    Play,
    created,
    deleted,
    relist,
    relists,
    started,
    stopped,
    taking,
    up,
    wall_ns,
)

# --- WITNESSED ----------------------------------------------------------------


def test_the_first_relist_is_a_baseline_and_proves_nothing() -> None:
    """A container that ran before this process did is not missed."""
    play = Play(
        up(), relist(1, c1=CREATED, c2=RUNNING, c3=EXITED, c4=UNKNOWN), relist(10, c2=RUNNING)
    )
    assert play.witnessed == [
        "c1 ContainerDied witnessed",
        "c1 ContainerRemoved witnessed",
        "c3 ContainerRemoved witnessed",
        "c4 ContainerDied witnessed",
        "c4 ContainerRemoved witnessed",
    ]


def test_every_emission_of_the_relist_is_counted() -> None:
    """Also a repeated one, and one that owes no announcement; each is judged once."""
    play = Play(up(), relist(1), started("c1", 1.5))
    play.then(relist(2, c1=RUNNING), relist(3, c1=UNKNOWN), relist(4, c1=RUNNING))
    assert play.witnessed == [
        "c1 ContainerStarted witnessed",
        "c1 ContainerChanged witnessed",
        "c1 ContainerStarted witnessed",
    ]
    assert play.judged == ["c1 ContainerStarted confirmed"]


def test_an_id_that_is_listed_twice_counts_once() -> None:
    """The first item counts; nothing that a runtime sends is an error."""
    doubled = relist(2, c1=RUNNING)
    doubled = type(doubled)(2, 2, 0, doubled.items + relist(2, c1=EXITED).items)
    assert Play(up(), relist(1), doubled).witnessed == ["c1 ContainerStarted witnessed"]


# --- CONFIRMED ----------------------------------------------------------------


def test_an_announcement_before_the_proof_confirms() -> None:
    """The event was faster than the list."""
    play = Play(up(), relist(1), started("c1", 2), relist(3, c1=RUNNING))
    assert play.judged == ["c1 ContainerStarted confirmed"]


def test_an_announcement_after_the_proof_confirms() -> None:
    """The list was faster than the event, as it usually is."""
    play = Play(up(), relist(1), relist(2, c1=RUNNING), started("c1", 6.9))
    assert play.judged == ["c1 ContainerStarted confirmed"]


def test_a_whole_life_is_confirmed_step_by_step() -> None:
    """Four announcements, four proofs, and nothing else."""
    play = Play(up(), relist(1), created("c1", 2), relist(3, c1=CREATED))
    play.then(started("c1", 4), relist(5, c1=RUNNING), stopped("c1", 6), relist(7, c1=EXITED))
    play.then(deleted("c1", 8), relist(9), relist(20))
    assert play.judged == [
        "c1 ContainerChanged confirmed",
        "c1 ContainerStarted confirmed",
        "c1 ContainerDied confirmed",
        "c1 ContainerRemoved confirmed",
    ]


# --- MISSED and LATE ----------------------------------------------------------


def test_a_proof_without_announcement_is_missed() -> None:
    """The first relist requested later than the grace after the proof settles it."""
    play = Play(up(), relist(1), relist(2, c1=RUNNING))
    play.then(relist(7, c1=RUNNING))
    assert play.judged == []
    play.then(relist(7.001, c1=RUNNING))
    assert play.judged == ["c1 ContainerStarted missed silent"]


def test_the_grace_runs_from_the_completion_of_the_proof_to_a_request() -> None:
    """A relist requested within the grace settles nothing, however long it takes."""
    play = Play(up(), relist(1), taking(2, relist(2, c1=RUNNING)))
    play.then(taking(10, relist(8, c1=RUNNING)))
    assert play.judged == []
    play.then(relist(20, c1=RUNNING))
    assert play.judged == ["c1 ContainerStarted missed silent"]


def test_an_announcement_during_the_settling_relist_still_confirms() -> None:
    """It was received before the ledger got that relist; there is no timer."""
    play = Play(up(), relist(1), relist(2, c1=RUNNING))
    play.then(started("c1", 8.5), taking(1, relist(8, c1=RUNNING)))
    assert play.judged == ["c1 ContainerStarted confirmed"]


def test_an_announcement_after_the_miss_is_late() -> None:
    """The final loss is missed minus late; a second copy is a duplicate."""
    play = Play(up(), relist(1), relist(2, c1=RUNNING), relist(8, c1=RUNNING))
    play.then(started("c1", 9), started("c1", 10))
    assert play.judged == [
        "c1 ContainerStarted missed silent",
        "c1 ContainerStarted late silent",
        "c1 ContainerStarted duplicate",
    ]


def test_a_deleted_does_not_make_up_for_a_lost_stopped() -> None:
    """Each lifecycle event needs its own announcement: the kubelet acts on STOPPED alone."""
    play = Play(up(), relist(1, c1=RUNNING), deleted("c1", 2), relist(3), relist(9))
    assert play.judged == ["c1 ContainerRemoved confirmed", "c1 ContainerDied missed silent"]


# --- UNSEEN -------------------------------------------------------------------


def test_a_life_between_two_relists_is_unseen() -> None:
    """Four announcements, and no list that could have shown the container."""
    play = Play(up(), relist(1), created("c1", 2), started("c1", 3))
    play.then(stopped("c1", 4), deleted("c1", 5), relist(10))
    assert play.judged == [
        "c1 ContainerChanged unseen",
        "c1 ContainerStarted unseen",
        "c1 ContainerDied unseen",
    ]
    play.then(relist(10.001))
    assert play.judged[3:] == ["c1 ContainerRemoved unseen"]
    assert play.witnessed == []


def test_a_step_between_two_relists_is_unseen_though_the_container_is_not() -> None:
    """It was CREATED and RUNNING before any list came."""
    play = Play(up(), relist(1), created("c1", 2), started("c1", 3))
    play.then(relist(4, c1=RUNNING), relist(9, c1=RUNNING))
    assert play.judged == ["c1 ContainerStarted confirmed", "c1 ContainerChanged unseen"]


def test_a_list_that_is_behind_leaves_an_announcement_open() -> None:
    """While a list still shows an older state, or UNKNOWN, a later one may prove the step."""
    play = Play(up(), relist(1, c1=CREATED), started("c1", 2))
    play.then(relist(10, c1=CREATED), relist(20, c1=UNKNOWN), relist(30, c1=CREATED))
    assert play.judged == []
    play.then(relist(40, c1=RUNNING))
    assert play.judged == ["c1 ContainerStarted confirmed"]


def test_a_proof_after_that_is_only_witnessed() -> None:
    """A step that was counted as UNSEEN is not judged again."""
    play = Play(up(), relist(1), created("c1", 2), deleted("c1", 3), relist(10))
    play.then(relist(11, c1=CREATED), relist(20, c1=CREATED))
    assert play.judged == ["c1 ContainerChanged unseen", "c1 ContainerRemoved unseen"]
    assert play.witnessed == ["c1 ContainerChanged witnessed"]


# --- DUPLICATE ----------------------------------------------------------------


def test_an_event_that_comes_twice_is_a_duplicate() -> None:
    """Whether the runtime created it twice or sent it twice."""
    play = Play(up(), relist(1), started("c1", 2), started("c1", 3), started("c1", 4, made=2))
    assert play.judged == ["c1 ContainerStarted duplicate"] * 2


def test_a_copy_from_an_overlapping_subscription_is_no_duplicate() -> None:
    """The same `created_at` from another stream; another `created_at` is another event."""
    play = Play(up(), relist(1), started("c1", 2, stream=1), started("c1", 2.1, made=2, stream=2))
    assert play.judged == []
    play.then(started("c1", 3, stream=2))
    assert play.judged == ["c1 ContainerStarted duplicate"]


# --- BACKLOG ------------------------------------------------------------------

BACKLOG: dict[str, tuple[tuple[Fact, ...], list[str]]] = {
    "events made before the subscription began: never UNSEEN, and no gap below them": (
        (up(10), stopped("c1", 11, made=9), deleted("c1", 11, made=9.5), *relists(12, 20, 30)),
        ["c1 ContainerDied backlog", "c1 ContainerRemoved backlog"],
    ),
    "backlog can confirm what a list proved": (
        (relist(9, c1=RUNNING), up(10), started("c1", 11, made=8)),
        ["c1 ContainerStarted backlog", "c1 ContainerStarted confirmed"],
    ),
    "backlog is late after an outage longer than the grace": (
        (*relists(2, 9, c1=RUNNING), up(10), started("c1", 11, made=2)),
        [
            "c1 ContainerStarted missed stream_down",
            "c1 ContainerStarted backlog",
            "c1 ContainerStarted late stream_down",
        ],
    ),
    "a later step that is no backlog opens no gap below it": (
        (up(10), started("c1", 11, made=9), stopped("c1", 12), relist(20)),
        ["c1 ContainerStarted backlog", "c1 ContainerDied unseen"],
    ),
    "an event without a usable created_at is none": (
        (up(10), started("c1", 11, made=-1_700_000_000), relist(20)),
        ["c1 ContainerChanged gap stream_down", "c1 ContainerStarted unseen"],
    ),
    "the subscription begins when it is requested, not when it first carries events": (
        (
            *(StreamAsked(10, wall_ns(10)), created("c1", 10.1, made=9)),
            *(StreamUp(10.2, wall_ns(10)), started("c1", 10.3), relist(20)),
        ),
        ["c1 ContainerChanged backlog", "c1 ContainerStarted unseen"],
    ),
    "an event made at that very time is none": (
        (up(10), created("c1", 11, made=10), relist(20)),
        ["c1 ContainerChanged unseen"],
    ),
}


@pytest.mark.parametrize(("facts", "judged"), BACKLOG.values(), ids=BACKLOG)
def test_backlog_is(facts: tuple[Fact, ...], judged: list[str]) -> None:
    """An event that is older than the subscription that delivered it: a replay."""
    assert Play(relist(1), *facts).judged == judged


# --- refused ------------------------------------------------------------------


def test_a_refused_stream_owes_nothing() -> None:
    """Without a subscription, by choice, the relist counts and nothing is judged."""
    play = Play(StreamRefused(0), relist(1), relist(2, c1=CREATED), relist(3), relist(20))
    assert play.judged == []
    assert play.witnessed == [
        "c1 ContainerChanged witnessed",
        "c1 ContainerDied witnessed",
        "c1 ContainerRemoved witnessed",
    ]
    assert play.ledger.unresolved == 0


def test_steps_that_wait_when_the_stream_is_refused_are_not_judged() -> None:
    """The runtime was replaced by one that is not safe to share: nothing is owed."""
    play = Play(up(), relist(1), created("c1", 1.5), relist(2, c2=RUNNING))
    play.then(StreamRefused(3), relist(20, c2=RUNNING))
    assert play.judged == []
    assert play.ledger.unresolved == 0


def test_nor_when_the_stream_is_up_again() -> None:
    """The step that waited stays unjudged; new steps are judged."""
    play = Play(up(), relist(1), created("c1", 1.5), relist(2, c1=RUNNING))
    play.then(StreamRefused(3), relist(4, c1=RUNNING), up(5), stopped("c1", 6))
    play.then(relist(7, c1=EXITED), relist(20, c1=EXITED))
    assert play.judged == ["c1 ContainerDied confirmed"]
