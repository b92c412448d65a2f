"""The options of the simulated runtime: how it lives and what it loses.

One frozen record with every option, its default and its meaning (`METADATA_HELP` of each field).
"""

from __future__ import annotations

import math
import random
from collections.abc import Mapping
from dataclasses import dataclass, field, fields
from enum import Enum
from typing import Final

METADATA_HELP: Final = "help"
MOST_CONTAINERS: Final = 100_000


class Runtime(Enum):
    """Which real runtime is imitated: it announces exactly what that one does."""

    CONTAINERD_2 = "containerd/2.1.9"
    CONTAINERD_1 = "containerd/1.7.24"
    CRIO = "cri-o/1.36.3"


class Events(Enum):
    """What GetContainerEvents does: a stream, an immediate end with OK, or UNIMPLEMENTED."""

    ON = "on"
    DISABLED = "disabled"
    UNIMPLEMENTED = "unimplemented"


def _means(meaning: str) -> Mapping[str, str]:
    return {METADATA_HELP: meaning}


@dataclass(frozen=True, slots=True)
class Options:
    """The runtime's behaviour. ValueError on construction names an invalid option.

    Ratios are probabilities, decided for each announcement from `seed` and its identity alone: the
    same seed drops the same announcements of the same lives.
    """

    pods: int = field(default=66, metadata=_means("pods on the node"))
    containers_per_pod: int = field(default=7, metadata=_means("containers in each pod"))
    churn: float = field(
        default=2.0, metadata=_means("container lives that end and begin, per second")
    )
    drop: float = field(default=0.0, metadata=_means("ratio of announcements that are lost"))
    delay: float = field(
        default=0.0, metadata=_means("longest delay of an announcement, in seconds; order is kept")
    )
    duplicate: float = field(
        default=0.0, metadata=_means("ratio of announcements that are sent twice")
    )
    reorder: float = field(
        default=0.0, metadata=_means("ratio of announcements that change places with the next one")
    )
    disconnect_every: float = field(
        default=0.0, metadata=_means("seconds between ends of all streams; 0: never")
    )
    restart_every: float = field(
        default=0.0, metadata=_means("seconds between restarts of the runtime; 0: never")
    )
    failed_starts: float = field(
        default=0.0, metadata=_means("ratio of starts that fail: listed EXITED, never started")
    )
    list_latency: float = field(default=0.0, metadata=_means("seconds that each list call takes"))
    stream_lists: int = field(
        default=0,
        metadata=_means("items in each message of the streaming list calls; 0: not implemented"),
    )
    events: Events = field(
        default=Events.ON, metadata=_means("the event stream: on, disabled or unimplemented")
    )
    runtime: Runtime = field(
        default=Runtime.CONTAINERD_2, metadata=_means("the runtime to imitate")
    )
    seed: int = field(
        default=1,
        metadata=_means("decides names, the order of lives, and which announcements are lost"),
    )

    def __post_init__(self) -> None:
        for option in fields(self):
            problem = _problem(option.name, getattr(self, option.name))
            if problem:
                raise ValueError(f"{option.name}: {problem}")
        if self.pods * self.containers_per_pod > MOST_CONTAINERS:
            raise ValueError(f"pods: at most {MOST_CONTAINERS} containers in all")
        if self.churn and not self.pods * self.containers_per_pod:
            raise ValueError("churn: must be 0 where there are no containers")

    def random(self, purpose: str) -> random.Random:
        """A separate generator for each purpose, so that they do not affect each other."""
        return random.Random(f"{self.seed}/{purpose}")  # noqa: S311 -- repeatable, not secret


_WHOLE: Final = frozenset({"pods", "containers_per_pod", "stream_lists", "seed"})
_MOST: Final = {
    "pods": 10_000,
    "containers_per_pod": 1_000,
    "churn": 10_000,
    "stream_lists": 100_000,
    "drop": 1,
    "duplicate": 1,
    "reorder": 1,
    "failed_starts": 1,
    "delay": 300,
    "list_latency": 300,
}
_ENUMS: Final = {"events": Events, "runtime": Runtime}


def _problem(name: str, value: object) -> str:
    if name in _ENUMS:
        allowed = _ENUMS[name]
        choices = ", ".join(member.value for member in allowed)
        return "" if isinstance(value, allowed) else f"must be one of {choices}, not {value!r}"
    if isinstance(value, bool) or not isinstance(value, int | float):
        return f"must be a number, not {value!r}"
    if name in _WHOLE and not isinstance(value, int):
        return f"must be a whole number, not {value!r}"
    most = _MOST.get(name, math.inf)
    if (name != "seed" and not 0 <= value <= most) or not math.isfinite(value):
        bound = "0 or more" if most == math.inf else f"from 0 to {most:g}"
        return f"must be {bound}, not {value!r}"
    return ""


# Defaults of `demo`: losses that are visible within a minute.
DEMO: Final = Options(drop=0.05, duplicate=0.01, reorder=0.01, delay=0.1, failed_starts=0.02)
# Settings of `demo` unless overridden: a person wants to see results soon.
DEMO_SETTINGS: Final[Mapping[str, str]] = {
    "relist_period": "2s",
    "missed_grace": "1s",
    "web_listen_address": "127.0.0.1:13386",
    "node_name": "demo",
    "log_level": "warn",
}
