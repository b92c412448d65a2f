"""Bugs that a node may meet with its kubelet's gate EventedPLEG on, or whatever the gate, as data.

A stream that is complete does not help a kubelet that cannot use it. Read in the trackers, not
tried here. Blind spot: a distribution's patched build is judged by its version.
"""

from dataclasses import dataclass
from typing import Final

from exporter.pleg.profiles import Version, parse_version

# Kubelets whose events take the place of relists; since 1.37 an event only asks for a relist.
_REPLACED: Final = range(26, 37)
_REPOSITORIES: Final = {
    "k/k": "kubernetes/kubernetes",
    "cri-o": "cri-o/cri-o",
    "containerd": "containerd/containerd",
}
_LEAVE_OFF: Final = "leave the gate off, or upgrade to Kubernetes 1.37"


@dataclass(frozen=True, slots=True)
class KnownIssue:
    """One row: kubelets 1.`kubelets`, beside `runtime` from `since` (inclusive) to `before`.

    `kubelets`: None is any, with the gate on or off: then it says nothing about the gate.
    `runtime`: empty is any; `since` and `before`: None is unbounded.
    """

    id: str
    what: str
    remedy: str
    kubelets: range | None = _REPLACED
    runtime: str = ""
    since: Version | None = None
    before: Version | None = None

    @property
    def link(self) -> str:
        """Its address."""
        name, _, number = self.id.partition("#")
        return f"https://github.com/{_REPOSITORIES[name]}/issues/{number}"

    @property
    def of_gate(self) -> bool:
        """Whether it is a reason to leave the gate off."""
        return self.kubelets is not None

    @property
    def affected(self) -> str:
        """Where it is met, in words."""
        return ", ".join(filter(None, (self._of_runtime(), self._of_kubelet())))

    def _of_kubelet(self) -> str:
        if self.kubelets is None:
            return ""
        return f"kubelet 1.{self.kubelets.start} to 1.{self.kubelets.stop - 1}, gate on"

    def _of_runtime(self) -> str:
        since = ".".join(map(str, self.since or ()))
        before = ".".join(map(str, self.before or ()))
        words = (self.runtime, since and f"from {since}", before and f"before {before}")
        return " ".join(filter(None, words))

    def covers(self, name: str, version: str, kubelet: str) -> bool:
        """Whether a node with these is affected; an unknown version is by no row that names it."""
        if self.kubelets is not None:
            found = parse_version(kubelet)
            if found is None or found[0] != 1 or found[1] not in self.kubelets:
                return False
        if not self.runtime:
            return True
        running = parse_version(version)
        return (
            name.lower() == self.runtime
            and running is not None
            and (self.since is None or self.since <= running)
            and (self.before is None or running < self.before)
        )


KNOWN_ISSUES: Final = (
    KnownIssue(
        id="k/k#123087",
        what="the kubelet starts two containers of one name, of static pods above all: the bug that"
        " sent the gate back to alpha",
        remedy=_LEAVE_OFF,
    ),
    KnownIssue(
        id="k/k#121003",
        what="the kubelet starts a container again that runs, which then fails for its port",
        remedy=_LEAVE_OFF,
    ),
    KnownIssue(
        id="k/k#121349",
        what="static pods fail to start",
        remedy=_LEAVE_OFF,
    ),
    KnownIssue(
        id="k/k#124704",
        what="a pod takes up to 15 s longer to terminate",
        remedy=_LEAVE_OFF,
    ),
    KnownIssue(
        id="k/k#128654",
        what="the kubelet panics on an event after a relist that timed out",
        remedy=_LEAVE_OFF,
    ),
    KnownIssue(
        id="k/k#129829",
        kubelets=range(32, 37),
        what="the end of a pod's resize is noticed up to 5 minutes late",
        remedy=_LEAVE_OFF,
    ),
    KnownIssue(
        id="cri-o#9663",
        runtime="cri-o",
        since=(1, 31, 0),
        before=(1, 35, 0),
        what="events may hold empty container statuses, on which the kubelet panics",
        remedy="upgrade CRI-O to 1.35",
    ),
    KnownIssue(
        id="cri-o#9738",
        runtime="cri-o",
        since=(1, 26, 0),
        what="events may come out of order: the kubelet takes the older state for the newer one",
        remedy=_LEAVE_OFF,
    ),
    KnownIssue(
        id="containerd#10740",
        runtime="containerd",
        since=(2, 0, 0),
        before=(2, 0, 3),
        what="a sandbox's status has a time and no container statuses: the kubelet believes that"
        " the pod has none",
        remedy="upgrade containerd to 2.0.3",
    ),
    KnownIssue(
        id="containerd#13814",
        kubelets=None,
        runtime="containerd",
        since=(2, 3, 2),
        what="ContainerStatus may hang for good",
        remedy="stay below containerd 2.3.2 until it is mended",
    ),
    KnownIssue(
        id="containerd#13849",
        kubelets=None,
        runtime="containerd",
        since=(2, 3, 2),
        what="StopContainer may hang for good",
        remedy="stay below containerd 2.3.2 until it is mended",
    ),
)


def known_issues(name: str, version: str, kubelet: str = "") -> tuple[KnownIssue, ...]:
    """The rows that affect a runtime, as it names itself, and a kubelet; empty: not known."""
    return tuple(row for row in KNOWN_ISSUES if row.covers(name, version, kubelet))
