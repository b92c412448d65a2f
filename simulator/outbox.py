"""The faults between a runtime that announces and the channel that delivers.

Decides by chance (`Options`) which announcement is lost, duplicated or delayed. No clock and no
tasks: the time is passed to `post` and `flush`.
"""

from collections import deque
from collections.abc import Callable

from simulator.options import Options
from simulator.records import Notice


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
        self._waiting: deque[tuple[int, Notice]] = deque()

    @property
    def due_ns(self) -> int | None:
        """When `flush` should be called next; None: nothing is waiting."""
        return self._waiting[0][0] if self._waiting else None

    def post(self, notice: Notice, now_ns: int) -> None:
        """Take an announcement; its fate follows from the seed and its identity alone."""
        options = self.options
        rng = options.random(f"{notice.container_id}/{notice.type.name}")
        dropped, doubled = rng.random() < options.drop, rng.random() < options.duplicate
        due_ns = now_ns + int(rng.random() * options.delay * 1e9)
        if dropped:
            self._lose(notice)
            return
        if self._waiting:
            # Nothing overtakes.
            due_ns = max(due_ns, self._waiting[-1][0])
        self._waiting.extend([(due_ns, notice)] * (2 if doubled else 1))
        self.flush(now_ns)
        self.changed()

    def flush(self, now_ns: int) -> None:
        """Send what is due."""
        while self._waiting and self._waiting[0][0] <= now_ns:
            self._publish(self._waiting.popleft()[1])

    def lose_all(self) -> None:
        """The runtime dies, and everything waiting here is lost."""
        while self._waiting:
            self._lose(self._waiting.popleft()[1])
