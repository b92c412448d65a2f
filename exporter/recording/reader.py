"""Reads a recording's file to its end, or up to where it is damaged.

Law: once the first line could be read, nothing in the file raises; everything before the damage is
delivered.
"""

from collections.abc import Callable, Iterator
from typing import BinaryIO, Final

import msgspec

from exporter.errors import DamageError, FormError, ShadowPlegError
from exporter.model import facts
from exporter.model.events import Announcement, EventType, Listed, Pod
from exporter.model.facts import Fact
from exporter.recording import rows
from exporter.recording.gzip_members import members

_STREAM: Final[dict[str, Callable[..., Fact]]] = {what: kind for kind, what in rows.WHAT.items()}

Piece = Fact | list[rows.RecordedFinding]


class Recording:
    """Yields the recorded facts and findings in order, once.

    FormError or DamageError if the header is unreadable. `damage`: where and why reading stopped
    early; "" if it did not. `at`: the byte at which what is being read begins.
    """

    def __init__(self, file: BinaryIO) -> None:
        self.damage = ""
        self.end: rows.End | None = None
        self.at = self._line = 0
        self._lines = self._numbered(file)
        first = next(self._lines, None)
        if first is None:
            raise FormError("it is empty")
        self.header: rows.Header = rows.header_of(first)

    def __iter__(self) -> Iterator[Piece]:
        reader = FactReader()
        try:
            for raw in self._lines:
                row = rows.row_of(raw)
                if isinstance(row, rows.End):
                    self.end = row
                    return
                if isinstance(row, rows.FoundRow):
                    yield row.findings
                elif (fact := reader.take(row)) is not None:
                    yield fact
            self.damage = f"after line {self._line} its end is missing: its writer was killed"
        except ShadowPlegError as error:
            at = error.at if isinstance(error, DamageError) else self.at
            line = self._line if isinstance(error, FormError) else self._line + 1
            self.damage = f"at line {line}, in the block at byte {at}: {error}"

    def _numbered(self, file: BinaryIO) -> Iterator[bytes]:
        for at, text in members(file):
            self.at = at
            for line in text.splitlines():
                self._line += 1
                yield line


class FactReader:
    """Assembles rows into facts."""

    def __init__(self) -> None:
        # Of the relist whose rows are being read: items newly listed or changed, and ids gone.
        self._changed: list[Listed] = []
        self._gone: list[str] = []

    def take(self, row: rows.FactRow) -> Fact | None:
        """The fact that this row completes; None while a relist is incomplete."""
        if isinstance(row, rows.ChangesRow):
            self._changed += [
                Listed(*item[:5], _pod(item.pod), item.elsewhere) for item in row.listed
            ]
            self._gone += row.gone
            return None
        if isinstance(row, rows.RelistRow):
            changed, gone = tuple(self._changed), tuple(self._gone)
            self._changed, self._gone = [], []
            return facts.Relist(row.requested, row.completed, row.wall, row.listed, changed, gone)
        return _fact(row)


def _fact(row: rows.SingleRow) -> Fact:
    match row:
        case rows.EventRow():
            converted = {"type": EventType[row.type], "pod": _pod(row.pod)}
            return Announcement(**msgspec.structs.asdict(row) | converted)
        case rows.StreamRow():
            return _stream(row)
        case rows.DiscardedRow():
            return facts.Discarded(row.at, row.until, row.events)
        case rows.InquiredRow():
            return facts.Inquired(row.at, row.id, row.answer)
        case rows.CgroupRow() | rows.CgroupsRow():
            return _cgroup(row)
        case rows.ProfileRow():
            return facts.ProfileChosen(row.at, row.name, row.version)


def _cgroup(row: rows.CgroupRow | rows.CgroupsRow) -> Fact:
    if isinstance(row, rows.CgroupRow):
        return facts.CgroupChanged(*msgspec.structs.astuple(row))
    return (facts.CgroupsRead if row.what == "read" else facts.CgroupsLost)(row.at)


def _stream(row: rows.StreamRow) -> Fact:
    kind = _STREAM[row.what]
    if kind is not facts.StreamAsked and kind is not facts.StreamUp:
        return kind(row.at)
    if row.began is msgspec.UNSET:
        raise FormError("Object missing required field `began`")
    return kind(row.at, row.began)


def _pod(row: rows.PodRow | None) -> Pod | None:
    return Pod(*row) if row is not None else None
