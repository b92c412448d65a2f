"""Steps that nobody announced and no list proved, though a later one was announced.

The grace is 5 s, the runtime containerd 2; the baseline is usually at 1 s.
"""

from __future__ import annotations

from exporter.pleg.events import Inquiry
from exporter.pleg.facts import Inquired, StreamRefused
from tests.support.facts import (
    CREATED,
    CRIO,
    EXITED,
    RUNNING,
    UNKNOWN,
    Play,
    created,
    deleted,
    relist,
    started,
    stopped,
    up,
)


def test_a_later_step_without_the_earlier_one_is_a_gap() -> None:
    """Its CREATED and STARTED were lost, and no list could prove either."""
    play = Play(up(), relist(1), stopped("c1", 2), deleted("c1", 3), relist(7))
    assert play.judged == []
    play.then(relist(7.001))
    assert play.judged == [
        "c1 ContainerChanged gap",
        "c1 ContainerStarted gap",
        "c1 ContainerDied unseen",
    ]


def test_what_the_relist_proved_is_missed_and_no_gap() -> None:
    """The same loss, seen by the other witness."""
    play = Play(up(), relist(1), created("c1", 2), relist(3, c1=RUNNING), stopped("c1", 4))
    play.then(relist(5, c1=EXITED), relist(20, c1=EXITED))
    assert "c1 ContainerStarted missed silent" in play.judged
    assert not any("gap" in line for line in play.judged)


def test_a_container_that_never_ran_leaves_no_gap() -> None:
    """CREATED and DELETED are all that it owes."""
    play = Play(up(), relist(1), created("c1", 2), deleted("c1", 3), relist(20))
    assert play.judged == ["c1 ContainerChanged unseen", "c1 ContainerRemoved unseen"]


def test_an_exit_that_nobody_announced_is_a_gap_where_it_is_known_to_have_run() -> None:
    """STARTED and DELETED came; between the lists it must have stopped."""
    play = Play(up(), relist(1), created("c1", 2), started("c1", 3), deleted("c1", 4), relist(9.5))
    assert "c1 ContainerDied gap" in play.judged


def test_a_gap_waits_while_the_list_is_behind() -> None:
    """A list that is late may yet prove the step."""
    play = Play(up(), relist(1, c1=CREATED), deleted("c1", 2), started("c1", 2.5))
    play.then(relist(10, c1=RUNNING), relist(20), relist(30))
    assert "c1 ContainerDied gap" not in play.judged
    assert "c1 ContainerDied missed silent" in play.judged


def test_what_comes_after_the_gap_was_counted_is_unseen() -> None:
    """There is nothing left to confirm."""
    play = Play(up(), relist(1), started("c1", 2), relist(3, c1=RUNNING), relist(9, c1=RUNNING))
    play.then(created("c1", 10), relist(20, c1=RUNNING))
    assert play.judged == [
        "c1 ContainerStarted confirmed",
        "c1 ContainerChanged gap",
        "c1 ContainerChanged unseen",
    ]


def test_a_proof_after_the_gap_was_counted_is_only_witnessed() -> None:
    """One loss is not counted twice."""
    play = Play(up(), relist(1), started("c1", 2), relist(3, c1=RUNNING), relist(9, c1=RUNNING))
    play.then(relist(10, c1=CREATED), relist(20, c1=CREATED))
    assert play.judged == ["c1 ContainerStarted confirmed", "c1 ContainerChanged gap"]
    assert play.witnessed[-1] == "c1 ContainerChanged witnessed"


def test_nothing_below_the_baseline_is_a_gap() -> None:
    """It ran before this process did; an UNKNOWN one may even have exited."""
    play = Play(up(), relist(1, c1=RUNNING, c2=UNKNOWN), stopped("c1", 2), deleted("c2", 2))
    play.then(relist(3, c1=EXITED), relist(20, c1=EXITED))
    assert not any("gap" in line for line in play.judged)


def test_nothing_below_an_event_from_before_our_time_is_a_gap() -> None:
    """Received before any relist, or made before the baseline; in whatever order they come."""
    before = Play(up(), stopped("c1", 0.5), relist(1), deleted("c1", 2), relist(20))
    assert before.judged == ["c1 ContainerDied unseen", "c1 ContainerRemoved unseen"]
    overtaken = Play(up(), relist(1), deleted("c1", 2), stopped("c1", 2.5, made=0.5), relist(20))
    assert overtaken.judged == ["c1 ContainerDied unseen", "c1 ContainerRemoved unseen"]


def test_a_step_lost_in_our_time_is_a_gap_though_the_life_began_before() -> None:
    """Only what lies before our time is forgiven."""
    play = Play(up(), created("c1", 0.5), relist(1), stopped("c1", 5), deleted("c1", 6), relist(20))
    assert "c1 ContainerStarted gap" in play.judged


def test_an_answer_that_comes_late_still_tells_of_a_gap() -> None:
    """CRI-O's STOPPED does not mean that it ran; ContainerStatus knows."""
    play = Play(up(), relist(1), created("c1", 2), stopped("c1", 3), profile=CRIO)
    play.then(relist(4, c1=EXITED), relist(10, c1=EXITED))
    play.then(Inquired(11, "c1", Inquiry.STARTED), relist(12, c1=EXITED))
    assert play.judged[-1] == "c1 ContainerStarted gap"


def test_what_happened_while_the_stream_was_refused_leaves_no_gap() -> None:
    """The runtime was upgraded, and now is watched: its containers began before our time."""
    play = Play(StreamRefused(0), relist(1), relist(2, c1=RUNNING), up(3), stopped("c1", 4))
    play.then(relist(5, c1=EXITED), relist(20, c1=EXITED))
    assert play.judged == ["c1 ContainerDied confirmed"]
