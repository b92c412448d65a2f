"""The faults between a runtime that announces and the channel that delivers.

Decides, by chance (`Options`) or by script, which announcement is lost, duplicated, delayed, held
or reordered. No clock and no tasks: the time is passed to `post` and `flush`.
"""

from __future__ import annotations

from collections import deque
from collections.abc import Callable
from dataclasses import dataclass
from typing import Final

from exporter.pleg.events import EventType
from exporter.simulator.options import Options
from exporter.simulator.records import Notice
from exporter.simulator.truth import Truth

_SECOND: Final = 1_000_000_000
# How long an announcement to be reordered waits for another one to swap with.
_ASIDE_NS: Final = _SECOND


@dataclass(frozen=True, slots=True)
class _Wanted:
    """The next announcement of that id (None: any id) and type."""

    container_id: str | None
    type: EventType

    def matches(self, notice: Notice) -> bool:
        return self.type is notice.type and self.container_id in (None, notice.container_id)


@dataclass(frozen=True, slots=True)
class _Odds:
    """The random outcome for one announcement."""

    dropped: bool
    doubled: bool
    aside: bool
    delay_ns: int


class Outbox:
    """Takes announcements and passes them to `publish`, or does not.

    `changed` is called when something new waits for a later `flush`.
    """

    def __init__(self, options: Options, truth: Truth, publish: Callable[[Notice], None]) -> None:
        self._options = options
        self._truth = truth
        self._publish = publish
        self._chance = True
        self._delayed: deque[tuple[int, Notice]] = deque()
        self._aside: tuple[int, Notice] | None = None
        self._held: list[Notice] = []
        self._to_drop: list[_Wanted] = []
        self._to_hold: list[_Wanted] = []
        self.changed: Callable[[], None] = lambda: None

    @property
    def due_ns(self) -> int | None:
        """When `flush` should be called next; None: nothing is waiting."""
        due = [self._delayed[0][0]] if self._delayed else []
        due += [self._aside[0]] if self._aside else []
        return min(due, default=None)

    def drop_next(self, container_id: str | None, kind: EventType) -> None:
        """Drop exactly the next announcement of that id and type; None: of any id."""
        self._to_drop.append(_Wanted(container_id, kind))

    def hold_next(self, container_id: str | None, kind: EventType) -> None:
        """Hold the next announcement of that id and type until `release`."""
        self._to_hold.append(_Wanted(container_id, kind))

    def release(self) -> None:
        """Send everything held, in the order in which it was announced."""
        held, self._held = self._held, []
        for notice in held:
            self._publish(notice)

    def post(self, notice: Notice, now_ns: int) -> None:
        """Take an announcement when it is made."""
        self._truth.offered(notice)
        if _take(self._to_drop, notice):
            self._truth.lost(notice)
            return
        if _take(self._to_hold, notice):
            self._held.append(notice)
            return
        odds = self._draw(notice)
        if odds.dropped:
            self._truth.lost(notice)
            return
        if odds.doubled:
            self._truth.offered(notice)
            self._line_up(notice, now_ns + odds.delay_ns, now_ns)
        if odds.aside and self._aside is None:
            self._aside = (now_ns + _ASIDE_NS, notice)
            self.changed()
            return
        self._line_up(notice, now_ns + odds.delay_ns, now_ns)
        self._end_aside()

    def flush(self, now_ns: int) -> None:
        """Send what is due."""
        while self._delayed and self._delayed[0][0] <= now_ns:
            self._publish(self._delayed.popleft()[1])
        if self._aside and self._aside[0] <= now_ns:
            self._end_aside()

    def calm(self) -> None:
        """Stop random faults, and send everything that is waiting."""
        self._chance = False
        while self._delayed:
            self._publish(self._delayed.popleft()[1])
        self._end_aside()
        self.release()

    def lose_all(self) -> None:
        """The runtime dies, and everything waiting here is lost."""
        waiting = [notice for _, notice in self._delayed]
        waiting += [self._aside[1]] if self._aside else []
        waiting += self._held
        self._delayed.clear()
        self._aside = None
        self._held.clear()
        for notice in waiting:
            self._truth.lost(notice)

    def _draw(self, notice: Notice) -> _Odds:
        """Draw from the seed and the announcement's identity alone."""
        if not self._chance:
            return _Odds(dropped=False, doubled=False, aside=False, delay_ns=0)
        options = self._options
        rng = options.random(f"{notice.container_id}/{notice.type.name}")
        return _Odds(
            dropped=rng.random() < options.drop,
            doubled=rng.random() < options.duplicate,
            aside=rng.random() < options.reorder,
            delay_ns=int(rng.random() * options.delay * _SECOND),
        )

    def _line_up(self, notice: Notice, due_ns: int, now_ns: int) -> None:
        """Send it when due, but never before an earlier one."""
        if self._delayed:
            due_ns = max(due_ns, self._delayed[-1][0])
        if due_ns <= now_ns and not self._delayed:
            self._publish(notice)
            return
        self._delayed.append((due_ns, notice))
        self.changed()

    def _end_aside(self) -> None:
        if self._aside:
            (_, notice), self._aside = self._aside, None
            if self._delayed:
                self._delayed.append((self._delayed[-1][0], notice))
            else:
                self._publish(notice)


def _take(wanted: list[_Wanted], notice: Notice) -> bool:
    for index, want in enumerate(wanted):
        if want.matches(notice):
            del wanted[index]
            return True
    return False
