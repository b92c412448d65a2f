"""An exporter in this process, made as the daemon makes it, to which a test hands facts."""

import json
import time
from collections import Counter
from collections.abc import Mapping
from dataclasses import replace
from typing import Any, Self

from prometheus_client import Metric

from exporter.daemon import Daemon
from exporter.evidence.cases import Cases
from exporter.metrics.collector import Registry
from exporter.model.events import EventType, ObjectKind
from exporter.model.facts import Fact, ProfileChosen, Relist
from exporter.model.findings import Finding, Outcome, Verdict
from exporter.model.labels import StreamKind, StreamState
from exporter.node.history import History
from exporter.node.state import RuntimeInfo
from exporter.settings.config import Config
from tests.support.facts import RUNNING, Differences, Given, created, lively, relist, started, up
from tests.support.observer import settings


class Stage:
    """Nothing of it runs, and a test may say what its history heard.

    `standing`: what contradicts now, beside what the ledger found; `fields`: the node's.
    """

    def __init__(
        self, *heard: Fact, standing: Mapping[Verdict, int] | None = None, **fields: Any
    ) -> None:
        config = settings(None, missed_grace=Config().missed_grace)
        it = self.daemon = Daemon.of(config)
        self.node, self.chronicle, self.registry = it.node, it.chronicle, it.registry
        for name, value in fields.items():
            setattr(self.node, name, value)
        # The daemon's own began now, when its metrics were described; a test's times are earlier.
        self.history, self.standing = History(self.node), Counter(standing or {})
        own, *others = self.chronicle._listeners
        assert own == it.judge.history.hear
        self.chronicle._listeners = (self.history.hear, *others)
        ledger = it.chronicle.ledger
        self.judge = replace(
            it.judge, history=self.history, number=lambda of: self.standing[of] or ledger.number(of)
        )
        self.cases = Cases(ledger, self.node, config.missed_grace)
        self.chronicle.listen(self.cases.hear)
        self._differences = Differences()
        self.hear(*heard)

    @classmethod
    def streaming(cls, **fields: Any) -> Self:
        """One whose runtime was listed just now, but for these fields."""
        stage = cls(**{"relist_succeeded": time.monotonic()} | fields)
        stage.node.stream.state = StreamState.STREAMING
        return stage

    @classmethod
    def watching(cls) -> Self:
        """One that is subscribed to containerd 2."""
        stage = cls(runtime=RuntimeInfo("containerd", "2.1.9", "v1", StreamKind.BROADCAST))
        stage.chronicle.record(ProfileChosen(0.0, "containerd", "2.1.9"))
        stage.take(up())
        return stage

    def take(self, *facts: Given) -> None:
        """Judge them, on a node where much else happens."""
        for line in lively(facts):
            self.chronicle.record(self._differences.fact(line))

    def lose(self, number: int, name: str = "c") -> None:
        """`number` containers start without an announcement, while others are announced."""
        lost = {f"{name}{each}": RUNNING for each in range(number)}
        begun, later = created(f"{name}0", 0.5), created(f"{name}1", 14)
        self.take(begun, relist(1), relist(2, **lost), later, relist(20, **lost))

    def hear(self, *facts: Fact, found: tuple[Finding, ...] = ()) -> None:
        """Facts for the history alone, and what each led to."""
        for fact in facts:
            self.history.hear(fact, Outcome(found))

    def relist(self, at: float, *found: Finding) -> None:
        self.hear(Relist(at - 1, at, 3, (), ()), found=found)

    def receive(self, at: float, number: int = 1) -> None:
        """So many events, which the node counts once the ledger has taken them."""
        for _ in range(number):
            self.hear(started("c1", at))
            self.node.received[EventType.STARTED, ObjectKind.CONTAINER] += 1

    @property
    def records(self) -> list[dict[str, Any]]:
        """Evidence in memory, the oldest first."""
        return [json.loads(line) for line in reversed(self.cases.newest)]


def ours(registry: Registry) -> list[Metric]:
    """Without the families of the library."""
    return [
        each for each in registry.collect() if not each.name.startswith(("process_", "python_"))
    ]
