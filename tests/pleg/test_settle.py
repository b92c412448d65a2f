"""The verdicts, an example of each; and what needs other times or answers than small worlds have.

The grace is 5 s, the runtime containerd 2; the baseline is usually at 1 s.
"""

import pytest

from exporter.model.events import Inquiry
from exporter.model.facts import Inquired, StreamDown, StreamUnproven
from exporter.pleg.memory import RETENTION
from tests.support.facts import (
    EXITED,
    RUNNING,
    Given,
    Play,
    beat,
    created,
    deleted,
    relist,
    relists,
    started,
    stopped,
    up,
)

BEGUN: tuple[Given, ...] = (up(), relist(1, c1=RUNNING))
ENDED = (*BEGUN, relist(2, c1=EXITED), relist(8, c1=EXITED))
MISSED = "c1 ContainerDied missed silent"
EXAMPLES: dict[str, tuple[tuple[Given, ...], list[str]]] = {
    "what a list proves and the stream announces is confirmed": (
        (*BEGUN, stopped("c1", 1.5), relist(2, c1=EXITED)),
        ["c1 ContainerDied confirmed"],
    ),
    "what is not announced within the grace is missed": (ENDED, [MISSED]),
    "what comes after that is late": (
        (*ENDED, stopped("c1", 9)),
        [MISSED, "c1 ContainerDied late silent"],
    ),
    "an outage explains a miss": (
        (*BEGUN, StreamDown(1.2), up(1.4), *ENDED[2:]),
        ["c1 ContainerDied missed stream_down"],
    ),
    "what passes between two lists is unseen": (
        (up(), relist(1), created("c1", 2), deleted("c1", 3), relist(20)),
        ["c1 ContainerChanged unseen", "c1 ContainerRemoved unseen"],
    ),
    "a later step without the earlier ones leaves gaps": (
        (up(), relist(1), stopped("c1", 2), deleted("c1", 3), relist(7.001)),
        ["c1 ContainerChanged gap", "c1 ContainerStarted gap", "c1 ContainerDied unseen"],
    ),
    "an exit of what may never have run is undecided": (
        (up(), relist(1), created("c1", 2), *relists(3, c1=EXITED), deleted("c1", 4), relist(20)),
        [
            "c1 ContainerRemoved confirmed",
            "c1 ContainerChanged unseen",
            "c1 ContainerDied undecided",
        ],
    ),
    "two lists that show the older state contradict it, once": (
        (*BEGUN, stopped("c1", 2), *relists(3, 4, 5, 6, 7, c1=RUNNING)),
        ["c1 ContainerDied contradicted"],
    ),
    "a list requested when the event came may be older than it": (
        (*BEGUN, stopped("c1", 3), *relists(3, 4, c1=RUNNING)),
        [],
    ),
    "what was made before the subscription is backlog": (
        (up(), relist(1), up(10), deleted("c1", 11, made=5), *relists(12, 20)),
        ["c1 ContainerRemoved backlog"],
    ),
    "what disappears without a DELETED has ended, too": (
        (up(), relist(1), created("c1", 2), started("c1", 3), relist(5), relist(11)),
        [
            *("c1 ContainerChanged unseen", "c1 ContainerStarted unseen"),
            *(MISSED, "c1 ContainerRemoved missed silent"),
        ],
    ),
    "a list requested when it was announced could not show it": (
        (up(), relist(1), created("c1", 2), relist(2)),
        [],
    ),
    "what was made longer ago than the retention may have been forgotten": (
        (
            *(up(), relist(1), relist(RETENTION + 10), created("c1", RETENTION + 20, made=9)),
            *relists(RETENTION + 30, RETENTION + 40),
        ),
        ["c1 ContainerChanged unseen"],
    ),
    "an answer does not outweigh what a list has shown": (
        (*ENDED[:3], Inquired(3, "c1", Inquiry.NEVER_STARTED), ENDED[3]),
        [MISSED],
    ),
}


@pytest.mark.parametrize(("facts", "judged"), EXAMPLES.values(), ids=EXAMPLES)
def test_a_story_has_its_verdicts(facts: tuple[Given, ...], judged: list[str]) -> None:
    """All others are in `tests/worlds`: the small worlds have every order of such steps."""
    assert Play(*facts).judged == judged


def test_a_gap_whose_container_lived_in_a_stall_is_explained_by_it() -> None:
    """As on a real node: its start was announced while the stream stood still, and never came."""
    play = Play(up(), beat(1), created("c1", 1.5), relist(2), quiet=True)
    play.then(relist(12, c1=EXITED), Inquired(12.1, "c1", Inquiry.STARTED))
    play.then(*relists(22, 32, 43, c1=EXITED), StreamUnproven(44), beat(50))
    assert play.judged == ["c1 ContainerChanged unseen", "c1 ContainerDied missed stalled"]
    play.then(relist(52, c1=EXITED), deleted("c1", 600), beat(601), *relists(602, 610, 612))
    assert play.judged[-2:] == ["c1 ContainerRemoved confirmed", "c1 ContainerStarted gap stalled"]


def test_an_event_made_at_the_time_of_the_baseline_is_not_before_it() -> None:
    play = Play(up(0.5), relist(1), created("c1", 2, made=1), relist(3), relist(10))
    assert play.witnessed == ["c1 ContainerDied witnessed", "c1 ContainerRemoved witnessed"]
