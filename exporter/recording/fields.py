"""Typed access to fields of an untrusted document; a field of the wrong type is an error."""

from __future__ import annotations

import json
import math
from collections.abc import Mapping, Sequence
from typing import Any, Final, NoReturn, TypeVar

from exporter.errors import FormError

Value = TypeVar("Value")

# Larger than anything that a node's clocks can show.
_LARGEST: Final = 2**63
_LATEST: Final = 1e12


class JsonRow:
    """An object or a row of a document; keys are names or indices."""

    def __init__(self, fields: Mapping[str, Any] | Sequence[Any]) -> None:
        if isinstance(fields, Mapping):
            self._fields: Mapping[Any, Any] = fields
        else:
            self._fields = dict(enumerate(fields))

    @classmethod
    def parse(cls, raw: bytes) -> JsonRow:
        """Parse one JSON object."""
        try:
            value = json.loads(raw, parse_constant=_no_number)
        except (ValueError, RecursionError):
            raise FormError("it is not JSON") from None
        if not isinstance(value, dict):
            raise FormError("it is no JSON object")
        return cls(value)

    def get(self, key: str | int) -> object:
        """The raw value; None if missing."""
        return self._fields.get(key)

    def text(self, key: str | int) -> str:
        """A string."""
        value = self.get(key)
        if not isinstance(value, str):
            raise FormError(f"{key!r} is no text")
        return value

    def whole(self, key: str | int) -> int:
        """A 64-bit integer."""
        value = self.get(key)
        if type(value) is not int or not -_LARGEST <= value < _LARGEST:
            raise FormError(f"{key!r} is no whole number")
        return value

    def number(self, key: str | int, least: float = -_LATEST) -> float:
        """Seconds: a finite number within sane bounds."""
        value = self.get(key)
        if type(value) not in (int, float) or not isinstance(value, int | float):
            raise FormError(f"{key!r} is no number")
        if not math.isfinite(value) or not least <= value <= _LATEST:
            raise FormError(f"{key!r} is out of range")
        return float(value)

    def truth(self, key: str | int) -> bool:
        """A boolean."""
        value = self.get(key)
        if not isinstance(value, bool):
            raise FormError(f"{key!r} is neither true nor false")
        return value

    def texts(self, key: str | int) -> list[str]:
        """A list of strings."""
        value = self.get(key)
        if not isinstance(value, list) or not all(isinstance(text, str) for text in value):
            raise FormError(f"{key!r} is no list of texts")
        return value

    def rows(self, key: str, width: int) -> list[JsonRow]:
        """A list of lists with `width` fields each."""
        value = self.get(key)
        if not isinstance(value, list):
            raise FormError(f"{key!r} is no list")
        if not all(isinstance(row, list) and len(row) == width for row in value):
            raise FormError(f"{key!r} has a row that has not {width} fields")
        return [JsonRow(row) for row in value]

    def one_of(self, key: str | int, values: Mapping[str, Value]) -> Value:
        """One of these words."""
        text = self.text(key)
        if text not in values:
            raise FormError(f"{key!r} is none of {', '.join(values)}")
        return values[text]

    def maybe(self, key: str | int, values: Mapping[str, Value]) -> Value | None:
        """One of these words, or null."""
        return None if self.get(key) is None else self.one_of(key, values)


def _no_number(word: str) -> NoReturn:
    raise ValueError(word)
