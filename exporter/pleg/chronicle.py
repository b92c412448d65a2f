"""The one door to a ledger: each fact is told, in the order in which it was taken.

A listener that hands the same facts in the same order to another ledger gets
the same findings. For that a relist, whose judgement others interrupt, is one
fact: what comes meanwhile waits until it is over. Here: order and telling. Not
here: what listeners make of it (`exporter.evidence`).
"""

from __future__ import annotations

from collections import deque
from typing import TYPE_CHECKING, Final, Protocol

from exporter.pleg.events import Relist
from exporter.pleg.facts import Discarded
from exporter.pleg.findings import NOTHING, Taken
from exporter.pleg.ledger import finished

if TYPE_CHECKING:
    from collections.abc import Generator, Sequence

    from exporter.pleg.events import Announcement
    from exporter.pleg.facts import DeferrableFact, Fact, RecordedFact
    from exporter.pleg.findings import Finding
    from exporter.pleg.ledger import Ledger
    from exporter.pleg.profiles import Profile

# Findings of a relist that are told without a turn for others in between.
_TOLD_AT_ONCE: Final = 16


class Listener(Protocol):
    """Hears what the ledger was told, and then what it found; it must be quick."""

    def fact(self, fact: RecordedFact) -> None:
        """The ledger has taken this fact."""

    def found(self, findings: Sequence[Finding]) -> None:
        """Findings that the last fact led to, some or all."""


class Chronicle:
    """A ledger, and who listens to what it is told. Times are seconds, as the ledger's."""

    def __init__(self, ledger: Ledger) -> None:
        self._ledger = ledger
        self._listeners: tuple[Listener, ...] = ()
        # While a relist is judged: what came meanwhile.
        self._waiting: list[Announcement | DeferrableFact] | None = None
        # Discards since the last fact: under a storm they are one fact, not thousands.
        self._drops = 0
        self._first_drop = self._last_drop = 0.0

    @property
    def profile(self) -> Profile:
        """The runtime's row, as the ledger applies it."""
        return self._ledger.profile

    @property
    def unresolved(self) -> int:
        """Events proven by the relist, not yet announced, not yet judged."""
        return self._ledger.unresolved

    def listen(self, listener: Listener) -> None:
        """Tell that one, too, from now on."""
        self._listeners = (*self._listeners, listener)

    def take(self, fact: Fact) -> Taken:
        """Take one fact; while a relist is judged it waits, which an announcement must not."""
        if isinstance(fact, Relist):
            return finished(self.relisting(fact))
        if isinstance(fact, Discarded):
            return self._drop(fact)
        if self._drops:
            self.tell_drops()
        if self._waiting is not None:
            self._waiting.append(fact)
            return NOTHING
        taken = self._ledger.take(fact)
        for listener in self._listeners:
            listener.fact(fact)
            if taken.findings:
                listener.found(taken.findings)
        return taken

    def relisting(self, relist: Relist) -> Generator[None, None, Taken]:
        """Take a relist in small steps. Nothing may be announced before the last one is taken."""
        self.tell_drops()
        self._waiting = []
        findings: list[Finding] = []
        untold: deque[tuple[Finding, ...]] = deque()
        try:
            difference, doubts = yield from self._ledger.relisting(relist, findings)
            begins = range(0, len(findings), _TOLD_AT_ONCE)
            untold.extend(tuple(findings[begin : begin + _TOLD_AT_ONCE]) for begin in begins)
            self._tell(difference)
            while untold:
                self._tell_found(untold.popleft())
                yield
            return Taken(tuple(findings), doubts)
        finally:
            # Whoever gives up here ends the process: a fact without all its findings would mislead.
            for some in untold:
                self._tell_found(some)
            self._let_in()

    def tell_drops(self) -> None:
        """Tell of the discards that no other fact has followed yet."""
        if not self._drops:
            return
        fact = Discarded(self._first_drop, self._last_drop, self._drops)
        self._drops = 0
        if self._waiting is None:
            self._tell(fact)
        else:
            self._waiting.append(fact)

    def _drop(self, fact: Discarded) -> Taken:
        """Take a discard, and tell of it with those that follow."""
        if self._waiting is None:
            self._ledger.take(fact)
        if not self._drops:
            self._first_drop = fact.at
        self._last_drop = fact.at
        self._drops += 1
        return NOTHING

    def _let_in(self) -> None:
        """A relist is over: hand on what waited for that, in its order."""
        self.tell_drops()
        waiting, self._waiting = self._waiting or [], None
        for fact in waiting:
            self._ledger.take(fact)
            self._tell(fact)

    def _tell_found(self, findings: tuple[Finding, ...]) -> None:
        for listener in self._listeners:
            listener.found(findings)

    def _tell(self, fact: RecordedFact) -> None:
        for listener in self._listeners:
            listener.fact(fact)
