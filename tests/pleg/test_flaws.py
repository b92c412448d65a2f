"""Events that came and are wrong: their own flaws, and the order of a container's steps."""

import pytest

from exporter.model.events import Flawed
from exporter.model.labels import Flaw
from tests.support.facts import Play, created, deleted, started, stopped, up

pytestmark = pytest.mark.quick

LATE = "c1 ContainerStarted flawed out_of_order"
LYING = Flawed((Flaw.WRONG_STATE, Flaw.EMPTY_STATUS), 2)


def flaws(*facts: object) -> list[str]:
    """What is flawed in that story."""
    return [line for line in Play(*facts, quiet=True).judged if "flawed" in line]  # type: ignore[arg-type]


def test_a_step_that_comes_after_a_later_one_is_out_of_order_once() -> None:
    """Each of them by itself; a repetition of it says nothing new."""
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
    """One finding for each flaw."""
    event = stopped("c1", 1)._replace(flawed=LYING)
    own = [f"c1 ContainerDied flawed {flaw.value}" for flaw in LYING.flaws]
    assert flaws(up(), event) == own
    assert flaws(up(), event, event._replace(received=2, stream=7)) == own
    assert flaws(up(), event, event._replace(received=2)) == own * 2
