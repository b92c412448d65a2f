"""Protobuf's encoding by hand, for fields that the exporter's own messages lack."""

from collections.abc import Iterable, Mapping
from typing import Any, Final, TypeAlias

from google.protobuf.unknown_fields import UnknownFieldSet

from exporter.cri import runtime_v1_pb2 as pb

_DELIMITED: Final = 2

# A message by its field numbers. Iterables are repeated fields, bytes are any text.
_Text: TypeAlias = str | bytes
Fields: TypeAlias = Mapping[int, "int | _Text | Fields | Iterable[_Text | Fields]"]


def encoded(fields: Fields) -> bytes:
    """The bytes of that message."""
    return b"".join(
        varint(number << 3) + varint(value)
        if isinstance(value, int)
        else b"".join(field(number, _content(each)) for each in _several(value))
        for number, value in fields.items()
    )


def decoded(message: bytes) -> dict[int, Any]:
    """The last value of each field of a message: to an empty one all of them are unknown."""
    unknown = UnknownFieldSet(pb.GetEventsRequest.FromString(message))
    return {each.field_number: each.data for each in unknown}  # type: ignore[attr-defined] # not in the stubs


def entries(pairs: Mapping[str, str]) -> list[Fields]:
    """A map of texts: a repeated message of key and value."""
    return [{1: key, 2: value} for key, value in pairs.items()]


def field(number: int, content: bytes) -> bytes:
    """A text or a message as a field of another message."""
    return varint(number << 3 | _DELIMITED) + varint(len(content)) + content


def varint(value: int) -> bytes:
    """A number that is not negative."""
    out = bytearray()
    while value > 0x7F:
        out.append(value & 0x7F | 0x80)
        value >>= 7
    out.append(value)
    return bytes(out)


def _several(value: _Text | Fields | Iterable[_Text | Fields]) -> Iterable[_Text | Fields]:
    return (value,) if isinstance(value, _Text | Mapping) else value


def _content(value: _Text | Fields) -> bytes:
    if isinstance(value, bytes):
        return value
    return value.encode() if isinstance(value, str) else encoded(value)
