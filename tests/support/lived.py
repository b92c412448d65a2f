"""The last 15 minutes of a node, to which a test lets things happen at times that it chooses."""

from exporter.model.events import EventType, ObjectKind
from exporter.model.facts import Fact, Relist
from exporter.model.findings import NOTHING, Finding, Outcome
from exporter.node.history import History
from exporter.node.state import Node
from tests.support.facts import started


class Lived:
    """A history, and the node whose events it counts."""

    def __init__(self, *taken: Fact) -> None:
        self.node = Node()
        self.history = History(self.node)
        self.take(*taken)

    def take(self, *taken: Fact) -> None:
        for fact in taken:
            self.history.took(fact, NOTHING)

    def receive(self, at: float, number: int = 1) -> None:
        """So many events, which the node counts once the ledger has taken them."""
        for _ in range(number):
            self.take(started("c1", at))
            self.node.received[EventType.STARTED, ObjectKind.CONTAINER] += 1

    def relist(self, at: float, *findings: Finding) -> None:
        self.history.took(Relist(at - 1, at, 3, (), ()), Outcome(findings))
