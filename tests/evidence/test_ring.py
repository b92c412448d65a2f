"""The flight recorder holds the newest facts, whole, and no more bytes than it may."""

import sys
import tracemalloc
from collections.abc import Callable, Iterable

import pytest

from exporter.evidence.ring import CAPACITY, Ring
from exporter.model.events import (
    Announcement,
    EventType,
    Inquiry,
    Listed,
    ListedState,
    ObjectKind,
    Pod,
)
from exporter.model.facts import Fact, Inquired, ProfileChosen, Relist, StreamDown

pytestmark = pytest.mark.quick


def event(number: int, *, length: int = 64) -> Announcement:
    """An event with strings of its own, as a decoder makes it."""
    word = f"{number:0{length}d}"
    pod = Pod(f"shop-{number}", f"cart-{word}", f"uid-{word}")
    kind = ObjectKind.CONTAINER
    return Announcement(word, EventType.STARTED, 1.5 * number, number, kind, word[:-1], pod)


def nameless(fact: Fact) -> Fact:
    """As it is kept: the ledger knows who that is."""
    return fact._replace(sandbox_id="", pod=None) if isinstance(fact, Announcement) else fact


def whole(ring: Ring, facts: Iterable[Fact]) -> list[Fact]:
    """All that is left of these facts."""
    return ring.about({fact.container_id for fact in facts if isinstance(fact, Announcement)})


def showing(number: int, items: int) -> Relist:
    """A relist with this number of changed items, and as many that are gone."""
    changed = tuple(
        Listed(f"{number}-{item:064d}", ObjectKind.CONTAINER, ListedState.RUNNING, f"{item:064d}")
        for item in range(items)
    )
    gone = tuple(f"gone-{number}-{item:064d}" for item in range(items))
    return Relist(float(number), float(number), number, items, changed, gone)


# Made where they are looked at: every process of the tests reads this file.
STORMS: dict[str, Callable[[], list[Fact]]] = {
    "events": lambda: [event(number) for number in range(20_000)],
    "long names": lambda: [event(number, length=5000) for number in range(500)],
    "relists": lambda: [showing(number, 40) for number in range(200)],
    "baselines": lambda: [showing(number, 4000) for number in range(8)],
    "answers": lambda: [Inquired(1.0, f"{n:0300d}", Inquiry.STARTED) for n in range(10_000)],
    "introductions": lambda: [ProfileChosen(1.0, "x" * 3000, f"{n:03000d}") for n in range(1000)],
    "outages": lambda: [StreamDown(float(number)) for number in range(20_000)],
}


@pytest.mark.parametrize("storm", STORMS)
def test_a_storm_of_anything_stays_within_the_bytes(storm: str) -> None:
    """And the newest facts are there, an event without whose pod it was."""
    ring, facts = Ring(), STORMS[storm]()
    for fact in facts:
        ring.take(fact)
        assert ring.size <= CAPACITY
    kept = whole(ring, facts)
    assert 0 < len(kept) < len(facts)
    if storm != "baselines":
        assert kept == [nameless(fact) for fact in facts[-len(kept) :]]
    else:
        # Of a relist that changed everything the first changes are kept: it must not push out more.
        assert isinstance(last := kept[-1], Relist)
        assert (len(last.changed), len(last.gone), last.listed) == (256, 256, 4000)


def test_the_estimate_is_not_below_what_python_takes() -> None:
    """A megabyte that is said is a megabyte that is had, at most."""
    tracemalloc.start()
    ring = Ring()
    before, _ = tracemalloc.get_traced_memory()
    for number in range(5000):
        ring.take(event(number))
    after, _ = tracemalloc.get_traced_memory()
    tracemalloc.stop()
    assert len(whole(ring, map(event, range(5000)))) < 5000
    assert after - before <= CAPACITY * 1.1
    assert sys.getsizeof(ring) < CAPACITY


def test_events_of_other_containers_are_left_out() -> None:
    """A case is about one container; what happened to the watch concerns all."""
    ring = Ring()
    for fact in (event(1), StreamDown(2.0), event(3)):
        ring.take(fact)
    assert ring.about({event(3).container_id}) == [StreamDown(2.0), nameless(event(3))]
