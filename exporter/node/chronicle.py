"""The single entry point to a ledger, and the listener that counts its facts and findings.

A listener that gives the same facts in the same order to another ledger gets the same findings.
"""

from collections.abc import Callable
from dataclasses import dataclass

from exporter.model.events import Announcement
from exporter.model.facts import ClockSet, Discarded, Fact
from exporter.model.findings import NOTHING, Finding, Outcome, Verdict
from exporter.node.state import Node
from exporter.pleg.ledger import Ledger


class Chronicle:
    """A ledger and its listeners, which get facts in the order in which the ledger took them."""

    def __init__(self, ledger: Ledger) -> None:
        self.ledger = ledger
        self._listeners: tuple[Callable[[Fact, Outcome], None], ...] = ()
        # Discards since the last fact, which become one fact for the listeners.
        self._drops = 0
        self._first_drop = self._last_drop = 0.0

    def listen(self, listener: Callable[[Fact, Outcome], None]) -> None:
        """Call `listener` with each later fact and its outcome; it must return quickly."""
        self._listeners = (*self._listeners, listener)

    def record(self, fact: Fact) -> Outcome:
        """Pass one fact to the ledger, then to the listeners."""
        if isinstance(fact, Discarded):
            return self._drop(fact)
        if self._drops:
            self.tell_drops()
        outcome = self.ledger.judge(fact)
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
        if not self._drops:
            self._first_drop = fact.at
        self._last_drop = fact.at
        self._drops += 1
        return self.ledger.judge(fact)


@dataclass(slots=True)
class Counting:
    """Listens to a `Chronicle`, and counts facts and findings."""

    node: Node
    # Returns unix time.
    wall: Callable[[], float]
    # Called with the seconds from each event's creation to its arrival.
    delivered: Callable[[float], None]
    # Called with each finding that has seconds.
    measured: Callable[[Finding], None]

    def hear(self, fact: Fact, outcome: Outcome) -> None:
        """Count the fact, and every finding."""
        node = self.node
        if isinstance(fact, ClockSet):
            node.clock_steps += 1
        if outcome.findings:
            wall = self.wall()
            for finding in outcome.findings:
                node.tally.add(finding, wall)
                if finding.seconds is not None:
                    self.measured(finding)
                if finding.verdict is Verdict.OVERFLOW:
                    node.count_discard()
        if not isinstance(fact, Announcement) or outcome.copy:
            return
        node.received[fact.type, outcome.kind] += 1
        if outcome.untimed is not None:
            node.untimed[outcome.untimed] += 1
        if outcome.delay is not None:
            self.delivered(outcome.delay)
