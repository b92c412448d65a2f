"""Reads a recording's file to its end, or up to where it is damaged.

Law: once the first line could be read, nothing in the file raises; everything before the damage is
delivered.
"""

from collections.abc import Iterator
from dataclasses import replace
from typing import BinaryIO

from exporter.errors import DamageError, FormError, ShadowPlegError
from exporter.model.facts import Fact, Relist
from exporter.recording.gzip_members import members
from exporter.recording.rows import Changes, End, Found, Header, header_of, row_of

Piece = Fact | Found


class Recording:
    """Yields the recorded facts and findings in order, once.

    FormError or DamageError if the header is unreadable. `damage`: where and why reading stopped
    early; "" if it did not. `at`: the byte at which what is being read begins.
    """

    def __init__(self, file: BinaryIO) -> None:
        self.damage = ""
        self.end: End | None = None
        self.at = self._line = 0
        self._lines = self._numbered(file)
        first = next(self._lines, None)
        if first is None:
            raise FormError("it is empty")
        self.header: Header = header_of(first)

    def __iter__(self) -> Iterator[Piece]:
        try:
            yield from self._pieces()
            if self.end is None:
                self.damage = f"after line {self._line} its end is missing: its writer was killed"
        except ShadowPlegError as error:
            at = error.at if isinstance(error, DamageError) else self.at
            line = self._line if isinstance(error, FormError) else self._line + 1
            self.damage = f"at line {line}, in the block at byte {at}: {error}"

    def _pieces(self) -> Iterator[Piece]:
        # Of the relist whose rows are being read.
        parts: list[Changes] = []
        for raw in self._lines:
            row = row_of(raw)
            if isinstance(row, End):
                self.end = row
                return
            if isinstance(row, Changes):
                parts.append(row)
            elif isinstance(row, Relist) and parts:
                parts.append(Changes(row.changed, row.gone))
                changed = tuple(item for part in parts for item in part.changed)
                yield replace(row, changed=changed, gone=tuple(i for p in parts for i in p.gone))
                parts.clear()
            else:
                yield row

    def _numbered(self, file: BinaryIO) -> Iterator[bytes]:
        for at, text in members(file):
            self.at = at
            for line in text.splitlines():
                self._line += 1
                yield line
