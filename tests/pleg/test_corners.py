"""The odd cases: what the stream alone knows, steps that are gaps, lists that take things back.

The grace is 5 s, the runtime containerd 2; the baseline is usually at 1 s.
"""

from __future__ import annotations

import pytest

from exporter.pleg.facts import StreamAsked, StreamUp
from exporter.pleg.memory import RETENTION
from tests.support.facts import (
    CREATED,
    EXITED,
    NOTREADY,
    RUNNING,
    UNKNOWN,
    Play,
    Shown,
    created,
    deleted,
    relist,
    started,
    stopped,
    up,
    wall_ns,
)

# --- CONTRADICTED -------------------------------------------------------------


def test_two_relists_in_a_row_that_still_show_the_older_state_contradict() -> None:
    """Both asked for after the event came. Counted once, however long it lasts."""
    play = Play(up(), relist(1, c1=RUNNING), stopped("c1", 2), relist(3, c1=RUNNING))
    assert play.judged == []
    play.then(*(relist(at, c1=RUNNING) for at in (4, 5, 6, 7)))
    assert play.judged == ["c1 ContainerDied contradicted"]


def test_a_relist_asked_for_before_the_event_came_contradicts_nothing() -> None:
    """Its answer may be older than the event that overtook it."""
    play = Play(up(), relist(1, c1=RUNNING), stopped("c1", 3))
    play.then(relist(3, c1=RUNNING), relist(4, c1=RUNNING))
    assert play.judged == []


def test_an_unknown_state_interrupts_the_row() -> None:
    """It does not say that the step has not been taken."""
    play = Play(up(), relist(1, c1=RUNNING), stopped("c1", 2))
    play.then(relist(3, c1=RUNNING), relist(4, c1=UNKNOWN), relist(5, c1=RUNNING))
    assert play.judged == []


def test_a_second_row_is_not_counted_again() -> None:
    """Once for each identity."""
    play = Play(up(), relist(1, c1=CREATED), deleted("c1", 2))
    play.then(relist(3, c1=CREATED), relist(4, c1=CREATED), relist(5, c1=UNKNOWN))
    play.then(relist(6, c1=CREATED), relist(7, c1=CREATED))
    assert play.judged == ["c1 ContainerRemoved contradicted"]


def test_absence_contradicts_nothing() -> None:
    """A container that is gone has taken every step."""
    play = Play(up(), relist(1), created("c1", 2), deleted("c1", 2.5), relist(3), relist(4))
    assert play.judged == []


def test_a_contradicted_announcement_still_confirms() -> None:
    """The lists were behind, for however long."""
    play = Play(up(), relist(1, c1=RUNNING), stopped("c1", 2))
    play.then(relist(3, c1=RUNNING), relist(4, c1=RUNNING), relist(20, c1=EXITED))
    assert play.judged == ["c1 ContainerDied contradicted", "c1 ContainerDied confirmed"]


# --- BACKLOG ------------------------------------------------------------------


def test_what_was_made_before_the_watch_began_is_backlog() -> None:
    """A replay: counted for each event, never UNSEEN, and no gap below it."""
    play = Play(relist(1), up(10), stopped("c1", 11, made=9), deleted("c1", 11, made=9.5))
    play.then(relist(12), relist(20), relist(30))
    assert play.judged == ["c1 ContainerDied backlog", "c1 ContainerRemoved backlog"]


def test_backlog_may_confirm() -> None:
    """The list had it, and the replay came within the grace."""
    play = Play(relist(1), relist(9, c1=RUNNING), up(10), started("c1", 11, made=8))
    assert play.judged == ["c1 ContainerStarted backlog", "c1 ContainerStarted confirmed"]


def test_backlog_may_come_late() -> None:
    """After an outage longer than the grace."""
    play = Play(relist(1), relist(2, c1=RUNNING), relist(9, c1=RUNNING), up(10))
    play.then(started("c1", 11, made=2))
    assert play.judged == [
        "c1 ContainerStarted missed stream_down",
        "c1 ContainerStarted backlog",
        "c1 ContainerStarted late",
    ]


def test_a_later_step_that_is_news_opens_no_gap_below_the_backlog() -> None:
    """The replay tells that it had started; STOPPED is news."""
    play = Play(relist(1), up(10), started("c1", 11, made=9), stopped("c1", 12), relist(20))
    assert play.judged == ["c1 ContainerStarted backlog", "c1 ContainerDied unseen"]


