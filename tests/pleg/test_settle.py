"""Verdicts that need time: contradictions, gaps, containers that disappear, and what is owed.

The grace is 5 s, the runtime containerd 2; the baseline is usually at 1 s.
"""

import pytest

from exporter.model.events import Inquiry
from exporter.model.facts import Inquired, StreamRefused, StreamUnproven
from exporter.pleg.memory import RETENTION
from tests.support.facts import (
    CREATED,
    CRIO,
    EXITED,
    NOTREADY,
    RUNNING,
    UNKNOWN,
    Given,
    Play,
    beat,
    created,
    deleted,
    relist,
    relists,
    started,
    stopped,
    taking,
    up,
)

Stories = dict[str, tuple[tuple[Given, ...], list[str]]]

# --- CONTRADICTED -------------------------------------------------------------

LATE_LIST: tuple[Given, ...] = (up(), relist(1, c1=RUNNING), stopped("c1", 2))
CONTRADICTIONS: Stories = {
    "two relists in a row that show the older state, counted once": (
        (*LATE_LIST, *relists(3, 4, 5, 6, 7, c1=RUNNING)),
        ["c1 ContainerDied contradicted"],
    ),
    "one relist is not enough": ((*LATE_LIST, relist(3, c1=RUNNING)), []),
    "a relist requested before the event came may be older than the event": (
        (up(), relist(1, c1=RUNNING), stopped("c1", 3), *relists(3, 4, c1=RUNNING)),
        [],
    ),
    "UNKNOWN interrupts: it does not say that the step was not taken": (
        (*LATE_LIST, relist(3, c1=RUNNING), relist(4, c1=UNKNOWN), relist(5, c1=RUNNING)),
        [],
    ),
    "a second run of relists is not counted again": (
        (
            *(up(), relist(1, c1=CREATED), deleted("c1", 2)),
            *(*relists(3, 4, c1=CREATED), relist(5, c1=UNKNOWN), *relists(6, 7, c1=CREATED)),
        ),
        ["c1 ContainerRemoved contradicted"],
    ),
    "a container that is not listed has taken every step": (
        (up(), relist(1), created("c1", 2), deleted("c1", 2.5), relist(3), relist(4)),
        [],
    ),
    "a contradicted announcement can still be confirmed": (
        (*LATE_LIST, *relists(3, 4, c1=RUNNING), relist(20, c1=EXITED)),
        ["c1 ContainerDied contradicted", "c1 ContainerDied confirmed"],
    ),
}

# --- GAP ----------------------------------------------------------------------

LOST_CREATED: tuple[Given, ...] = (up(), relist(1), started("c1", 2), *relists(3, 9, c1=RUNNING))
GAPS: Stories = {
    "a later step without the earlier ones, once its grace is over": (
        (up(), relist(1), stopped("c1", 2), deleted("c1", 3), relist(7.001)),
        ["c1 ContainerChanged gap", "c1 ContainerStarted gap", "c1 ContainerDied unseen"],
    ),
    "not while the grace lasts": (
        (up(), relist(1), stopped("c1", 2), deleted("c1", 3), relist(7)),
        [],
    ),
    "a container that never ran leaves none": (
        (up(), relist(1), created("c1", 2), deleted("c1", 3), relist(20)),
        ["c1 ContainerChanged unseen", "c1 ContainerRemoved unseen"],
    ),
    "an exit between the lists, of a container that is known to have run": (
        (up(), relist(1), created("c1", 2), started("c1", 3), deleted("c1", 4), relist(9.5)),
        [
            *("c1 ContainerChanged unseen", "c1 ContainerStarted unseen"),
            *("c1 ContainerDied gap", "c1 ContainerRemoved unseen"),
        ],
    ),
    "an announcement after the gap was counted changes nothing": (
        (*LOST_CREATED, created("c1", 10), relist(20, c1=RUNNING)),
        [
            *("c1 ContainerStarted confirmed", "c1 ContainerChanged gap"),
            "c1 ContainerChanged flawed out_of_order",
        ],
    ),
    "a proof after the gap was counted is only witnessed: one loss is not counted twice": (
        (*LOST_CREATED, *relists(10, 20, c1=CREATED)),
        ["c1 ContainerStarted confirmed", "c1 ContainerChanged gap"],
    ),
    "steps that the baseline showed are none, and after UNKNOWN even an exit is not": (
        (
            *(up(), relist(1, c1=RUNNING, c2=UNKNOWN), stopped("c1", 2), deleted("c2", 2)),
            *relists(3, 20, c1=EXITED),
        ),
        ["c1 ContainerDied confirmed", "c2 ContainerRemoved confirmed"],
    ),
    "steps below backlog are none, and backlog that no list ever shows is not unseen": (
        (up(), relist(1), up(10), deleted("c1", 11, made=5), *relists(12, 20)),
        ["c1 ContainerRemoved backlog"],
    ),
    "steps below an event received before the baseline are none": (
        (up(), stopped("c1", 0.5), relist(1), deleted("c1", 2), relist(20)),
        ["c1 ContainerDied unseen", "c1 ContainerRemoved unseen"],
    ),
    "nor steps below an event made before the baseline, in whatever order events come": (
        (up(), relist(1), deleted("c1", 2), stopped("c1", 2.5, made=0.5), relist(20)),
        [
            "c1 ContainerDied flawed out_of_order",
            "c1 ContainerDied unseen",
            "c1 ContainerRemoved unseen",
        ],
    ),
    "a step after the baseline is one, although the life began before": (
        (up(), created("c1", 0.5), relist(1), stopped("c1", 5), deleted("c1", 6), relist(20)),
        [
            *("c1 ContainerChanged unseen", "c1 ContainerStarted gap"),
            *("c1 ContainerDied unseen", "c1 ContainerRemoved unseen"),
        ],
    ),
    "steps taken while the stream was refused are none": (
        (
            *(StreamRefused(0), relist(1), relist(2, c1=RUNNING), up(3), stopped("c1", 4)),
            *relists(5, 20, c1=EXITED),
        ),
        ["c1 ContainerDied confirmed"],
    ),
    "a step that the relist proved is missed, and no gap": (
        (
            *(up(), relist(1), created("c1", 2), relist(3, c1=RUNNING), stopped("c1", 4)),
            *relists(5, 20, c1=EXITED),
        ),
        [
            *("c1 ContainerDied confirmed", "c1 ContainerChanged unseen"),
            "c1 ContainerStarted missed silent",
        ],
    ),
    "a list that is behind may yet prove the step": (
        (
            *(up(), relist(1, c1=CREATED), deleted("c1", 2), started("c1", 2.5)),
            *(relist(10, c1=RUNNING), relist(20), relist(30)),
        ),
        [
            *("c1 ContainerStarted flawed out_of_order", "c1 ContainerStarted confirmed"),
            *("c1 ContainerRemoved confirmed", "c1 ContainerDied missed silent"),
        ],
    ),
}

