"""Numbers in words, templates with them, and steps from the rows of conditions and runtimes."""

import math
from collections.abc import Callable
from functools import cache
from typing import Any, Final

import jinja2

from exporter import errors
from exporter.conditions.catalogue import BY_NAME
from exporter.runtimes.known import profile_of
from exporter.runtimes.kubelets import FIRST_HINTED, LAST_TRUSTING

WAIT: Final = "Let shadow-pleg run on all nodes, and repeat this report when there is more to judge"


def about(condition: str) -> str:
    """What to do about it, and its alert's runbook."""
    row = BY_NAME[condition]
    return f"{row.todo}: docs/runbooks/ShadowPleg{row.alert}.md"


def turn_on(name: str, version: str) -> str:
    """How that runtime comes to announce events."""
    return f"To have events of {name} {version}: {profile_of(name, version).turn_on}"


def in_nodes(number: int) -> str:
    """A number of nodes in words."""
    return "1 node" if number == 1 else f"{number:,} nodes"


def duration(seconds: int) -> str:
    """A length of time in the largest two units that fit: `1d 12h`, `8m`, `0m`."""
    minutes = seconds // 60
    parts = {"d": minutes // 1440, "h": minutes // 60 % 24, "m": minutes % 60}
    return " ".join([f"{number}{unit}" for unit, number in parts.items() if number][:2]) or "0m"


def faster(seconds: float) -> str:
    """So many seconds fewer, or more, in words."""
    return f"{abs(seconds):.3g} s {'faster' if seconds >= 0 else 'slower'}"


def percent(share: float, digits: int = 3) -> str:
    """A share as percent, with meaningful digits; never rounded up to 100 %."""
    if share >= 0.9995:  # noqa: PLR2004 - three digits would read 100
        text = f"{math.floor(share * 1e6 + 1e-6) / 1e4:.4f}"
    else:
        text = f"{float(f'{share * 100:.{digits}g}'):.12f}"
    return f"{text.rstrip('0').rstrip('.')} %"


@cache
def templates() -> jinja2.Environment:
    """Templates of text, in which numbers are words; compiled once."""
    environment = errors.templates("fleet", keep_trailing_newline=True)
    environment.filters |= {
        "percent": _or("-", percent),
        "number": _or("not known", "{:,}".format),
        "seconds": _or("-", "{:.3g} s".format),
        "faster": faster,
        "duration": duration,
    }
    known = {"last_trusting": LAST_TRUSTING, "first_hinted": FIRST_HINTED, "in_nodes": in_nodes}
    environment.globals |= known
    return environment


def _or(unknown: str, words: Callable[[Any], str]) -> Callable[[Any], str]:
    return lambda number: unknown if number is None else words(number)
