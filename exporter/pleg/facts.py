"""Everything that a ledger is ever told, as immutable facts.

Here: the facts besides an `Announcement` and a `Relist`, and when each was
learnt. Not here: what a ledger makes of them (`ledger`), nor who hears of them
(`chronicle`). `at` is when the observer learnt it.
"""

from __future__ import annotations

from dataclasses import dataclass

from exporter.pleg.events import Announcement, Inquiry, Listed, Relist


@dataclass(frozen=True, slots=True)
class StreamAsked:
    """A subscription was asked for at wall time `began_ns`; it does not yet carry events."""

    at: float
    began_ns: int


@dataclass(frozen=True, slots=True)
class StreamUp:
    """The subscription carries events; it began at wall time `began_ns`."""

    at: float
    began_ns: int


@dataclass(frozen=True, slots=True)
class StreamDown:
    """The subscription ended, or was never there."""

    at: float


@dataclass(frozen=True, slots=True)
class StreamRefused:
    """There is no stream to hold to account."""

    at: float


@dataclass(frozen=True, slots=True)
class Discarded:
    """This process dropped events: the first `at`, the last `until` (None: it was one).

    No other fact lies between.
    """

    at: float
    until: float | None = None
    events: int = 1


@dataclass(frozen=True, slots=True)
class Inquired:
    """`ContainerStatus` answered."""

    at: float
    container_id: str
    answer: Inquiry


@dataclass(frozen=True, slots=True)
class ProfileChosen:
    """The runtime said who it is; from now on the row of that name and version applies."""

    at: float
    name: str
    version: str


@dataclass(frozen=True, slots=True)
class Relisted:
    """A relist as a difference from the one before; that before the first one was empty.

    `listed`: how many items there were, repeated ids included. `changed`: what
    is new or told something new, in the order of the lists. `gone`: ids no longer listed.
    """

    requested: float
    completed: float
    requested_wall_ns: int
    listed: int
    changed: tuple[Listed, ...]
    gone: tuple[str, ...]


StreamFact = StreamAsked | StreamUp | StreamDown | StreamRefused
# What may come while a relist is judged.
DeferrableFact = StreamFact | Discarded | Inquired | ProfileChosen
# What a ledger takes, and what is told of it: there a relist is the difference it made.
Fact = Announcement | Relist | DeferrableFact
RecordedFact = Announcement | Relisted | DeferrableFact


def learnt(fact: Fact | Relisted) -> float:
    """When the observer learnt it: the order in which a ledger must hear it."""
    if isinstance(fact, Announcement):
        return fact.received
    if isinstance(fact, Relist | Relisted):
        return fact.completed
    return fact.at
