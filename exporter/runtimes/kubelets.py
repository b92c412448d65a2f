"""What each generation of kubelets does with the event stream: the only table of their versions.

The last row also covers all later versions. Rules, report, pages and docs use this table. Blind
spot: a distribution's patched build is judged by its version. Sources, next to each row:
`pkg/kubelet/pleg/evented.go` and `pkg/kubelet/kubelet.go` of kubernetes (k/k), and pull requests
of kubernetes/enhancements (k/e). For 1.37 that is the merged change, not the release.
"""

from collections.abc import Iterator
from dataclasses import dataclass, replace
from itertools import pairwise
from typing import Final

from exporter.model.events import EventType
from exporter.model.labels import MEANINGS, Flaw, IdentityEnum
from exporter.runtimes.versions import parse_version

# After this many stream errors a kubelet uses no events until it is restarted. After each earlier
# error it subscribes again at once.
MOST_ERRORS: Final = 5
# Which kubelets serve their pods to the node (KEP-4188).
PODS_API: Final = "Kubernetes 1.37, or 1.36 with the gate PodsAPI"


class ActsOn(IdentityEnum):
    """Which announcements a kubelet acts on, if its gate EventedPLEG is on."""

    ALL = "every event, which takes the place of a relist"
    EXITS = "every STOPPED, and relists that pod"


@dataclass(frozen=True, slots=True)
class Generation:
    """The kubelets from Kubernetes 1.`since` up to the next row, with the gate on.

    `relist_seconds`: pause between two relists while events come. `counts`: whether it counts the
    events that it receives. `until`: the minor version of the next row; None for the last.
    """

    since: int
    source: str
    acts_on: ActsOn = ActsOn.ALL
    relist_seconds: float = 300.0
    counts: bool = True
    until: int | None = None

    @property
    def name(self) -> str:
        """Its versions in words."""
        if self.until is None:
            return f"1.{self.since} and later"
        return span(range(self.since, self.until))

    @property
    def trusts(self) -> bool:
        """Whether events take the place of its relists; else an event only asks for one more."""
        return self.acts_on is ActsOn.ALL

    def loss(self, event: EventType) -> str:
        """What the loss of an announcement costs this kubelet, in a sentence."""
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
        """What this kubelet does with an announcement that has that flaw, in a sentence."""
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


_ROWS: Final = (
    Generation(since=26, source="k/k#111384", counts=False),
    Generation(
        since=27,
        source="k/k#115967 (counters; beta and off from 1.27.0), k/k#122697 (alpha and off again,"
        " in 1.27 to 1.29 with the patches of January 2024: k/k#122718 to #122720)",
    ),
    Generation(
        since=36,
        source="k/k#137453 (exits), k/k#137362 (relists of one pod, off by default: k/k#137909)",
    ),
    Generation(since=37, acts_on=ActsOn.EXITS, relist_seconds=1.0, source="k/k#139262"),
)


def span(minors: range) -> str:
    """These minor versions in words."""
    first, last = minors.start, minors.stop - 1
    return f"1.{first}" if first == last else f"1.{first} to 1.{last}"


def _closed(rows: tuple[Generation, ...]) -> Iterator[Generation]:
    """Each row, with the next row's `since` as its `until`."""
    for row, following in pairwise(rows):
        yield replace(row, until=following.since)
    yield rows[-1]


GENERATIONS: Final = tuple(_closed(_ROWS))
_TRUSTING: Final = tuple(row for row in GENERATIONS if row.trusts)
# The newest generation for which events take the place of relists, and all later ones.
BEHAVIOURS: Final = (_TRUSTING[-1], *(row for row in GENERATIONS if not row.trusts))
# The minor versions for which events take the place of relists, up to the last one that does so.
REPLACED: Final = range(_TRUSTING[0].since, _TRUSTING[-1].until or _TRUSTING[-1].since + 1)
LAST_TRUSTING, FIRST_HINTED = f"1.{REPLACED.stop - 1}", f"1.{REPLACED.stop}"


def generation_of(version: str) -> Generation | None:
    """The generation of a kubelet by its `git_version`; None if unreadable, or without the gate."""
    major, minor, _ = parse_version(version) or (0, 0, 0)
    rows = [row for row in GENERATIONS if major == 1 and minor >= row.since]
    return rows[-1] if rows else None
