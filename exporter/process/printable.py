"""Escapes runtime strings for a terminal or a log: no control character gets through."""

from __future__ import annotations

import unicodedata
from typing import Final

# Control and format characters, lone surrogates, line and paragraph separators.
_UNFIT: Final = frozenset({"Cc", "Cf", "Cs", "Zl", "Zp"})


def printable(text: str, keep: str = "") -> str:
    """The text with unsafe characters escaped, except for those in `keep`."""
    if text.isprintable():
        return text
    return "".join(
        char.encode("unicode_escape").decode()
        if unicodedata.category(char) in _UNFIT and char not in keep
        else char
        for char in text
    )
