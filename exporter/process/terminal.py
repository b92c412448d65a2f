"""What is written for a person at a terminal and nowhere else: colour, and how far a command is."""

import os
import sys
from enum import Enum
from typing import Final, Self

_CLEARED: Final = "\r\x1b[K"


class Colour(Enum):
    """A colour of text; the value is its code (SGR)."""

    RED = 31
    GREEN = 32
    YELLOW = 33


def painted(text: str, colour: Colour) -> str:
    """The text for stdout, in colour if that is a terminal; https://no-color.org."""
    plain = os.environ.get("NO_COLOR") or os.environ.get("TERM") == "dumb"
    if plain or not sys.stdout.isatty():
        return text
    return f"\x1b[{colour.value}m{text}\x1b[0m"


class Progress:
    """A line on stderr that is written again and again, and removed at the end."""

    def __init__(self) -> None:
        self._seen = sys.stderr.isatty()

    def __enter__(self) -> Self:
        return self

    def __exit__(self, *_: object) -> None:
        self.show("")

    def show(self, text: str) -> None:
        """Write this; at most 50 characters, so that a line of the log covers it."""
        if self._seen:
            sys.stderr.write(f"{_CLEARED}{text}\r" if text else _CLEARED)
            sys.stderr.flush()
