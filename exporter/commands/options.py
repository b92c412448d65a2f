"""The flags of single commands, beside the settings of `serve`."""

from dataclasses import dataclass
from enum import Enum
from pathlib import Path
from typing import ClassVar, Final

from exporter.commands.gate import Fault, faults
from exporter.errors import ConfigError
from exporter.settings import flags
from exporter.settings.declaring import REQUIRED, flag, switch

FAIL_ON: Final = (
    "what makes the exit code 1: silent, undelivered, ghosts, strays, twins, flaws, oom (kills"
    " announced as another error), with commas"
)


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
