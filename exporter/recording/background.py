"""Disk work done by one background thread, outside the event loop.

Law: `put` never blocks, and a hanging disk does not block process exit. The queue is bounded.
"""

import queue
import threading
from collections.abc import Callable
from typing import Generic, TypeVar

Piece = TypeVar("Piece")


class Background(Generic[Piece]):
    """Calls `work` with each piece in turn; `work` must not raise.

    `idle`: called when there was nothing to do for `every` seconds, and at the end.
    """

    def __init__(
        self,
        name: str,
        work: Callable[[Piece], None],
        capacity: int,
        idle: Callable[[], None] = lambda: None,
        every: float | None = None,
    ) -> None:
        self._work = work
        self._idle = idle
        self._every = every
        self._waiting: queue.Queue[Piece | None] = queue.Queue(capacity)
        # A daemon thread, so that the interpreter does not wait for it if the disk hangs.
        self._thread = threading.Thread(target=self._run, name=name, daemon=True)
        self._thread.start()

    def put(self, piece: Piece) -> bool:
        """Queue one piece; False if the queue is full."""
        try:
            self._waiting.put_nowait(piece)
        except queue.Full:
            return False
        return True

    def end(self, patience: float = 1.0) -> bool:
        """Let it finish; returns whether it did within `patience` seconds."""
        try:
            self._waiting.put(None, timeout=patience)
        except queue.Full:
            return False
        self._thread.join(patience)
        return not self._thread.is_alive()

    def _run(self) -> None:
        while True:
            try:
                piece = self._waiting.get(timeout=self._every)
            except queue.Empty:
                self._idle()
                continue
            if piece is None:
                self._idle()
                return
            self._work(piece)
