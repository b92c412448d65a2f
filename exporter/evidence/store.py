"""Evidence that outlives the process: JSON lines in a directory, written by a thread.

A disk that is full or missing is logged once, counted, and retried with the next record. So is a
directory or file that was moved, removed or replaced.
"""

from pathlib import Path
from typing import Final

import structlog

from exporter.evidence.files import Files
from exporter.evidence.writer import Behind
from exporter.node.state import Dropped, Node

_log = structlog.get_logger()

_WAITING: Final = 64
_NOTHING: Final = b""


class Store:
    """Stores records in a directory. If that is not writable, only evidence is lost."""

    def __init__(self, folder: Path, max_bytes: int, node: Node) -> None:
        self._folder = folder
        self._node = node
        self._files = Files(folder, max_bytes)
        self._failing = False
        self._behind: Behind[bytes] = Behind("evidence", self._keep, _WAITING)
        # Check and log whether the directory is usable before there is anything to lose.
        self._behind.put(_NOTHING)

    def put(self, line: bytes) -> None:
        """Keep one record; it is dropped and counted if the disk is too slow."""
        if not self._behind.put(line):
            self._node.evidence_dropped[Dropped.QUEUE] += 1

    def end(self) -> None:
        """Write what is queued, as far as that takes no longer than a moment."""
        if self._behind.end():
            self._files.close()

    def _keep(self, line: bytes) -> None:
        # In the thread: no other code counts under this key or logs these lines.
        lost = self._files.lost()
        if lost is not None:
            self._node.evidence_dropped[Dropped.DISK] += lost
            _log.warning("evidence was moved or removed", folder=str(self._folder), records=lost)
        try:
            if line is _NOTHING:
                self._files.open()
            else:
                self._files.append(line)
        except OSError as error:
            self._node.evidence_dropped[Dropped.DISK] += line is not _NOTHING
            if not self._failing:
                _log.error("evidence not kept", folder=str(self._folder), error=str(error))
            self._failing = True
            return
        if self._failing:
            _log.info("evidence is kept again", folder=str(self._folder))
        self._failing = False
