"""`completion`: a script with which a shell completes commands, flags and their words."""

import argparse
import re
import sys
from collections.abc import Mapping
from typing import Final

import shtab

from exporter.settings.parsing import PROGRAM

_PLACES: Final = {"FILE": shtab.FILE, "DIR": shtab.DIRECTORY}
# A shell has room for a few words: no condition, default or variable.
_MORE: Final = re.compile(r"[;:] | \((?:default|env): ")


def completion(shell: str, commands: Mapping[str, tuple[str, argparse.ArgumentParser]]) -> bool:
    """Print the script for that shell; `commands`: what each does, and its parser."""
    whole = argparse.ArgumentParser(PROGRAM)
    whole.add_argument("--version", action="version", help="show the version, and exit")
    below = whole.add_subparsers()
    for name, (text, parser) in commands.items():
        for action in parser._actions:  # noqa: SLF001 - as shtab does
            _describe(action)
        below.add_parser(name, help=text, parents=[parser], add_help=False)
    sys.stdout.write(shtab.complete(whole, shell))
    sys.stdout.flush()
    return True


def _describe(action: argparse.Action) -> None:
    metavar = str(action.metavar)
    if "|" in metavar:
        action.choices = metavar.split("|")
    elif metavar in _PLACES:
        vars(action)["complete"] = _PLACES[metavar]
    if action.help != argparse.SUPPRESS:
        action.help = _MORE.split(action.help or "")[0]
