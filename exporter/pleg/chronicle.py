"""The single entry point to a ledger: it passes facts and outcomes on, in the order it took them.

A listener that gives the same facts in the same order to another ledger gets the same findings.
"""

from __future__ import annotations

from typing import TYPE_CHECKING

from exporter.model.facts import Discarded
from exporter.model.findings import NOTHING

if TYPE_CHECKING:
    from collections.abc import Callable

    from exporter.model.facts import Fact
    from exporter.model.findings import Outcome
    from exporter.pleg.ledger import Ledger

    # Called with each fact that the ledger has taken, and its outcome; must return quickly.
    Listener = Callable[[Fact, Outcome], None]


class Chronicle:
    """A ledger, to be read, and its listeners. Times are in seconds, on the ledger's clock."""

    def __init__(self, ledger: Ledger) -> None:
        self.ledger = ledger
        self._listeners: tuple[Listener, ...] = ()
        # Discards since the last fact. A storm of discards is merged into one fact.
        self._drops = 0
        self._first_drop = self._last_drop = 0.0

    def listen(self, listener: Listener) -> None:
        """Add a listener; it receives facts from now on."""
        self._listeners = (*self._listeners, listener)

    def take(self, fact: Fact) -> Outcome:
        """Take one fact, and pass it on."""
        if isinstance(fact, Discarded):
            return self._drop(fact)
        if self._drops:
            self.tell_drops()
        outcome = self.ledger.take(fact)
        for listener in self._listeners:
            listener(fact, outcome)
        return outcome

    def tell_drops(self) -> None:
        """Pass on pending discards that no other fact has flushed yet."""
        if self._drops:
            fact = Discarded(self._first_drop, self._last_drop, self._drops)
            self._drops = 0
            for listener in self._listeners:
                listener(fact, NOTHING)

    def _drop(self, fact: Discarded) -> Outcome:
        """Take a discard; it is passed on together with those that follow."""
        if not self._drops:
            self._first_drop = fact.at
        self._last_drop = fact.at
        self._drops += 1
        return self.ledger.take(fact)