# --- what is owed -------------------------------------------------------------

OWED: Stories = {
    "a change to UNKNOWN owes nothing, and does not prove CREATED": (
        (up(), relist(1), created("c1", 2), relist(3, c1=UNKNOWN), relist(20, c1=RUNNING)),
        ["c1 ContainerChanged unseen"],
    ),
    "a container that never ran owes no STOPPED, although Generic PLEG says that it died": (
        (
            up(),
            relist(1),
            created("c1", 2),
            relist(3, c1=CREATED),
            deleted("c1", 4),
            *relists(5, 20),
        ),
        ["c1 ContainerChanged confirmed", "c1 ContainerRemoved confirmed"],
    ),
    "one that ran owes it, although only the stream said so": (
        (up(), relist(1, c1=CREATED), started("c1", 2), deleted("c1", 3), *relists(4, 20)),
        [
            *("c1 ContainerRemoved confirmed", "c1 ContainerStarted unseen"),
            "c1 ContainerDied missed silent",
        ],
    ),
    "a sandbox always owes its exit: it is created running": (
        (up(), relist(1), *relists(2, 20, p1=NOTREADY)),
        ["p1 ContainerDied missed silent"],
    ),
    "an exit before the baseline is not owed, although UNKNOWN makes Generic PLEG repeat it": (
        (up(), relist(1, c1=EXITED), relist(2, c1=UNKNOWN), deleted("c1", 3), *relists(4, 20)),
        ["c1 ContainerRemoved confirmed"],
    ),
    "UNKNOWN in the baseline hides the start and the exit, but not the removal": (
        (up(), relist(1, c1=UNKNOWN), relist(2, c1=RUNNING), *relists(3, 20)),
        ["c1 ContainerRemoved missed silent"],
    ),
}


@pytest.mark.parametrize(("facts", "judged"), CONTRADICTIONS.values(), ids=CONTRADICTIONS)
def test_an_announcement_is_contradicted_by(facts: tuple[Given, ...], judged: list[str]) -> None:
    """Relists that were requested after it came and still show an older state."""
    assert Play(*facts).judged == judged


@pytest.mark.parametrize(("facts", "judged"), GAPS.values(), ids=GAPS)
def test_a_gap_is(facts: tuple[Given, ...], judged: list[str]) -> None:
    """A step that neither witness has, below one that was announced."""
    assert Play(*facts).judged == judged


@pytest.mark.parametrize(("facts", "judged"), OWED.values(), ids=OWED)
def test_an_announcement_is_owed(facts: tuple[Given, ...], judged: list[str]) -> None:
    assert Play(*facts).judged == judged


