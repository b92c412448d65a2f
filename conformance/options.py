"""The flags of `conformance`."""

from dataclasses import dataclass
from enum import Enum
from pathlib import Path
from typing import ClassVar, Final

from exporter.errors import ConfigError
from exporter.settings import flags
from exporter.settings.declaring import flag, switch

_IMAGE: Final = "registry.k8s.io/e2e-test-images/busybox:1.29-4"


class Output(Enum):
    """The format of the answer."""

    TEXT = "text"
    JUNIT = "junit"
    JSON = "json"


def _names(text: str) -> tuple[str, ...]:
    names = tuple(word.strip() for word in text.split(",") if word.strip())
    if text and not names:
        raise ConfigError(f"{text!r} names nothing")
    return names


@dataclass(frozen=True, slots=True)
class Options:
    """The flags of `conformance`; raises ConfigError if they conflict."""

    GROUPS: ClassVar = {"image": "what is done", "recording": "the answer"}

    image: str = flag(
        "image REF", _IMAGE, str, "image with sh, sleep, dd; pulled if it is not there"
    )
    only: tuple[str, ...] = flag("only NAMES", "", _names, "groups or properties, with commas")
    seconds: float = flag(
        "seconds N",
        "120",
        flags.whole(5, 3600),
        "no part begins after this; a shorter run does less of each",
    )
    restart_command: str = flag(
        "restart-command CMD", "", str, "shell command that restarts the runtime"
    )
    runtime_handler: str = flag("runtime-handler NAME", "", str, "another handler to try, too")
    beside_kubelet: bool = switch(
        "beside-kubelet", "run on a node that is in use: its pods may suffer while it lasts"
    )
    recording: Path | None = flag(
        "recording FILE", "", flags.optional(Path), "judge what `shadow-pleg record` wrote instead"
    )
    expect: str = flag(
        "expect FILE",
        "",
        str,
        "file of known breaches, or the name of one that is shipped, as containerd-2.1",
    )
    output: Output = flag("output", "text", flags.one_of(Output), "format of the answer")
    history: Path | None = flag(
        "history FILE", "", flags.optional(Path), "file to write, for `shadow-pleg replay`"
    )

    def __post_init__(self) -> None:
        if self.recording and (self.restart_command or self.runtime_handler or self.history):
            raise ConfigError("--recording: nothing is done to a runtime, leave other flags out")
