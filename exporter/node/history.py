"""The last quarter of an hour, in slots: what each witness saw, what was found, who listened.

A listener of a `Chronicle`. Law: fixed in size, and a few additions for each fact, however many
come. A finding stands in the slot in which it was reached: a miss where it was proven. Here:
counting. Not here: drawing (`exporter.web`). Blind spot: an end of the stream that was learnt
late marks the slots since it happened; what was counted in them stays where it is.
"""

from __future__ import annotations

from collections import Counter, deque
from dataclasses import dataclass, field
from enum import Flag, auto
from typing import TYPE_CHECKING, Final

from exporter.pleg.events import Announcement
from exporter.pleg.facts import (
    Discarded,
    Relisted,
    StreamDown,
    StreamRefused,
    StreamUp,
    learnt,
)

if TYPE_CHECKING:
    from collections.abc import Sequence

    from exporter.node.state import Node
    from exporter.pleg.facts import RecordedFact
    from exporter.pleg.findings import Cause, Finding, Verdict

SLOTS: Final = 90
# Of each slot.
SECONDS: Final = 10.0


class Heard(Flag):
    """What the subscription was during a slot: several, where it changed; none before the first.

    `NOTHING`: there is no stream to hold to account.
    """

    UP = auto()
    DOWN = auto()
    NOTHING = auto()


NOT_YET: Final = Heard(0)


@dataclass(slots=True)
class Slot:
    """Ten seconds. `number` times `SECONDS` is the monotonic time of its begin."""

    number: int
    announced: int = 0
    discarded: int = 0
    relists: int = 0
    heard: Heard = NOT_YET
    found: Counter[tuple[Verdict, Cause | None]] = field(default_factory=Counter)


class History:
    """Counts what a chronicle tells. `node` knows how many events came, without copies."""

    def __init__(self, node: Node) -> None:
        self._node = node
        self._slots: deque[Slot] = deque(maxlen=SLOTS)
        self._last = Slot(0)
        # Monotonic time at which the last slot is over; events counted before it began.
        self._over = float("-inf")
        self._before = 0
        self._heard = NOT_YET

    def fact(self, fact: RecordedFact) -> None:
        """The ledger has taken this fact."""
        if isinstance(fact, Announcement):
            # Most facts are these, and the node counts them.
            if fact.received >= self._over:
                self._begin(fact.received)
            return
        at = learnt(fact)
        if at >= self._over:
            self._begin(at)
        match fact:
            case Relisted():
                self._last.relists += 1
            case Discarded():
                self._last.discarded += fact.events
            case StreamUp():
                self._hear(Heard.UP, at)
            case StreamDown():
                self._hear(Heard.DOWN, at)
            case StreamRefused():
                self._hear(Heard.NOTHING, at)
            case _:
                pass

    def found(self, findings: Sequence[Finding]) -> None:
        """What the last fact led to."""
        counts = self._last.found
        for finding in findings:
            counts[finding.verdict, finding.cause] += 1

    def slots(self, now: float) -> tuple[Slot, ...]:
        """The last ones up to `now`, the oldest first, none left out; read at once, they change."""
        if now >= self._over:
            self._begin(now)
        self._last.announced = self._received() - self._before
        return tuple(self._slots)

    def _begin(self, at: float) -> None:
        received = self._received()
        self._last.announced = received - self._before
        self._before = received
        number = int(at // SECONDS)
        first = self._last.number + 1 if self._slots else number
        for each in range(max(first, number - SLOTS + 1), number + 1):
            self._last = Slot(each, heard=self._heard)
            self._slots.append(self._last)
        self._over = (number + 1) * SECONDS

    def _hear(self, heard: Heard, at: float) -> None:
        """From `at` on, which may be a while ago: the slot of it has what was before, too."""
        self._heard = heard
        number = int(at // SECONDS)
        for slot in reversed(self._slots):
            if slot.number < number:
                return
            slot.heard = heard if slot.number > number else slot.heard | heard

    def _received(self) -> int:
        return self._node.received.total()
