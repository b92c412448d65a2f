"""How each runtime's event stream behaves and what it never announces, as data.

Blind spot: a distribution's patched build carries the upstream version and is judged by it.
Sources: containerd#7318 (shared channel), cri-o#9004 (crash on disconnect), and recordings of
containerd 1.7.24, 2.1.9 and CRI-O 1.36.3 in `tests/traces`.
"""

import re
from dataclasses import dataclass
from typing import Final

from exporter.model.labels import Never, StreamKind

Version = tuple[int, int, int]


@dataclass(frozen=True, slots=True)
class Profile:
    """One row: versions from `since` (inclusive) to `before` (exclusive); None means unbounded.

    `switchable`: whether the runtime's configuration can turn its events on or off.
    `sets_up_early`:
    whether containers have processes from their creation on.
    """

    name: str
    stream: StreamKind
    never: frozenset[Never]
    why: str
    since: Version | None = None
    before: Version | None = None
    switchable: bool = True
    sets_up_early: bool = False

    def covers(self, name: str, version: Version) -> bool:
        """Whether this row applies to that runtime and version."""
        return (
            name == self.name
            and (self.since is None or self.since <= version)
            and (self.before is None or version < self.before)
        )


_CONTAINERD: Final = frozenset({Never.FAILED_START, Never.DELETED_BELOW})
_CONTAINERD_17: Final = _CONTAINERD | {Never.SANDBOX_CREATED, Never.SANDBOX_FAILED}
_CRIO: Final = frozenset(
    {
        Never.SANDBOX_CREATED,
        Never.SANDBOX_REMOVED,
        Never.REMOVED_WITH_SANDBOX,
        Never.FORCED_REMOVAL,
        Never.FAILED_START,
        Never.STOPPED_MEANS_RAN,
    }
)

PROFILES: Final = (
    Profile(
        name="containerd",
        before=(1, 7, 0),
        stream=StreamKind.NONE,
        never=_CONTAINERD_17,
        why="containerd before 1.7 has no GetContainerEvents",
        switchable=False,
    ),
    Profile(
        name="containerd",
        since=(1, 7, 0),
        before=(2, 0, 0),
        stream=StreamKind.EXCLUSIVE,
        never=_CONTAINERD_17,
        why="containerd 1.7 has one event channel for all subscribers:"
        " a second one takes events from the kubelet (containerd#7318)",
        switchable=False,
    ),
    Profile(
        name="containerd",
        since=(2, 0, 0),
        stream=StreamKind.BROADCAST,
        never=_CONTAINERD,
        why="containerd 2 sends every event to every subscriber",
        switchable=False,
    ),
    Profile(
        name="cri-o",
        sets_up_early=True,
        before=(1, 26, 0),
        stream=StreamKind.NONE,
        never=_CRIO,
        why="CRI-O before 1.26 has no GetContainerEvents",
    ),
    Profile(
        name="cri-o",
        sets_up_early=True,
        since=(1, 26, 0),
        before=(1, 28, 0),
        stream=StreamKind.EXCLUSIVE,
        never=_CRIO,
        why="CRI-O before 1.28 has one event channel for all subscribers:"
        " a second one takes events from the kubelet",
    ),
    Profile(
        name="cri-o",
        sets_up_early=True,
        since=(1, 28, 0),
        before=(1, 33, 0),
        stream=StreamKind.FRAGILE,
        never=_CRIO,
        why="CRI-O 1.28 to 1.32 can crash when an event client disconnects (cri-o#9004)",
    ),
    Profile(
        name="cri-o",
        sets_up_early=True,
        since=(1, 33, 0),
        stream=StreamKind.BROADCAST,
        never=_CRIO,
        why="CRI-O since 1.33 sends every event to every subscriber",
    ),
)

# What names of runtime handlers contain whose containers run in a virtual machine, or in a sandbox
# with a kernel of its own: the node's cgroups of these containers do not hold their processes.
ELSEWHERE: Final = (
    *("kata", "gvisor", "runsc", "firecracker", "qemu", "clh", "cloud-hypervisor", "dragonball"),
    *("stratovirt", "microvm", "urunc", "hyperv", "runhcs", "wasm", "enclave", "remote"),
)

_NUMBERS = re.compile(r"v?(\d+)\.(\d+)(?:\.(\d+))?")


def parse_version(text: str) -> Version | None:
    """Major, minor and patch from a runtime's version string; None if it has none.

    Runtimes report `v2.1.9`, `1.7.24~ds1` or `1.36.3-dev`; the suffix after the numbers is ignored.
    """
    match = _NUMBERS.match(text.strip())
    if match is None:
        return None
    major, minor, patch = match.groups(default="0")
    return int(major), int(minor), int(patch)


def is_elsewhere(handler: str) -> bool:
    """Whether that runtime handler keeps processes out of the containers' cgroups; "" is runc."""
    return bool(handler) and any(word in handler.lower() for word in ELSEWHERE)


def profile_of(name: str, version: str) -> Profile:
    """The row for a runtime as reported by `Version`; an unknown one is not safe to share."""
    parsed = parse_version(version)
    if parsed is not None:
        for row in PROFILES:
            if row.covers(name.lower(), parsed):
                return row
    return Profile(
        name=name,
        stream=StreamKind.EXCLUSIVE,
        never=frozenset({Never.FAILED_START}),
        sets_up_early=True,
        why=f"the runtime {name or '(unnamed)'} {version or '(no version)'} is not known here:"
        " a second subscriber might take events from the kubelet",
    )
