"""Protobuf's encoding by hand, for fields that the exporter's own messages lack."""

from collections.abc import Iterable, Mapping
from typing import Any, Final, TypeAlias

from google.protobuf.unknown_fields import UnknownFieldSet

from exporter.cri import runtime_v1_pb2 as pb

_DELIMITED: Final = 2

# A message by its field numbers. An iterable is a repeated field, bytes are any text.
_Text: TypeAlias = str | bytes
Fields: TypeAlias = Mapping[int, "int | _Text | Fields | Iterable[_Text | Fields]"]


def encoded(fields: Fields) -> bytes:
    """The bytes of that message."""
    out = bytearray()
    for number, value in fields.items():
        if isinstance(value, int):
            out += varint(number << 3) + varint(value)
            continue
        for each in (value,) if isinstance(value, str | bytes | Mapping) else value:
            content = encoded(each) if isinstance(each, Mapping) else each
            out += field(number, content.encode() if isinstance(content, str) else content)
    return bytes(out)


def decoded(message: bytes) -> dict[int, Any]:
    """The last value of each field of a message, parsed as a message that knows no field."""
    unknown = UnknownFieldSet(pb.GetEventsRequest.FromString(message))
    return {each.field_number: each.data for each in unknown}  # type: ignore[attr-defined] # not in the stubs


def entries(pairs: Mapping[str, str]) -> list[Fields]:
    """A map of texts: a repeated message of key and value."""
    return [{1: key, 2: value} for key, value in pairs.items()]


def field(number: int, content: bytes) -> bytes:
    """A text or a message as a field of another message."""
    return varint(number << 3 | _DELIMITED) + varint(len(content)) + content


def varint(value: int) -> bytes:
    """The varint of a number that is not negative."""
    out = bytearray()
    while value > 0x7F:
        out.append(value & 0x7F | 0x80)
        value >>= 7
    out.append(value)
    return bytes(out)
