"""What is to be said of a runtime: its versions' event streams, its sockets, cgroups and bugs."""

from dataclasses import dataclass
from pathlib import Path
from typing import Final, NamedTuple

from exporter.model.labels import Flaw, Never, StreamKind
from exporter.runtimes.kubelets import FIRST_HINTED, REPLACED, span
from exporter.runtimes.versions import Version, is_mended, parse_version, within

_REPOSITORIES: Final = {
    "k/k": "kubernetes/kubernetes",
    "cri-o": "cri-o/cri-o",
    "containerd": "containerd/containerd",
}
LEAVE_OFF: Final = f"leave the gate off, or upgrade to Kubernetes {FIRST_HINTED}"


@dataclass(frozen=True, slots=True)
class Profile:
    """The event stream of versions from `since` (inclusive) to `before` (exclusive), if not None.

    `turn_on`: how the runtime's events are turned on, or what else to do without them.
    `sets_up_early`: whether containers have processes from their creation on. `serves_at_once`:
    whether nothing can hold up the registration of a subscriber.
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
        """Whether it is that version's."""
        return within(self.since, version, self.before)


@dataclass(frozen=True, slots=True)
class KnownIssue:
    """A bug of kubelets 1.`kubelets`, beside `runtime` from `since` on, until it was `mended`.

    `kubelets`: None is any, with the gate on or off: then it says nothing about the gate.
    `runtime`: empty is any. `since`: None is unbounded. `mended`: see `is_mended`; empty: it is
    not. `flaw`: that of its events.
    """

    id: str
    what: str
    remedy: str = LEAVE_OFF
    kubelets: range | None = REPLACED
    runtime: str = ""
    since: Version | None = None
    mended: tuple[Version, ...] = ()
    flaw: Flaw | None = None

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
    def is_bounded(self) -> bool:
        """Whether it is a bug of some versions, not of all."""
        return bool(self.since or self.mended)

    @property
    def affected(self) -> str:
        """Where it is met, in words."""
        return ", ".join(filter(None, (self._of_runtime(), self._of_kubelet())))

    def _of_kubelet(self) -> str:
        if self.kubelets is None:
            return ""
        return f"kubelet {span(self.kubelets)}, gate on"

    def _of_runtime(self) -> str:
        since = ".".join(map(str, self.since or ()))
        before = ", ".join(".".join(map(str, each)) for each in self.mended)
        words = (self.runtime, since and f"from {since}", before and f"before {before}")
        return " ".join(filter(None, words))

    def covers(self, name: str, version: str, kubelet: str) -> bool:
        """Whether a node with these is affected; an unknown version is by no row that names it."""
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
            and not is_mended(running, self.mended)
        )


class Place(NamedTuple):
    """A socket, as a path of the node with /run for /var/run, and who has it there."""

    path: Path
    used_by: str


@dataclass(frozen=True, slots=True)
class Runtime:
    """A runtime. `profiles`: none if its versions are not known to have events.

    `cgroup_prefix`: what the names of its containers' cgroups begin with, and `cgroup_beside`:
    those of other processes beside them; "" for none.
    """

    name: str
    places: tuple[Place, ...]
    cgroup_prefix: str
    cgroup_beside: str = ""
    profiles: tuple[Profile, ...] = ()
    issues: tuple[KnownIssue, ...] = ()
