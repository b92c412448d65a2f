"""Work that may wait for a disk, done behind the event loop's back by one thread.

Law: `put` never waits, and neither does the end of the process for a disk that
hangs. Here: the thread and its bounded queue. Not here: what is done with a piece.
"""

from __future__ import annotations

import queue
import threading
from collections.abc import Callable
from typing import Final, Generic, TypeVar

Piece = TypeVar("Piece")

_PATIENCE: Final = 1.0


class Behind(Generic[Piece]):
    """Calls `work` with each piece in turn; `work` raises nothing.

    `idle`: called when there has been nothing to do for `every` seconds, and at the end.
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
        # A daemon: the interpreter does not wait for it where the disk hangs.
        self._thread = threading.Thread(target=self._run, name=name, daemon=True)
        self._thread.start()

    def put(self, piece: Piece) -> bool:
        """Hand over one piece; False if too many wait already."""
        try:
            self._waiting.put_nowait(piece)
        except queue.Full:
            return False
        return True

    def end(self, patience: float = _PATIENCE) -> bool:
        """Let it finish; whether it did within so many seconds."""
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