def test_a_gap_whose_container_lived_in_a_stall_is_explained_by_it() -> None:
    """As on a real node: its start was announced while the stream stood still, and never came."""
    play = Play(up(), beat(1), created("c1", 1.5), relist(2), quiet=True)
    play.then(relist(12, c1=EXITED), Inquired(12.1, "c1", Inquiry.STARTED))
    play.then(*relists(22, 32, 43, c1=EXITED), StreamUnproven(44), beat(50))
    assert play.judged == ["c1 ContainerChanged unseen", "c1 ContainerDied missed stalled"]
    play.then(relist(52, c1=EXITED), deleted("c1", 600), beat(601), *relists(602, 610, 612))
    assert play.judged[-2:] == ["c1 ContainerRemoved confirmed", "c1 ContainerStarted gap stalled"]


def test_a_late_answer_of_container_status_still_reveals_a_gap() -> None:
    """CRI-O's STOPPED does not mean that the container ran; ContainerStatus knows."""
    play = Play(up(), relist(1), created("c1", 2), stopped("c1", 3), profile=CRIO)
    play.then(
        *relists(4, 10, c1=EXITED), Inquired(11, "c1", Inquiry.STARTED), relist(12, c1=EXITED)
    )
    assert play.judged[-1] == "c1 ContainerStarted gap"


# --- containers that only the stream has named --------------------------------


def test_a_container_that_disappears_without_a_deleted_is_missed() -> None:
    """The first relist requested later does not show it; after another grace it is settled."""
    play = Play(up(), relist(1), created("c1", 2), started("c1", 3), stopped("c1", 4), relist(5))
    assert play.ledger.unresolved == 1
    play.then(relist(10))
    assert "c1 ContainerRemoved missed silent" not in play.judged
    play.then(relist(10.001))
    assert play.judged[-1] == "c1 ContainerRemoved missed silent"
    assert play.witnessed == ["c1 ContainerRemoved witnessed"]
    assert play.ledger.unresolved == 0


def test_a_running_container_that_disappears_has_died_too() -> None:
    play = Play(up(), relist(1), created("c1", 2), started("c1", 3), relist(5), relist(11))
    assert play.judged[-2:] == [
        "c1 ContainerDied missed silent",
        "c1 ContainerRemoved missed silent",
    ]


@pytest.mark.parametrize(
    ("facts", "judged"),
    [
        # A DELETED in time.
        (
            (relist(1), created("c1", 2), relist(3), deleted("c1", 7), relist(9), relist(20)),
            ["c1 ContainerRemoved confirmed", "c1 ContainerChanged unseen"],
        ),
        # A slow list that shows it after all.
        (
            (relist(1), created("c1", 2), relist(3), *relists(4, 20, c1=CREATED)),
            ["c1 ContainerChanged confirmed"],
        ),
        # A slow list of one that had ended: that is due from its first proof on.
        (
            (
                *(relist(1), created("c1", 2), started("c1", 3), relist(4, c1=RUNNING)),
                *(relist(6, c1=EXITED), relist(7), *relists(8, 12, c1=EXITED)),
            ),
            [
                *("c1 ContainerStarted confirmed", "c1 ContainerChanged unseen"),
                "c1 ContainerDied missed silent",
            ],
        ),
        # A relist requested before the announcement could not show it.
        ((relist(1), created("c1", 2), relist(2)), []),
        # Its DELETED may have come before the baseline: it was received before, or made before.
        (
            (created("c1", 0.5), relist(1), created("c2", 2, made=0.9), *relists(3, 10, 20)),
            ["c1 ContainerChanged unseen", "c2 ContainerChanged unseen"],
        ),
        # Made longer ago than the retention, it may have been counted and forgotten.
        (
            (
                *(relist(1), relist(RETENTION + 10), created("c1", RETENTION + 20, made=9)),
                *relists(RETENTION + 30, RETENTION + 40),
            ),
            ["c1 ContainerChanged unseen"],
        ),
    ],
)
def test_a_container_has_not_disappeared(facts: tuple[Given, ...], judged: list[str]) -> None:
    play = Play(up(0.5), *facts)
    assert play.judged == judged
    assert play.ledger.unresolved == 0


def test_the_first_announcement_decides_which_list_should_have_shown_it() -> None:
    """Another one came while that list was made."""
    play = Play(up(), relist(1), created("c1", 2), started("c1", 3.5), taking(1, relist(3)))
    assert play.ledger.unresolved == 2


def test_an_event_made_at_the_time_of_the_baseline_is_not_before_it() -> None:
    play = Play(up(0.5), relist(1), created("c1", 2, made=1), relist(3), relist(10))
    assert play.witnessed == ["c1 ContainerDied witnessed", "c1 ContainerRemoved witnessed"]


def test_an_answer_does_not_outweigh_what_a_list_has_shown() -> None:
    play = Play(up(), relist(1, c1=RUNNING), relist(2, c1=EXITED))
    play.then(Inquired(3, "c1", Inquiry.NEVER_STARTED), relist(8, c1=EXITED))
    assert play.judged == ["c1 ContainerDied missed silent"]
