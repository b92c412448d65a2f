"""The flags of single commands, beside the settings of `serve`; and what `--fail-on` decides."""

from collections.abc import Iterable, Mapping
from dataclasses import dataclass
from enum import Enum
from pathlib import Path
from typing import ClassVar, Final

from exporter.conditions.account import lost_for_good
from exporter.errors import ConfigError
from exporter.model.findings import Cause, Verdict, Why
from exporter.model.labels import Flaw, OomKill
from exporter.runtimes.known import known_flaw
from exporter.settings import flags
from exporter.settings.declaring import REQUIRED, flag, switch

FAIL_ON: Final = (
    "what makes the exit code 1: silent, undelivered, ghosts, strays, twins, flaws, oom (kills"
    " announced as another error), with commas"
)


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
# Numbers of findings by verdict and cause.
Found = Mapping[tuple[Verdict, Why | None], int]


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


class AnswerFormat(Enum):
    """The format in which `check` and `replay` answer."""

    TEXT = "text"
    JSON = "json"


@dataclass(frozen=True, slots=True)
class ServeOptions:
    """The flags of `serve` that are not settings."""

    print_config: bool = switch(
        "print-config", "print each setting with its value and its source, and exit"
    )


@dataclass(frozen=True, slots=True)
class CheckOptions:
    """The flags of `check`."""

    output_format: AnswerFormat = flag(
        "output-format", "text", flags.one_of(AnswerFormat), "format of the answer"
    )


@dataclass(frozen=True, slots=True)
class RecordOptions:
    """The flags of `record`; `duration` is seconds. Raises ConfigError if they conflict."""

    GROUPS: ClassVar = {"output": REQUIRED, "duration": ""}

    output: Path = flag("output FILE", "", Path, "file to write, like node.jsonl.gz; - is stdout")
    duration: float | None = flag(
        "duration DURATION",
        "",
        flags.optional(flags.positive_duration),
        "time to record; if not given, until a signal",
    )
    max_bytes: int = flag("max-bytes SIZE", "64MiB", flags.byte_count, "file size at which to stop")
    fail_on: tuple[Fault, ...] = flag("fail-on KINDS", "never", faults, FAIL_ON)
    force: bool = switch("force", "replace the file of --output if it exists")
    redact: bool = switch("redact", "replace ids, names, namespaces and uids by pseudonyms")
    with_node_name: bool = switch("with-node-name", "write the node's name into the file")

    def __post_init__(self) -> None:
        if self.output == Path():
            raise ConfigError("--output: name the file to write, like --output node.jsonl.gz")
        if self.redact and self.with_node_name:
            raise ConfigError("--with-node-name: --redact hides names: leave one of the two out")

    @property
    def to_stdout(self) -> bool:
        """Whether the recording goes to stdout; all other output then goes to stderr."""
        return self.output == Path("-")
