"""Deprecated spellings: they work in this release, with a warning.

The next one takes this module away, and the lines that call it. `CHANGELOG.md` has the table.
"""

import argparse
import re
from collections.abc import Iterator
from typing import Final

_SHARES: Final = ("drop", "duplicate", "reorder", "failed_starts", "ghosts", "strays")
_DURATIONS: Final = ("delay", "disconnect_every", "restart_every", "exit_delay", "list_latency")
_NUMBER: Final = re.compile(r"[0-9]{1,9}(?:\.[0-9]{0,9})?|\.[0-9]{1,9}")


def accept(name: str, parser: argparse.ArgumentParser) -> None:
    """Let a command's parser take the flags that are no longer shown."""
    if name == "check":
        parser.add_argument("--output", dest="old_output", help=argparse.SUPPRESS)


def renewed(given: argparse.Namespace) -> Iterator[str]:
    """Turn what was given into what is written now; a warning for each."""
    values = vars(given)
    if (form := values.pop("old_output", None)) is not None:
        values["output_format"] = values["output_format"] or form
        yield _warning(f"--output {form}", f"--output-format {form}")
    for name in (*_SHARES, *_DURATIONS):
        text = values.get(name)
        if text and text != "0" and _NUMBER.fullmatch(text):
            percent = f"{100 * float(text):.6f}".rstrip("0").rstrip(".")
            values[name] = f"{percent}%" if name in _SHARES else f"{text}s"
            flag = f"--{name.replace('_', '-')}"
            yield _warning(f"{flag} {text}", f"{flag} {values[name]}")


def _warning(old: str, new: str) -> str:
    return f"{old} is deprecated, and goes with the next release: write {new}"
