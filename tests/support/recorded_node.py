"""A node with a flight recorder, for the tests of evidence."""

import json
import time
from dataclasses import dataclass, field
from typing import Any

from exporter.evidence.cases import Cases
from exporter.model.events import ListedState, Pod
from exporter.model.facts import ProfileChosen, StreamUp
from exporter.model.labels import StreamKind
from exporter.node.chronicle import Chronicle
from exporter.node.state import Node, RuntimeInfo
from exporter.pleg.ledger import Ledger
from tests.support.facts import Differences, Given, Shown, created, lively, relist, wall_ns
from tests.support.tape import fresh

POD = Pod("shop", "cart-7d9f8", "uid-1")


@dataclass(slots=True)
class Stage:
    """A ledger with everything that the daemon puts around it; `began` is when the test did."""

    node: Node = field(default_factory=Node)
    ledger: Ledger = field(default_factory=fresh)
    began: float = field(default_factory=time.monotonic)
    chronicle: Chronicle = field(init=False)
    cases: Cases = field(init=False)
    _differences: Differences = field(default_factory=Differences)

    def __post_init__(self) -> None:
        self.node.runtime = RuntimeInfo("containerd", "2.1.9", "v1", StreamKind.BROADCAST)
        self.chronicle = Chronicle(self.ledger)
        self.cases = Cases(self.ledger, self.node, 5.0)
        self.chronicle.listen(self.cases.took)
        self.chronicle.take(ProfileChosen(0.0, "containerd", "2.1.9"))
        self.take(StreamUp(0.0, wall_ns(0)))

    def take(self, *facts: Given) -> None:
        """Hand in the next facts."""
        for line in lively(facts):
            self.chronicle.take(self._differences.fact(line))

    @property
    def records(self) -> list[dict[str, Any]]:
        """Evidence in memory, the oldest first."""
        return [json.loads(line) for line in reversed(self.cases.newest)]

    def lose(self, number: int, name: str = "c") -> None:
        """`number` containers start without an announcement, while others are announced."""
        lost = {f"{name}{each}": Shown(ListedState.RUNNING) for each in range(number)}
        begun, later = created(f"{name}0", 0.5), created(f"{name}1", 14)
        self.take(begun, relist(1), relist(2, **lost), later, relist(20, **lost))
