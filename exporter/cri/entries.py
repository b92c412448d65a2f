"""Splits a list message, undecoded, into its entries or into chunks by walking its top level.

It knows only as much of the wire format as repeated field 1 needs, which holds the items in both
list responses. Source: protobuf.dev, "Encoding".
"""

from collections.abc import Iterator
from itertools import islice
from typing import Final

from google.protobuf.message import DecodeError

from exporter.cri import limits
from exporter.errors import TooLargeError

# Wire types, and the sizes in bytes of the fixed-size ones.
_VARINT, _DELIMITED = 0, 2
_FIXED: Final = {1: 8, 5: 4}
# The tag of field 1, a single byte.
_ENTRY: Final = 1 << 3 | _DELIMITED
_MORE: Final = 0x80
_LONGEST_VARINT: Final = 10
_CHUNK_FIELDS: Final = 256
_CHUNK_BYTES: Final = 256 * 1024


def entries(message: bytes) -> Iterator[bytes | None]:
    """Yield each entry, and None for any other field. DecodeError if this is no valid message."""
    at, length = 0, len(message)
    while at < length:
        if message[at] != _ENTRY:
            _, at = _other(message, at)
            entry = None
        else:
            begin = at + 3
            # Nearly all lengths are varints of two bytes: the low byte has the top bit set, the
            # high one has not. Decode these without a call.
            if begin <= length and (low := message[at + 1]) >= _MORE > (high := message[at + 2]):
                at = begin + low - _MORE + (high << 7)
            else:
                begin, at = _delimited(message, at + 1)
            entry = message[begin:at]
        if at > length:
            raise DecodeError("truncated message")
        yield entry


def is_crowded(event: bytes) -> bool:
    """Whether an event has more fields than any honest event. DecodeError if it is no message."""
    return any(True for _ in islice(entries(event), limits.EVENT_FIELDS, None))


def chunks(message: bytes) -> Iterator[bytes]:
    """Yield lists of some 256 KiB that make up this one. DecodeError as above.

    A chunk with a very large entry is larger. TooLargeError if there are more fields than any node
    has containers: walking 15 million fields takes seconds.
    """
    begin = at = fields = chunked = 0
    while at < len(message):
        is_entry = message[at] == _ENTRY
        _, at = _delimited(message, at + 1) if is_entry else _other(message, at)
        if at > len(message):
            raise DecodeError("truncated message")
        fields += 1
        if fields == _CHUNK_FIELDS or at - begin >= _CHUNK_BYTES:
            yield message[begin:at]
            begin, fields, chunked = at, 0, chunked + fields
            if chunked > limits.LIST_ENTRIES:
                raise TooLargeError(f"a list of more than {limits.LIST_ENTRIES} entries")
    yield message[begin:]


def _delimited(message: bytes, at: int) -> tuple[int, int]:
    """The start and end of the content whose length is at `at`."""
    size, begin = _varint(message, at)
    return begin, begin + size


def _other(message: bytes, at: int) -> tuple[int, int]:
    tag, at = _varint(message, at)
    kind = tag & 7
    if kind == _DELIMITED:
        return _delimited(message, at)
    if kind == _VARINT:
        return _varint(message, at)
    if kind not in _FIXED:
        raise DecodeError("no wire type that a list uses")
    return at, at + _FIXED[kind]


def _varint(message: bytes, at: int) -> tuple[int, int]:
    """The varint at `at`, and the position after it."""
    number = shift = 0
    while at < len(message) and shift < 7 * _LONGEST_VARINT:
        byte = message[at]
        at += 1
        number |= (byte & ~_MORE) << shift
        if byte < _MORE:
            return number, at
        shift += 7
    raise DecodeError("truncated varint")
