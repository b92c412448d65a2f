"""What each generation of kubelet does with the event stream, as data.

Blind spot: a distribution's patched build is judged by its version. Sources, next to each row:
`pkg/kubelet/pleg/evented.go` and `pkg/kubelet/kubelet.go` of kubernetes (k/k), and pull requests
of kubernetes/enhancements (k/e). Not yet compared with the released 1.37, only with its source.
"""

from dataclasses import dataclass
from typing import Final

from exporter.pleg.events import EventType, Quick
from exporter.pleg.profiles import parse_version


class ActsOn(Quick):
    """Which announcements a kubelet acts on, if its gate EventedPLEG is on."""

    ALL = "every event, which takes the place of a relist"
    FAILED_EXITS = "STOPPED with a non-zero exit code or OOMKilled, and relists that pod"
    EXITS = "every STOPPED, and relists that pod"


class Action(Quick):
    """What a kubelet does with one announcement."""

    REPLACES_RELIST = "takes the pod's state from the event"
    RELISTS_POD = "relists that pod at once"
    NOTHING = "does nothing"


_OOM: Final = "OOMKilled"


@dataclass(frozen=True, slots=True)
class Stopped:
    """The exited container's own status in a STOPPED event."""

    exit_code: int
    reason: str = ""


@dataclass(frozen=True, slots=True)
class Generation:
    """One row: the kubelets of Kubernetes 1.`minors`, with the gate on.

    `relist_seconds`: pause between two relists while events come. `most_errors`: stream errors
    after which it stops using events until it is restarted; None: it never does.
    `retry_seconds`: the longest pause between two attempts; 0: it tries again at once.
    """

    name: str
    acts_on: ActsOn
    relist_seconds: float
    most_errors: int | None
    retry_seconds: float
    source: str
    minors: range = range(0)

    def gave_up(self, errors: float) -> bool:
        """Whether that many stream errors since its start have made it give the stream up."""
        return self.most_errors is not None and errors >= self.most_errors

    def action(self, event: EventType, stopped: Stopped | None = None) -> Action:
        """What it does with an announcement that names its pod by uid.

        Without the pod's metadata, every generation ignores an event. `stopped`: what the event
        tells of the exit, for STOPPED.
        """
        if self.acts_on is ActsOn.ALL:
            return Action.REPLACES_RELIST
        if event is not EventType.STOPPED:
            return Action.NOTHING
        failed = stopped is not None and (stopped.exit_code != 0 or stopped.reason == _OOM)
        wanted = failed or self.acts_on is ActsOn.EXITS
        return Action.RELISTS_POD if wanted else Action.NOTHING

    def loss(self, event: EventType) -> str:
        """What it costs that an announcement did not reach it, in a sentence."""
        action = self.action(event, Stopped(1))
        if action is Action.NOTHING:
            return f"a kubelet {self.name} does nothing on {event.name}: the loss costs it nothing"
        exits = " of a failed exit" if self.action(event) is not action else ""
        return (
            f"on {event.name}{exits} a kubelet {self.name} {action.value}; if it did not get this"
            f" one either, it notices by its next relist, up to {self.relist_seconds:g} s later"
        )


GENERATIONS: Final = (
    Generation(
        name="1.26",
        minors=range(26, 27),
        acts_on=ActsOn.ALL,
        relist_seconds=300.0,
        most_errors=5,
        retry_seconds=0.0,
        source="k/k#111384",
    ),
    Generation(
        name="1.27 to 1.35",
        minors=range(27, 36),
        acts_on=ActsOn.ALL,
        relist_seconds=300.0,
        most_errors=5,
        retry_seconds=0.0,
        source="k/k#115967 (counters), k/k#122697 (alpha again since 1.30)",
    ),
    Generation(
        name="1.36",
        minors=range(36, 37),
        acts_on=ActsOn.ALL,
        relist_seconds=300.0,
        most_errors=5,
        retry_seconds=0.0,
        source="k/k#137453 (exits), k/k#137362 (relists of one pod)",
    ),
    Generation(
        name="1.37",
        minors=range(37, 38),
        acts_on=ActsOn.FAILED_EXITS,
        relist_seconds=1.0,
        most_errors=5,
        retry_seconds=0.0,
        source="k/k#139262",
    ),
)
# Proposed, in no release yet: no version leads to it.
REWRITE: Final = Generation(
    name="the rewritten KEP",
    acts_on=ActsOn.EXITS,
    relist_seconds=1.0,
    most_errors=None,
    retry_seconds=60.0,
    source="k/e#6311",
)


def generation_of(version: str) -> Generation | None:
    """The generation of a kubelet by its `git_version`; None if the table does not know it."""
    major, minor, _ = parse_version(version) or (0, 0, 0)
    return next((row for row in GENERATIONS if major == 1 and minor in row.minors), None)
