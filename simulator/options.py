"""The options of the simulated runtime: how it lives, what it loses, and which one it imitates.

Sources of what each announces: the recordings in `tests/traces`; containerd#7318.
"""

import contextlib
import random
from collections.abc import Mapping
from dataclasses import dataclass
from enum import Enum
from pathlib import Path
from typing import ClassVar, Final

from exporter.errors import ConfigError
from exporter.settings import flags
from exporter.settings.declaring import flag

_MOST_LIVES: Final = 10_000


class Runtime(Enum):
    """Which real runtime, name/version, is imitated: it announces exactly what that one does."""

    CONTAINERD_2 = "containerd/2.1.9"
    CONTAINERD_1 = "containerd/1.7.24"
    CRIO = "cri-o/1.36.3"


class Delivery(Enum):
    """Who receives an announcement, and what happens to it while there is no subscriber."""

    # All; kept for the first to come.
    HELD = "held"
    # All; kept only until the first subscriber ever.
    FIRST = "first"
    # Each goes to one subscriber, in turn.
    SHARED = "shared"


@dataclass(frozen=True, slots=True)
class RuntimeBehaviour:
    """One runtime; the defaults are containerd 2's."""

    delivery: Delivery = Delivery.HELD
    sandbox_created: bool = True
    sandbox_deleted: bool = True
    # A sandbox's DELETED carries its status.
    deleted_has_status: bool = True
    # Containers removed by RemovePodSandbox are announced as DELETED.
    deletes_inside_pod: bool = True
    # Stopping a container that never ran makes it EXITED, and is announced.
    stops_never_started: bool = False
    # RemovePodSandbox of a READY sandbox announces its STOPPED.
    stops_removed_pod: bool = True
    # A restart ends streams with OK instead of UNAVAILABLE.
    clean_end: bool = False
    # A client's disconnect is noticed only at the next announcement, which is lost.
    departed_subscribers: bool = True


BEHAVIOURS: Final = {
    Runtime.CONTAINERD_2: RuntimeBehaviour(),
    Runtime.CONTAINERD_1: RuntimeBehaviour(
        delivery=Delivery.SHARED,
        # But for 1 of 19 recorded scenarios.
        sandbox_created=False,
        deleted_has_status=False,
    ),
    Runtime.CRIO: RuntimeBehaviour(
        delivery=Delivery.FIRST,
        sandbox_created=False,
        sandbox_deleted=False,
        deletes_inside_pod=False,
        stops_never_started=True,
        stops_removed_pod=False,
        clean_end=True,
        departed_subscribers=False,
    ),
}


class Events(Enum):
    """What GetContainerEvents does: a stream, an immediate end with OK, or UNIMPLEMENTED."""

    ON = "on"
    DISABLED = "disabled"
    UNIMPLEMENTED = "unimplemented"


class Listens(Enum):
    """What the kubelet learns of exits from: its own lists alone, or the runtime's events, too."""

    POLLED = "polled"
    EVENTED = "evented"


def _lives(text: str) -> float:
    with contextlib.suppress(ValueError):
        if 0 <= (number := float(text)) <= _MOST_LIVES:
            return number
    raise ConfigError(f"{text!r} is not a number from 0 to {_MOST_LIVES}")


def _share(name: str, of: str) -> float:
    return flag(f"{name} PERCENT", "0%", flags.share, f"share of {of}")


def _every(name: str, what: str) -> float:
    return flag(f"{name} DURATION", "0", flags.duration, f"how often {what} (0: never)")


@dataclass(frozen=True, slots=True)
class Options:
    """The runtime's behaviour; raises ConfigError if options conflict.

    Shares are probabilities, decided for each announcement from `seed` and its identity alone: the
    same seed drops the same announcements of the same lives.
    """

    GROUPS: ClassVar = {"pods": "simulated runtime", "drop": "what it gets wrong"}

    pods: int = flag("pods NUMBER", "66", flags.whole(0, 10_000), "pods on the node")
    containers_per_pod: int = flag(
        "containers-per-pod NUMBER", "7", flags.whole(0, 1_000), "containers in each pod"
    )
    churn: float = flag("churn NUMBER", "2.0", _lives, "containers replaced per second")
    runtime: Runtime = flag(
        "runtime", "containerd/2.1.9", flags.one_of(Runtime), "the runtime to imitate"
    )
    stream_lists: int = flag(
        "stream-lists NUMBER",
        "0",
        flags.whole(0, 100_000),
        "items per message of the streaming list calls (0: not implemented)",
    )
    seed: int = flag(
        "seed NUMBER",
        "1",
        flags.whole(-(2**63), 2**63 - 1),
        "decides names, order, and which announcements are lost",
    )
    drop: float = _share("drop", "announcements that are lost")
    delay: float = flag("delay DURATION", "0", flags.duration, "longest delay of an announcement")
    duplicate: float = _share("duplicate", "announcements that are sent twice")
    disconnect_every: float = _every("disconnect-every", "all streams end")
    restart_every: float = _every("restart-every", "the runtime restarts")
    failed_starts: float = _share("failed-starts", "starts that fail")
    ghosts: float = _share(
        "ghosts", "exits that the runtime misses for a minute: listed RUNNING without a process"
    )
    strays: float = _share("strays", "containers whose process runs for a minute after removal")
    twins: float = _share("twins", "containers that run for a minute beside their successor")
    flaws: float = _share(
        "flaws", "announcements with a flaw: each of those that it can have is as likely"
    )
    kubelet: Listens = flag(
        "kubelet",
        "polled",
        flags.one_of(Listens),
        "what its kubelet learns of exits from: lists every second, or the events, too",
    )
    kubelet_delay: float = flag(
        "kubelet-delay DURATION",
        "500ms",
        flags.duration,
        "longest time until the kubelet shows a change",
    )
    kubelet_restart_every: float = _every("kubelet-restart-every", "the kubelet restarts")
    stale: float = _share("stale", "exits that the kubelet shows only after two minutes")
    wrong: float = _share("wrong", "exits that the kubelet shows with another exit code")
    events: Events = flag(
        "events", "on", flags.one_of(Events), "the event stream: on, disabled or unimplemented"
    )

    def __post_init__(self) -> None:
        if self.churn and not self.pods * self.containers_per_pod:
            raise ConfigError("--churn: must be 0 without containers")
        if self.ghosts + self.strays + self.twins > 1:
            raise ConfigError(
                "--ghosts, --strays, --twins: a container is one of them: at most 100% together"
            )

    def random(self, purpose: str) -> random.Random:
        """A separate generator for each purpose, so that they do not affect each other."""
        return random.Random(f"{self.seed}/{purpose}")  # noqa: S311 -- repeatable, not secret


# What `demo` sets unless overridden: losses that are visible within a minute, and results soon.
DEMO_DEFAULTS: Final[Mapping[str, str]] = {
    "drop": "5%",
    "duplicate": "1%",
    "delay": "100ms",
    "failed_starts": "2%",
    "ghosts": "2%",
    "strays": "1%",
    "twins": "1%",
    "flaws": "1%",
    "stale": "1%",
    "wrong": "1%",
    "relist_period": "2s",
    "missed_grace": "1s",
    "web_listen_address": "127.0.0.1:13386",
    "node_name": "demo",
    "log_level": "error",
}


@dataclass(frozen=True, slots=True)
class SimulateOptions:
    """Where `simulate` serves."""

    socket: Path = flag(
        "socket SOCKET",
        "unix:///tmp/shadow-pleg.sock",
        flags.socket_path,
        "socket to serve the runtime on",
    )
