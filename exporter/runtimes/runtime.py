"""What is known of a runtime: its versions' event streams, its sockets, cgroups and bugs."""

from dataclasses import dataclass
from pathlib import Path
from typing import Final, NamedTuple

from exporter.model.labels import Flaw, Never, StreamKind
from exporter.runtimes.kubelets import FIRST_HINTED, REPLACED, span
from exporter.runtimes.versions import Version, is_fixed, parse_version, within

_REPOSITORIES: Final = {
    "k/k": "kubernetes/kubernetes",
    "cri-o": "cri-o/cri-o",
    "containerd": "containerd/containerd",
}
LEAVE_OFF: Final = f"leave the gate off, or upgrade to Kubernetes {FIRST_HINTED}"


@dataclass(frozen=True, slots=True)
class Profile:
    """The event stream of versions from `since` to before `before`; None: unbounded.

    `turn_on`: how to turn the runtime's events on, or what to do without them. `sets_up_early`:
    whether containers have processes from their creation on. `serves_at_once`: whether nothing can
    delay the registration of a subscriber.
    """

    name: str
    stream: StreamKind
    never: frozenset[Never]
    why: str
    since: Version | None = None
    before: Version | None = None
    sets_up_early: bool = False
    serves_at_once: bool = False
    turn_on: str = "see the documentation of the runtime"

    def covers(self, version: Version) -> bool:
        """Whether this is the profile of that version."""
        return within(self.since, version, self.before)


@dataclass(frozen=True, slots=True)
class KnownIssue:
    """A bug of nodes with such kubelets and such a runtime.

    `kubelets`: minor versions, with the gate on. None: any kubelet, with the gate on or off; then
    the bug says nothing about the gate. `runtime`: "" is any. `since`: the runtime's first version
    with the bug; None: all. `fixed_in`: see `is_fixed`; empty: none. `flaw`: of its events.
    """

    id: str
    what: str
    remedy: str = LEAVE_OFF
    kubelets: range | None = REPLACED
    runtime: str = ""
    since: Version | None = None
    fixed_in: tuple[Version, ...] = ()
    flaw: Flaw | None = None

    @property
    def link(self) -> str:
        """The URL of the issue."""
        name, _, number = self.id.partition("#")
        return f"https://github.com/{_REPOSITORIES[name]}/issues/{number}"

    @property
    def of_gate(self) -> bool:
        """Whether it is a reason to leave the gate off."""
        return self.kubelets is not None

    @property
    def is_bounded(self) -> bool:
        """Whether only some versions of the runtime have it."""
        return bool(self.since or self.fixed_in)

    @property
    def affected(self) -> str:
        """The affected runtimes and kubelets, in words."""
        return ", ".join(filter(None, (self._of_runtime(), self._of_kubelet())))

    def _of_kubelet(self) -> str:
        if self.kubelets is None:
            return ""
        return f"kubelet {span(self.kubelets)}, gate on"

    def _of_runtime(self) -> str:
        since = ".".join(map(str, self.since or ()))
        before = ", ".join(".".join(map(str, each)) for each in self.fixed_in)
        words = (self.runtime, since and f"from {since}", before and f"before {before}")
        return " ".join(filter(None, words))

    def covers(self, name: str, version: str, kubelet: str) -> bool:
        """Whether a node with these is affected; False if a version that matters is not known."""
        if self.kubelets is not None:
            found = parse_version(kubelet)
            if found is None or found[0] != 1 or found[1] not in self.kubelets:
                return False
        return not self.runtime or self.is_of(name, version)

    def is_of(self, name: str, version: str) -> bool:
        """Whether it is a bug of that runtime, whatever the kubelet."""
        running = parse_version(version)
        return (
            name.lower() == self.runtime
            and running is not None
            and within(self.since, running, None)
            and not is_fixed(running, self.fixed_in)
        )


class Place(NamedTuple):
    """A socket, as a path on the node (/run, not /var/run), and who uses it there."""

    path: Path
    used_by: str


@dataclass(frozen=True, slots=True)
class Runtime:
    """A runtime. `profiles`: empty if no version is known to have events.

    `cgroup_prefix`: the prefix of its containers' cgroups. `cgroup_beside`: that of cgroups beside
    them which hold other processes; "" if there are none.
    """

    name: str
    places: tuple[Place, ...]
    cgroup_prefix: str
    cgroup_beside: str = ""
    profiles: tuple[Profile, ...] = ()
    issues: tuple[KnownIssue, ...] = ()
