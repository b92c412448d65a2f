"""Events that came and are wrong: their own flaws, and the order of a container's steps."""

import pytest

from exporter.cri import runtime_v1_pb2 as pb
from exporter.cri.flaws import flawed, flaws_of
from exporter.model.events import EventType, Flawed, ListedState, ObjectKind
from exporter.model.labels import Flaw
from tests.support.facts import Play, created, deleted, started, stopped, up

pytestmark = pytest.mark.quick

LATE = "c1 ContainerStarted flawed out_of_order"
LYING = Flawed((Flaw.WRONG_STATE, Flaw.EMPTY_STATUS), 2)


def flaws(*facts: object) -> list[str]:
    return [line for line in Play(*facts, quiet=True).judged if "flawed" in line]  # type: ignore[arg-type]


def test_a_step_that_comes_after_a_later_one_is_out_of_order_once() -> None:
    begun = (up(), created("c1", 1), stopped("c1", 2))
    assert flaws(*begun, deleted("c1", 3)) == []
    assert flaws(*begun, started("c1", 3)) == [LATE]
    assert flaws(*begun, started("c1", 3), started("c1", 4)) == [LATE]
    assert flaws(up(), deleted("c1", 1), started("c1", 2), stopped("c1", 3)) == [
        *(LATE, "c1 ContainerDied flawed out_of_order")
    ]


def test_two_subscriptions_have_no_common_order() -> None:
    """While a lease is renewed, one may be ahead; nor is a copy that comes late out of order."""
    first, second = started("c1", 3, made=1), stopped("c1", 2)
    assert flaws(up(), second, first._replace(stream=7)) == []
    copy = first._replace(received=4, stream=7)
    assert flaws(up(), first._replace(received=1), second._replace(stream=7), copy) == []


def test_an_events_own_flaws_are_found_each_time_it_comes_but_not_in_copies() -> None:
    event = stopped("c1", 1)._replace(flawed=LYING)
    own = [f"c1 ContainerDied flawed {flaw.value}" for flaw in LYING.flaws]
    assert flaws(up(), event) == own
    assert flaws(up(), event, event._replace(received=2, stream=7)) == own
    assert flaws(up(), event, event._replace(received=2)) == own * 2


def own_of(state: int, started_at: int = 0, finished_at: int = 0) -> pb.ContainerStatus:
    """A container's status; the state is a number of the CRI, or none of its numbers."""
    status = pb.ContainerStatus(started_at=started_at, finished_at=finished_at)
    status.state = state  # type: ignore[assignment] # as on the wire
    return status


S = 10**9
RUNS, ENDED = own_of(1, 5 * S), own_of(2, 5 * S, 9 * S)


@pytest.mark.parametrize(
    ("event", "own", "found"),
    [
        ("CREATED", own_of(0), []),
        ("STARTED", RUNS, []),
        ("STARTED", ENDED, []),
        ("STARTED", own_of(0), [Flaw.WRONG_STATE]),
        ("STOPPED", ENDED, []),
        ("STOPPED", RUNS, [Flaw.WRONG_STATE]),
        ("STOPPED", own_of(3, 5 * S), [Flaw.WRONG_STATE]),
        # A failed start.
        ("STOPPED", own_of(2, 0, 9 * S), []),
        ("STOPPED", own_of(2, 15 * S, 10 * S), []),
        ("STOPPED", own_of(2, 15 * S, 10 * S - 1), [Flaw.WRONG_TIME]),
        ("STOPPED", own_of(2, 5 * S, 0), []),
        ("STOPPED", own_of(2, 5 * S, 15 * S), []),
        ("STOPPED", own_of(2, 5 * S, 15 * S + 1), [Flaw.WRONG_TIME]),
        ("STOPPED", None, [Flaw.NO_STATUS]),
        ("DELETED", None, []),
    ],
)
def test_an_event_by_itself_is_flawed(
    event: str, own: pb.ContainerStatus | None, found: list[Flaw]
) -> None:
    """Made at 10 s, with a tolerance of five; without a pod, that is a flaw more."""
    kind = EventType[event]
    for uid, first in (("u1", ()), ("", (Flaw.NO_POD,))):
        flawed = flaws_of(kind, ObjectKind.CONTAINER, uid, own, 10 * S)
        assert flawed == (*first, *found)


def test_a_sandbox_has_no_status_of_its_own_and_an_event_may_have_no_time() -> None:
    assert flaws_of(EventType.STOPPED, ObjectKind.SANDBOX, "u1", None, 10 * S) == ()
    late = own_of(2, 5 * S, 99 * S)
    assert flaws_of(EventType.STOPPED, ObjectKind.CONTAINER, "u1", late, 0) == ()


def test_what_a_flawed_event_says_is_kept_as_it_was_put() -> None:
    """A state that is no number of the CRI is UNKNOWN."""
    states = {2: ListedState.EXITED}
    assert flawed((), 3, None, states) == Flawed((), 3)
    assert flawed((), 3, ENDED, states) == Flawed((), 3, ListedState.EXITED, 5 * S, 9 * S)
    assert flawed((), 3, own_of(7), states) == Flawed((), 3, ListedState.UNKNOWN)
