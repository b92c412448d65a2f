"""Reads a recording's file to its end, or up to where it is damaged.

Law: once the first line could be read, nothing in the file raises; everything before the damage is
delivered.
"""

from __future__ import annotations

from collections.abc import Iterator
from typing import BinaryIO

from exporter.errors import DamageError, FormError, ShadowPlegError
from exporter.pleg.facts import RecordedFact
from exporter.recording.decode import Reader, read_header
from exporter.recording.encode import End, Header, RecordedFinding
from exporter.recording.fields import JsonRow
from exporter.recording.gzip_members import members

Piece = RecordedFact | list[RecordedFinding] | End


class Recording:
    """Yields the recorded facts and findings in order, once.

    FormError or DamageError if the header is unreadable. `damage`: where and why reading stopped
    early; "" if it did not.
    """

    def __init__(self, file: BinaryIO) -> None:
        self.damage = ""
        self.end: End | None = None
        self._at = self._line = 0
        self._lines = self._numbered(file)
        first = next(self._lines, None)
        if first is None:
            raise FormError("it is empty")
        self.header: Header = read_header(JsonRow.parse(first))

    def __iter__(self) -> Iterator[Piece]:
        reader = Reader()
        try:
            for raw in self._lines:
                piece = reader.take(JsonRow.parse(raw))
                if piece is None:
                    continue
                if isinstance(piece, End):
                    self.end = piece
                    return
                yield piece
            self.damage = f"after line {self._line} its end is missing: its writer was killed"
        except ShadowPlegError as error:
            at = error.at if isinstance(error, DamageError) else self._at
            line = self._line if isinstance(error, FormError) else self._line + 1
            self.damage = f"at line {line}, in the block at byte {at}: {error}"

    def _numbered(self, file: BinaryIO) -> Iterator[bytes]:
        for at, text in members(file):
            self._at = at
            for line in text.splitlines():
                self._line += 1
                yield line
