"""Each event of each object can be missed for each cause, and come late, or be skipped."""

from collections.abc import Iterator

import pytest

from exporter.model.events import Announcement, EventType, Lifecycle, ListedState, ObjectKind
from exporter.model.facts import Discarded, Fact, StreamDown, StreamUnproven
from exporter.model.findings import Cause, Verdict
from exporter.model.labels import StreamKind
from exporter.pleg.memory import UNLISTED
from exporter.runtimes.runtime import Profile
from tests.support.facts import (
    EVENTFUL,
    Play,
    Shown,
    beat,
    created,
    emptied,
    looked,
    populated,
    relist,
    said,
    up,
)

CAUSES = [cause for cause in Cause if cause is not Cause.BY_DESIGN]
KINDS = list(ObjectKind)
STATES = (None, ListedState.CREATED, ListedState.RUNNING, ListedState.EXITED, None)
SHARED = Profile("made-up", StreamKind.EXCLUSIVE, frozenset(), "a test")


def shown(kind: ObjectKind, state: ListedState | None) -> dict[str, Shown]:
    return {"x": Shown(state, kind)} if state else {}


def announced(kind: ObjectKind, event: Lifecycle, at: float) -> Announcement:
    return said(EventType(event.value), "x", at)._replace(kind=kind)


def trouble(cause: Cause, at: float) -> Iterator[Fact]:
    """What befalls the watch, so that a miss since has that cause."""
    match cause:
        case Cause.STREAM_DOWN:
            yield from (StreamDown(at), up(at + 0.1), beat(at + 0.2))
        case Cause.DISCARDED:
            yield Discarded(at - 1.5, until=at, events=2)
        case Cause.STALLED:
            yield StreamUnproven(at)
        case _:
            pass


@pytest.mark.parametrize("cause", CAUSES)
@pytest.mark.parametrize("event", Lifecycle)
@pytest.mark.parametrize("kind", KINDS)
def test_an_event_is_missed_for_that_cause_and_comes_late(
    kind: ObjectKind, event: Lifecycle, cause: Cause
) -> None:
    """An announcement after the loss was counted takes it back, with the same cause."""
    before, after = (shown(kind, state) for state in STATES[event : event + 2])
    play = Play(
        *(up(), beat(0.5), relist(1, **before), *trouble(cause, 2), relist(3, **after)),
        *() if cause is Cause.STALLED else [beat(8.5)],
        *(relist(9, **after), relist(40, **after)),
        profile=SHARED if cause is Cause.SHARED else EVENTFUL,
        quiet=True,
    )
    assert f"x {event.label} missed {cause.value}" in play.judged
    play.then(announced(kind, event, 50))
    assert play.judged[-1] == f"x {event.label} late {cause.value}"


@pytest.mark.parametrize("event", Lifecycle)
@pytest.mark.parametrize("kind", KINDS)
def test_an_event_is_confirmed_in_either_order(kind: ObjectKind, event: Lifecycle) -> None:
    before, after = (shown(kind, state) for state in STATES[event : event + 2])
    for at in (2, 4):
        facts = (up(), relist(1, **before), announced(kind, event, at), relist(3, **after))
        play = Play(*facts, profile=EVENTFUL)
        assert f"x {event.label} confirmed" in play.judged


@pytest.mark.parametrize("cause", [None, *(each for each in CAUSES if each is not Cause.SILENT)])
@pytest.mark.parametrize("event", list(Lifecycle)[:-1])
@pytest.mark.parametrize("kind", KINDS)
def test_a_step_that_no_witness_has_is_a_gap(
    kind: ObjectKind, event: Lifecycle, cause: Cause | None
) -> None:
    """All others are announced, between two lists; trouble since the first may explain it."""
    times = {other: (1.2 if other < event else 3) + other / 10 for other in Lifecycle}
    others = (announced(kind, each, at) for each, at in times.items() if each is not event)
    watch = trouble(cause, 2) if cause else ()
    play = Play(
        *(up(), beat(0.5), relist(1), *watch, *others, relist(20)),
        profile=SHARED if cause is Cause.SHARED else EVENTFUL,
        quiet=True,
    )
    expected = f"x {event.label} gap {cause.value}" if cause else f"x {event.label} gap"
    assert expected in play.judged


def test_whatever_a_flood_of_unknown_ids_announces_is_dropped() -> None:
    play = Play(up(), relist(1), *(created(str(n), 2) for n in range(UNLISTED)), quiet=True)
    each = [(event, kind) for event in Lifecycle for kind in KINDS]
    new = play.then(*(announced(kind, event, 3) for event, kind in each))
    assert [(f.verdict, f.event, f.kind) for f in new] == [(Verdict.OVERFLOW, *of) for of in each]


def test_a_sandbox_may_be_a_ghost_or_a_stray() -> None:
    pods = {"p1": Shown(ListedState.RUNNING, ObjectKind.SANDBOX)}
    ended = {"p1": Shown(ListedState.EXITED, ObjectKind.SANDBOX)}
    begun = (up(), *looked(1), populated("p1", 2), *looked(5, **pods))
    ghost = (*begun, emptied("p1", 6), *looked(12, **pods), *looked(13, **pods))
    assert "p1 ContainerDied ghost" in Play(*ghost).judged
    stray = (*begun, *(fact for at in (6, 12, 13) for fact in looked(at, **ended)))
    assert "p1 ContainerDied stray" in Play(*stray).judged
    gone = (*begun, *(fact for at in (6, 12, 13) for fact in looked(at)))
    assert "p1 ContainerRemoved stray" in Play(*gone, quiet=True).judged
