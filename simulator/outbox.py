"""The faults between a runtime that announces and the channel that delivers.

Decides by chance (`Options`) which announcement is lost, duplicated, delayed or reordered. No clock
and no tasks: the time is passed to `post` and `flush`.
"""

from collections import deque
from collections.abc import Callable
from typing import Final

from simulator.options import Options
from simulator.records import Notice

_SECOND_NS: Final = 1_000_000_000
# How long an announcement to be reordered waits for another one to swap with.
_ASIDE_NS: Final = _SECOND_NS


class Outbox:
    """Takes announcements, and passes them to `publish` or to `lose`.

    `changed` is called when something new waits for a later `flush`.
    """

    def __init__(
        self,
        options: Options,
        publish: Callable[[Notice], None],
        lose: Callable[[Notice], None],
    ) -> None:
        self.options = options
        self.changed: Callable[[], None] = lambda: None
        self._publish = publish
        self._lose = lose
        self._delayed: deque[tuple[int, Notice]] = deque()
        self._aside: tuple[int, Notice] | None = None

    @property
    def due_ns(self) -> int | None:
        """When `flush` should be called next; None: nothing is waiting."""
        due = [self._delayed[0][0]] if self._delayed else []
        due += [self._aside[0]] if self._aside else []
        return min(due, default=None)

    def post(self, notice: Notice, now_ns: int) -> None:
        """Take an announcement; its fate follows from the seed and its identity alone."""
        options = self.options
        rng = options.random(f"{notice.container_id}/{notice.type.name}")
        ratios = (options.drop, options.duplicate, options.reorder)
        dropped, doubled, aside = [rng.random() < ratio for ratio in ratios]
        due_ns = now_ns + int(rng.random() * options.delay * _SECOND_NS)
        if dropped:
            self._lose(notice)
            return
        if doubled:
            self._line_up(notice, due_ns, now_ns)
        if aside and self._aside is None:
            self._aside = (now_ns + _ASIDE_NS, notice)
            self.changed()
            return
        self._line_up(notice, due_ns, now_ns)
        self._end_aside()

    def flush(self, now_ns: int) -> None:
        """Send what is due."""
        while self._delayed and self._delayed[0][0] <= now_ns:
            self._publish(self._delayed.popleft()[1])
        if self._aside and self._aside[0] <= now_ns:
            self._end_aside()

    def lose_all(self) -> None:
        """The runtime dies, and everything waiting here is lost."""
        for _, notice in [*self._delayed, *([self._aside] if self._aside else [])]:
            self._lose(notice)
        self._delayed.clear()
        self._aside = None

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
