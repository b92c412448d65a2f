"""`--fail-on`: decides by the findings whether a pipeline passes."""

from collections.abc import Iterable, Mapping
from enum import Enum
from typing import Final

from exporter.conditions.account import lost_for_good
from exporter.errors import ConfigError
from exporter.model.findings import Cause, Verdict, Why
from exporter.model.labels import Flaw, OomKill
from exporter.runtimes.known import known_flaw

# Numbers of findings by verdict and cause.
Found = Mapping[tuple[Verdict, Why | None], int]


class Fault(Enum):
    """A kind of finding that `--fail-on` may name."""

    SILENT = "silent"
    UNDELIVERED = "undelivered"
    GHOSTS = "ghosts"
    STRAYS = "strays"
    TWINS = "twins"
    FLAWS = "flaws"
    OOM = "oom"


_LOST: Final = {Fault.SILENT: Cause.SILENT, Fault.UNDELIVERED: Cause.STALLED}
_COUNTED: Final[Mapping[Fault, tuple[Verdict, Why | None]]] = {
    Fault.GHOSTS: (Verdict.GHOST, None),
    Fault.STRAYS: (Verdict.STRAY, None),
    Fault.TWINS: (Verdict.TWIN, None),
    Fault.OOM: (Verdict.OOM, OomKill.ANNOUNCED_AS_ERROR),
}


def faults(text: str) -> tuple[Fault, ...]:
    """Parse `never`, or a comma-separated list of faults."""
    names = {each.value: each for each in Fault}
    words = [] if text in {"", "never"} else [word.strip() for word in text.split(",")]
    if unknown := [word for word in words if word not in names]:
        raise ConfigError(f"{unknown[0]!r} is unknown: give never, or {', '.join(names)}")
    return tuple(names[word] for word in dict.fromkeys(words))


def failures(wanted: tuple[Fault, ...], found: Found, runtimes: Iterable[str]) -> list[str]:
    """Why the gate fails, in words. It also fails if nothing happened. Late events are not lost.

    `runtimes`: their names and versions; flaws that they are known for are no failure.
    """
    known = tuple(runtimes)
    numbers = {fault: _number(fault, found, known) for fault in wanted}
    failed = [f"{number} {fault.value}" for fault, number in numbers.items() if number > 0]
    if wanted and not found.get((Verdict.WITNESSED, None)):
        failed.append("nothing happened, so nothing was judged")
    return failed


def _number(fault: Fault, found: Found, runtimes: tuple[str, ...]) -> int:
    if fault in _LOST:
        cause = _LOST[fault]
        missed, late = (found.get((each, cause), 0) for each in (Verdict.MISSED, Verdict.LATE))
        return lost_for_good(missed, late)
    if fault in _COUNTED:
        return found.get(_COUNTED[fault], 0)
    named = [runtime.partition(" ") for runtime in runtimes]
    known = {flaw for flaw in Flaw for name, _, number in named if known_flaw(name, number, flaw)}
    return sum(found.get((Verdict.FLAWED, flaw), 0) for flaw in Flaw if flaw not in known)
