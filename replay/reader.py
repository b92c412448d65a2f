"""Reads a recording's file to its end, or up to where it is damaged; parses its lines.

The file is a series of gzip members, each with whole lines and a checksum, so that members before
the damage can be trusted. Invariant: after the first line nothing in the file raises, and what
comes before the damage is delivered. A line that does not match its class exactly is damage.
"""

import json
import zlib
from collections.abc import Iterator
from dataclasses import replace
from typing import Any, BinaryIO, Final, NoReturn, cast

import msgspec

from exporter.errors import ShadowPlegError
from exporter.model.events import Announcement
from exporter.model.facts import Fact, Relist
from exporter.recording.rows import FORMAT, VERSION, WORDS, Changes, End, Found, Header, Row

_CHUNK_BYTES: Final = 64 * 1024
# `record` ends a member after 64 KiB plus one line, and a line has 256 items at most.
_LARGEST_BYTES: Final = 4 * 1024 * 1024
_GZIP: Final = 16 + zlib.MAX_WBITS
# Beyond anything that a node's clocks and counts can show.
_LARGEST: Final = 2**63
_KINDS: Final = {word: kind for kind, word in WORDS.items()}

Piece = Fact | Found


class FormError(ShadowPlegError):
    """A line, or the block that holds it, is malformed; the message says how."""


def members(file: BinaryIO, largest: int = _LARGEST_BYTES) -> Iterator[bytes]:
    """Yield each member's text; FormError at the first incomplete or too large one."""
    data = file.read(_CHUNK_BYTES)
    while data:
        unpacking, text = zlib.decompressobj(_GZIP), bytearray()
        while not unpacking.eof:
            try:
                text += unpacking.decompress(data, largest + 1 - len(text))
            except zlib.error as error:
                raise FormError(f"it is not gzip, or altered ({error})") from None
            if len(text) > largest:
                raise FormError(f"it unpacks to more than {largest} bytes")
            data = unpacking.unused_data or file.read(_CHUNK_BYTES)
            if not (data or unpacking.eof):
                raise FormError("the file ends in the middle of a block")
        yield bytes(text)


class Recording:
    """Yields the recorded facts and findings in order, once. FormError for an unreadable header."""

    def __init__(self, file: BinaryIO) -> None:
        # Where and why reading stopped early; else empty.
        self.damage = ""
        self.end: End | None = None
        self._lines = (line for text in members(file) for line in text.splitlines())
        first = next(self._lines, None)
        if first is None:
            raise FormError("it is empty")
        self.header: Header = header_of(first)
        # The number of lines that were read.
        self._line = 1

    def __iter__(self) -> Iterator[Piece]:
        try:
            yield from self._pieces()
        except FormError as error:
            self.damage = f"after line {self._line}: {error}"

    def _pieces(self) -> Iterator[Piece]:
        # The changes of a relist; the relist's own row follows them.
        parts: list[Changes] = []
        for raw in self._lines:
            row = row_of(raw)
            self._line += 1
            if isinstance(row, End):
                self.end = row
                if next(self._lines, None) is not None:
                    raise FormError("more comes after the end")
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
        raise FormError("its end is missing: its writer was killed, or still writes")


def header_of(line: bytes) -> Header:
    """Parse the first line; FormError names an unsupported format or version."""
    document = _document(line)
    if document.get("format") != FORMAT:
        raise FormError("this is not a shadow-pleg recording")
    if document.get("version") != VERSION:
        version = f"{document.get('version')!r:.40}"
        raise FormError(f"it has version {version}, this program reads {VERSION}")
    header: Header = _converted(document, Header)
    if header.grace < 0:
        raise FormError("its grace is negative")
    return header


def row_of(line: bytes) -> Row:
    """Parse any line but the first; FormError if it is malformed."""
    document = _document(line)
    word = document.get("f")
    kind = _KINDS.get(word) if isinstance(word, str) else None
    if kind is None:
        raise FormError(f"it is not a line of a recording: its word is {word!r:.40}")
    if kind is not Announcement:
        return cast("Row", _converted(document, kind))
    if missing := [name for name in Announcement._fields if name not in document]:
        raise FormError(f"Object missing required field `{missing[0]}`")
    event = [document[name] for name in Announcement._fields]
    return cast("Row", _converted(event, kind))


def _document(line: bytes) -> dict[str, Any]:
    try:
        # msgspec's own parser refuses lone surrogates.
        document = json.loads(
            line, parse_int=_whole, parse_float=_within, parse_constant=_no_number
        )
    except OverflowError as error:
        raise FormError(str(error)) from None
    except (ValueError, RecursionError):
        raise FormError("it is not JSON") from None
    if not isinstance(document, dict):
        raise FormError("it is no JSON object")
    return document


def _converted(document: object, kind: type) -> Any:  # noqa: ANN401 - an instance of `kind`
    try:
        return msgspec.convert(document, kind)
    except (msgspec.ValidationError, UnicodeEncodeError) as error:
        raise FormError(str(error)) from None


def _whole(text: str) -> int:
    _within(text)
    return int(text)


def _within(text: str) -> float:
    number = float(text)
    if not -_LARGEST <= number <= _LARGEST:
        raise OverflowError(f"its number {text:.40} is out of range")
    return number


def _no_number(word: str) -> NoReturn:
    raise ValueError(word)