def test_an_event_without_a_time_is_news() -> None:
    """`created_at` 0 is no time at all, nor one before our time."""
    play = Play(relist(1), up(10), started("c1", 11, made=-1_700_000_000), relist(20))
    assert play.judged == ["c1 ContainerChanged gap", "c1 ContainerStarted unseen"]


def test_backlog_is_known_from_the_moment_a_subscription_is_asked_for() -> None:
    """The replay may come before anything tells that the subscription is up."""
    play = Play(relist(1), StreamAsked(10, wall_ns(10)), created("c1", 10.1, made=9))
    play.then(StreamUp(10.2, wall_ns(10)), started("c1", 10.3), relist(20))
    assert play.judged == ["c1 ContainerChanged backlog", "c1 ContainerStarted unseen"]


def test_an_event_made_as_the_watch_began_is_news() -> None:
    """Backlog is older."""
    play = Play(relist(1), up(10), created("c1", 11, made=10), relist(20))
    assert play.judged == ["c1 ContainerChanged unseen"]


# --- what only the stream has named -------------------------------------------


def test_a_container_that_vanishes_without_a_deleted_is_missed() -> None:
    """The first relist asked for later does not show it; the grace after that, it is settled."""
    play = Play(up(), relist(1), created("c1", 2), started("c1", 3), stopped("c1", 4))
    play.then(relist(5))
    assert play.ledger.unresolved == 1
    play.then(relist(10))
    assert "c1 ContainerRemoved missed silent" not in play.judged
    play.then(relist(10.001))
    assert play.judged[-1] == "c1 ContainerRemoved missed silent"
    assert play.witnessed == ["c1 ContainerRemoved witnessed"]
    assert play.ledger.unresolved == 0


def test_a_running_container_that_vanishes_has_died_too() -> None:
    """As far as the stream told, it ran."""
    play = Play(up(), relist(1), created("c1", 2), started("c1", 3), relist(5), relist(11))
    assert play.judged[-2:] == [
        "c1 ContainerDied missed silent",
        "c1 ContainerRemoved missed silent",
    ]


def test_a_deleted_in_time_dissolves_the_doubt() -> None:
    """A life between two relists, told slowly."""
    play = Play(
        up(), relist(1), created("c1", 2), relist(3), deleted("c1", 7), relist(9), relist(20)
    )
    assert play.judged == ["c1 ContainerChanged unseen", "c1 ContainerRemoved unseen"]
    assert play.witnessed == []


def test_a_list_that_shows_it_ends_the_doubt() -> None:
    """The list was slow; from then on it is compared as every other."""
    play = Play(up(), relist(1), created("c1", 2), relist(3), relist(4, c1=CREATED))
    play.then(relist(20, c1=CREATED))
    assert play.judged == ["c1 ContainerChanged confirmed"]
    assert play.ledger.unresolved == 0


def test_a_relist_asked_for_before_the_announcement_opens_no_doubt() -> None:
    """It could not have shown the container."""
    play = Play(up(), relist(1), created("c1", 2), relist(2))
    assert play.ledger.unresolved == 0


def test_what_was_named_before_our_time_may_vanish() -> None:
    """Nobody could have heard its DELETED: received before the baseline, or made before it."""
    play = Play(up(), created("c1", 0.5), relist(1), created("c2", 2, made=0.9))
    play.then(relist(3), relist(10), relist(20))
    assert play.witnessed == []


def test_what_was_made_with_the_baseline_may_not() -> None:
    """It is not earlier than the baseline's request."""
    play = Play(up(0.5), relist(1), created("c1", 2, made=1), relist(3), relist(10))
    assert play.witnessed == ["c1 ContainerDied witnessed", "c1 ContainerRemoved witnessed"]


def test_what_was_made_longer_ago_than_the_retention_is_from_before_our_time() -> None:
    """It may be known no more: its end could have been counted already."""
    play = Play(up(0.5), relist(1), relist(RETENTION + 10), created("c1", RETENTION + 20, made=9))
    play.then(relist(RETENTION + 30), relist(RETENTION + 40))
    assert play.witnessed == []


# --- what is owed -------------------------------------------------------------


def test_a_change_to_unknown_is_owed_no_announcement() -> None:
    """It is a change of the runtime's mind; nor does it prove that CREATED was true."""
    play = Play(up(), relist(1), created("c1", 2), relist(3, c1=UNKNOWN), relist(20, c1=RUNNING))
    assert "c1 ContainerChanged unseen" in play.judged
    assert not any("missed" in line for line in play.judged)


