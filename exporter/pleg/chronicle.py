"""The single entry point to a ledger: it reports facts to listeners in the order it took them.

A listener that feeds the same facts in the same order to another ledger gets the same findings.
Judging a relist can be interrupted, yet a relist must count as one fact, so facts that arrive in
the meantime are queued until it is done.
"""

from __future__ import annotations

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

# Number of relist findings to report before yielding to other tasks.
_TOLD_AT_ONCE: Final = 16


class Listener(Protocol):
    """Receives each fact given to the ledger, then its findings. Must return quickly."""

    def fact(self, fact: RecordedFact) -> None:
        """Called after the ledger has taken this fact."""

    def found(self, findings: Sequence[Finding]) -> None:
        """Called with some or all of the findings that the last fact produced."""


class Chronicle:
    """A ledger and its listeners. Times are in seconds, on the ledger's clock."""

    def __init__(self, ledger: Ledger) -> None:
        self._ledger = ledger
        self._listeners: tuple[Listener, ...] = ()
        # Facts that arrived while a relist was being judged; None when no relist is in progress.
        self._waiting: list[Announcement | DeferrableFact] | None = None
        # Discards since the last fact. A storm of discards is merged into one fact.
        self._drops = 0
        self._first_drop = self._last_drop = 0.0

    @property
    def profile(self) -> Profile:
        """The runtime profile that the ledger currently applies."""
        return self._ledger.profile

    @property
    def unresolved(self) -> int:
        """Number of events proven, not yet announced and not yet judged."""
        return self._ledger.unresolved

    @property
    def stalls(self) -> int:
        """How often the stream stood still although it was up."""
        return self._ledger.stalls

    @property
    def live(self) -> int:
        """Number of containers and sandboxes that are listed, or about which a verdict is due."""
        return self._ledger.live

    def knows(self, container_id: str) -> bool:
        """Whether the ledger holds that container or sandbox."""
        return self._ledger.known(container_id) is not None

    def is_start_unknown(self, container_id: str) -> bool:
        """Whether the ledger knows that container, but not whether it ever ran."""
        entry = self._ledger.known(container_id)
        return entry is not None and entry.ran is None

    def listen(self, listener: Listener) -> None:
        """Add a listener; it receives facts from now on."""
        self._listeners = (*self._listeners, listener)

    def take(self, fact: Fact) -> Taken:
        """Take one fact. During a relist facts are queued; no announcement may arrive then."""
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
        """Take a relist in small steps; take no announcement until the generator ends."""
        if self._drops:
            self.tell_drops()
        self._waiting = []
        findings: list[Finding] = []
        told = found = 0
        try:
            difference, doubts = yield from self._ledger.relisting(relist, findings)
            found = len(findings)
            self._tell(difference)
            while told < found:
                some = findings[told : told + _TOLD_AT_ONCE]
                told += len(some)
                self._tell_found(some)
                yield
            return Taken(tuple(findings), doubts)
        finally:
            # If the caller abandons the generator, the process is about to exit. Report the
            # remaining findings anyway: a recorded fact with only some of its findings would
            # mislead.
            if told < found:
                self._tell_found(findings[told:])
            self._let_in()

    def tell_drops(self) -> None:
        """Report pending discards that no other fact has flushed yet."""
        if not self._drops:
            return
        fact = Discarded(self._first_drop, self._last_drop, self._drops)
        self._drops = 0
        if self._waiting is None:
            self._tell(fact)
        else:
            self._waiting.append(fact)

    def _drop(self, fact: Discarded) -> Taken:
        """Take a discard; it is reported together with those that follow."""
        if self._waiting is None:
            self._ledger.take(fact)
        if not self._drops:
            self._first_drop = fact.at
        self._last_drop = fact.at
        self._drops += 1
        return NOTHING

    def _let_in(self) -> None:
        """The relist is done: process the queued facts in order."""
        if self._drops:
            self.tell_drops()
        waiting, self._waiting = self._waiting or [], None
        for fact in waiting:
            taken = self._ledger.take(fact)
            self._tell(fact)
            if taken.findings:
                self._tell_found(taken.findings)

    def _tell_found(self, findings: Sequence[Finding]) -> None:
        for listener in self._listeners:
            listener.found(findings)

    def _tell(self, fact: RecordedFact) -> None:
        for listener in self._listeners:
            listener.fact(fact)
