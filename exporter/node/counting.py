"""The one place that counts what a ledger took and found; metrics read the node on scrape."""

import time
from collections.abc import Callable
from typing import Final

from exporter.model.events import Announcement, EventType, ObjectKind
from exporter.model.facts import Fact
from exporter.model.findings import Finding, Outcome, Verdict
from exporter.model.labels import Unusable
from exporter.node.state import Node

_CONTAINER: Final = ObjectKind.CONTAINER
_OVERFLOW: Final = Verdict.OVERFLOW
_STOPPED: Final = EventType.STOPPED
_SECOND_NS: Final = 1e9


class Counting:
    """Listens to a `Chronicle`.

    `delivered`: called with the seconds from each event's creation to its arrival. `measured`: with
    each finding that has seconds.
    """

    def __init__(
        self, node: Node, delivered: Callable[[float], None], measured: Callable[[Finding], None]
    ) -> None:
        self._node = node
        self._delivered = delivered
        self._measured = measured

    def took(self, fact: Fact, outcome: Outcome) -> None:
        """Count the fact, and every finding."""
        if outcome.findings:
            wall = time.time()
            for finding in outcome.findings:
                self._node.tally.add(finding, wall)
                if finding.seconds is not None:
                    self._measured(finding)
                if finding.verdict is _OVERFLOW:
                    self._node.count_discard()
        if not isinstance(fact, Announcement) or outcome.copy:
            return
        node = self._node
        node.received[fact.type, outcome.kind] += 1
        node.without_status += fact.kind is None
        if fact.type is _STOPPED:
            self._stopped(fact, outcome)
        if fact.created_at_ns and not outcome.backlog:
            delay = (fact.received_wall_ns - fact.created_at_ns) / _SECOND_NS
            self._delivered(max(0.0, delay))

    def _stopped(self, event: Announcement, outcome: Outcome) -> None:
        node = self._node
        if event.pod is None or not event.pod.uid:
            node.unusable[Unusable.NO_POD_UID] += 1
        elif event.ended_ns is None and outcome.kind is _CONTAINER:
            node.unusable[Unusable.NO_STATUS] += 1
        if outcome.untimed is not None:
            node.untimed[outcome.untimed] += 1