def test_a_container_that_never_ran_owes_no_stopped() -> None:
    """Generic PLEG says it died, for it was there and is gone."""
    play = Play(up(), relist(1), created("c1", 2), relist(3, c1=CREATED))
    play.then(deleted("c1", 4), relist(5), relist(20))
    assert play.witnessed[1] == "c1 ContainerDied witnessed"
    assert play.judged == ["c1 ContainerChanged confirmed", "c1 ContainerRemoved confirmed"]


def test_one_that_is_known_to_have_run_owes_it() -> None:
    """By the stream's word, though no list showed it running."""
    play = Play(
        up(), relist(1, c1=CREATED), started("c1", 2), deleted("c1", 3), relist(4), relist(20)
    )
    assert "c1 ContainerDied missed silent" in play.judged


def test_a_sandbox_always_owes_its_exit() -> None:
    """It is made running."""
    play = Play(up(), relist(1), relist(2, p1=NOTREADY), relist(20, p1=NOTREADY))
    assert play.judged == ["p1 ContainerDied missed silent"]


def test_an_exit_from_before_the_baseline_is_not_owed() -> None:
    """UNKNOWN between EXITED and gone makes Generic PLEG say it again."""
    play = Play(up(), relist(1, c1=EXITED), relist(2, c1=UNKNOWN), deleted("c1", 3), relist(4))
    play.then(relist(20))
    assert play.witnessed[1] == "c1 ContainerDied witnessed"
    assert play.judged == ["c1 ContainerRemoved confirmed"]


@pytest.mark.parametrize(
    "flicker",
    [
        (RUNNING, UNKNOWN, RUNNING),
        (UNKNOWN, RUNNING),
        (UNKNOWN, EXITED),
        (RUNNING, None, RUNNING),
        (EXITED, None, EXITED),
        (EXITED, UNKNOWN, EXITED),
    ],
)
def test_what_the_baseline_showed_is_owed_by_nobody_however_the_lists_flicker(
    flicker: tuple[Shown | None, ...],
) -> None:
    """Its start, or its end, was before our time."""
    play = Play(up())
    for at, state in enumerate(flicker, 1):
        play.then(relist(at, **({"c1": state} if state else {})))
    last = flicker[-1] or RUNNING
    play.then(relist(20, c1=last), relist(40, c1=last))
    assert play.judged == []


def test_a_container_whose_state_nobody_knew_owes_its_removal() -> None:
    """UNKNOWN in the baseline hides its start and its end, not what follows."""
    play = Play(up(), relist(1, c1=UNKNOWN), relist(2, c1=RUNNING), relist(3), relist(20))
    assert play.judged == ["c1 ContainerRemoved missed silent"]


# --- removals that are taken back ---------------------------------------------


def test_a_removal_that_the_next_list_takes_back_was_never_one() -> None:
    """A list that flickers: the proofs are counted, and withdrawn."""
    play = Play(up(), relist(1, c1=RUNNING), relist(2))
    assert play.ledger.unresolved == 2
    play.then(started("c1", 2.5), relist(3, c1=RUNNING), relist(20, c1=RUNNING))
    assert play.judged == []
    assert play.ledger.unresolved == 0


def test_even_the_relist_that_would_settle_it_takes_a_removal_back() -> None:
    """What it shows is stronger than what it did not hear."""
    play = Play(up(), relist(1, c1=EXITED), relist(2), relist(20, c1=EXITED), relist(40, c1=EXITED))
    assert not any("ContainerRemoved" in line for line in play.judged)


def test_an_announced_removal_is_not_taken_back() -> None:
    """DELETED was said: a list that shows it again is stale."""
    play = Play(up(), relist(1, c1=RUNNING), relist(2), deleted("c1", 3), relist(4, c1=EXITED))
    play.then(relist(5), relist(20))
    assert play.judged == ["c1 ContainerRemoved confirmed", "c1 ContainerDied missed silent"]


def test_a_removal_after_one_that_was_taken_back_is_proven_anew() -> None:
    """The grace runs from the second proof."""
    play = Play(up(), relist(1), stopped("c1", 1.5), relist(2, c1=EXITED))
    play.then(relist(3), relist(4, c1=EXITED), relist(9), deleted("c1", 13))
    play.then(relist(13.5), relist(14.5))
    assert play.judged[-1] == "c1 ContainerRemoved confirmed"
