"""The last 15 minutes of a node, to which a test lets things happen at times that it chooses."""

from collections import Counter
from collections.abc import Mapping

from exporter.model.events import EventType, ObjectKind
from exporter.model.facts import Fact, Relist
from exporter.model.findings import NOTHING, Finding, Outcome, Verdict
from exporter.node.history import History
from exporter.node.judgement import Judge
from exporter.node.state import Node
from tests.support.facts import started


class Lived:
    """A node, its history and its judge. `standing`: what contradicts now; `fields`: the node's."""

    def __init__(
        self, *taken: Fact, standing: Mapping[Verdict, int] | None = None, **fields: object
    ) -> None:
        self.node = Node(**fields)  # type: ignore[arg-type] # its own
        self.history = History(self.node)
        self.standing = Counter(standing or {})
        self.judge = Judge(self.node, self.history, self.standing.__getitem__)
        self.take(*taken)

    def take(self, *taken: Fact) -> None:
        """Facts that lead to nothing."""
        for fact in taken:
            self.history.hear(fact, NOTHING)

    def receive(self, at: float, number: int = 1) -> None:
        """So many events, which the node counts once the ledger has taken them."""
        for _ in range(number):
            self.take(started("c1", at))
            self.node.received[EventType.STARTED, ObjectKind.CONTAINER] += 1

    def relist(self, at: float, *findings: Finding) -> None:
        self.history.hear(Relist(at - 1, at, 3, (), ()), Outcome(findings))
