"""What each generation of kubelet does with the event stream, and its bugs, as data.

Blind spot: a distribution's patched build is judged by its version. Sources, next to each row:
`pkg/kubelet/pleg/evented.go` and `pkg/kubelet/kubelet.go` of kubernetes (k/k), and pull requests
of kubernetes/enhancements (k/e). 1.37 was read as its change was merged, not in the release. The
bugs were read in the tracker, not tried here: a complete stream does not help a kubelet that cannot
use it.
"""

from dataclasses import dataclass
from typing import Final

from exporter.model.events import EventType
from exporter.model.flaws import MEANINGS
from exporter.model.labels import Flaw, Quick
from exporter.runtimes.runtime import KnownIssue, parse_version

# Stream errors after which a kubelet stops using events until it is restarted. It subscribes again
# at once after each.
MOST_ERRORS: Final = 5


class ActsOn(Quick):
    """Which announcements a kubelet acts on, if its gate EventedPLEG is on."""

    ALL = "every event, which takes the place of a relist"
    EXITS = "every STOPPED, and relists that pod"


@dataclass(frozen=True, slots=True)
class Generation:
    """The kubelets of Kubernetes 1.`minors`, with the gate on.

    `relist_seconds`: pause between two relists while events come.
    """

    name: str
    source: str
    minors: range
    acts_on: ActsOn = ActsOn.ALL
    relist_seconds: float = 300.0

    @property
    def trusts(self) -> bool:
        """Whether events take the place of its relists; else they only ask for one more."""
        return self.acts_on is ActsOn.ALL

    def loss(self, event: EventType) -> str:
        """What it costs that an announcement did not reach it, in a sentence."""
        if not (self.trusts or event is EventType.STOPPED):
            return f"a kubelet {self.name} does nothing on {event.name}: the loss costs it nothing"
        action = (
            "takes the pod's state from the event" if self.trusts else "relists that pod at once"
        )
        return (
            f"on {event.name} a kubelet {self.name} {action}; if it did not get this"
            f" one either, it notices by its next relist, {self._late}"
        )

    def flawed(self, event: EventType, flaw: Flaw) -> str:
        """What it makes of an announcement with that flaw, in a sentence."""
        whose = f"a kubelet {self.name}"
        if flaw is Flaw.NO_POD and (self.trusts or event is EventType.STOPPED):
            return f"{whose} ignores it, and notices by its next relist, {self._late}"
        if not self.trusts:
            return f"{whose} reads nothing of it but type and pod: it does no harm"
        lasts = "" if flaw is Flaw.EMPTY_STATUS else f", until its next relist, {self._late}"
        return f"{whose} {MEANINGS[flaw].does}{lasts}"

    @property
    def _late(self) -> str:
        return f"up to {self.relist_seconds:g} s later"


GENERATIONS: Final = (
    Generation(name="1.26", minors=range(26, 27), source="k/k#111384"),
    Generation(
        name="1.27 to 1.35",
        minors=range(27, 36),
        source="k/k#115967 (counters; beta and off from 1.27.0), k/k#122697 (alpha and off again,"
        " in 1.27 to 1.29 with the patches of January 2024: k/k#122718 to #122720)",
    ),
    Generation(
        name="1.36",
        minors=range(36, 37),
        source="k/k#137453 (exits), k/k#137362 (relists of one pod)",
    ),
    Generation(
        name="1.37",
        minors=range(37, 38),
        acts_on=ActsOn.EXITS,
        relist_seconds=1.0,
        source="k/k#139262",
    ),
)
ISSUES: Final = (
    KnownIssue(
        id="k/k#123087",
        what="the kubelet starts two containers with one name, mostly in static pods; for this bug"
        " the gate went back to alpha",
    ),
    KnownIssue(
        id="k/k#121003",
        what="the kubelet starts a running container again, which fails as its port is taken",
    ),
    KnownIssue(id="k/k#121349", what="static pods fail to start"),
    KnownIssue(id="k/k#124704", what="a pod takes up to 15 s longer to terminate"),
    KnownIssue(
        id="k/k#128654", what="the kubelet panics on an event after a relist that timed out"
    ),
    KnownIssue(
        id="k/k#129829",
        kubelets=range(32, 37),
        what="the end of a pod's resize is noticed up to 5 minutes late",
    ),
)


def generation_of(version: str) -> Generation | None:
    """The generation of a kubelet by its `git_version`; None if the table does not know it."""
    major, minor, _ = parse_version(version) or (0, 0, 0)
    return next((row for row in GENERATIONS if major == 1 and minor in row.minors), None)
