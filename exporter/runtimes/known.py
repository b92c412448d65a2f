"""All known runtimes, and the profile and issues of the runtime that a node has.

Blind spot: a distribution's patched build carries the upstream version and is judged by it.
"""

from pathlib import Path
from typing import Final

from exporter.model.labels import Flaw, Never, StreamKind
from exporter.runtimes.containerd import CONTAINERD
from exporter.runtimes.crio import CRIO
from exporter.runtimes.runtime import KnownIssue, Place, Profile, Runtime
from exporter.runtimes.versions import parse_version

# Its event streams are not known, so the exporter only relists.
_CRI_DOCKERD: Final = Runtime(
    name="docker",
    cgroup_prefix="docker-",
    places=(
        Place(Path("/run/cri-dockerd.sock"), "cri-dockerd: kubeadm, minikube"),
        Place(Path("/run/k3s/cri-dockerd/cri-dockerd.sock"), "cri-dockerd of k3s --docker"),
    ),
)
RUNTIMES: Final = (CONTAINERD, CRIO, _CRI_DOCKERD)
PROFILES: Final = tuple(row for runtime in RUNTIMES for row in runtime.profiles)
PLACES: Final = tuple(place for runtime in RUNTIMES for place in runtime.places)
# Bugs of kubelets, as the issue tracker describes them, not reproduced here: a complete stream does
# not help a kubelet that cannot use it.
_OF_KUBELETS: Final = (
    KnownIssue(
        id="k/k#123087",
        what="two containers run with one name, mostly of static pods: so the gate is alpha again",
    ),
    KnownIssue(
        id="k/k#121003",
        what="a running container is started a second time, which fails as its port is taken",
    ),
    KnownIssue(id="k/k#121349", what="static pods fail to start"),
    KnownIssue(id="k/k#124704", what="pods take up to 15 s longer to terminate"),
    KnownIssue(
        id="k/k#128654", what="the kubelet panics on an event after a relist that timed out"
    ),
    KnownIssue(
        id="k/k#129829",
        kubelets=range(32, 37),
        what="the end of a resize is noticed up to 5 minutes late",
    ),
)
KNOWN_ISSUES: Final = (*_OF_KUBELETS, *(row for runtime in RUNTIMES for row in runtime.issues))

# Parts of names of runtime handlers whose containers run in a virtual machine, or in a sandbox with
# a kernel of its own: the node's cgroups of these containers do not hold their processes.
_ELSEWHERE: Final = (
    *("kata", "gvisor", "runsc", "firecracker", "qemu", "clh", "cloud-hypervisor", "dragonball"),
    *("stratovirt", "microvm", "urunc", "hyperv", "runhcs", "wasm", "enclave", "remote"),
)


def is_elsewhere(handler: str) -> bool:
    """Whether that runtime handler keeps processes out of the containers' cgroups; "" is runc."""
    return bool(handler) and any(word in handler.lower() for word in _ELSEWHERE)


def profile_of(name: str, version: str) -> Profile:
    """The profile for an answer to `Version`; an unknown runtime counts as unsafe to share."""
    parsed = parse_version(version)
    if parsed is not None:
        for row in PROFILES:
            if row.name == name.lower() and row.covers(parsed):
                return row
    return Profile(
        name=name,
        stream=StreamKind.EXCLUSIVE,
        never=frozenset({Never.FAILED_START}),
        sets_up_early=True,
        why=f"the runtime {name or '(unnamed)'} {version or '(no version)'} is not known here:"
        " a second subscriber might take events from the kubelet",
    )


def known_issues(name: str, version: str, kubelet: str = "") -> tuple[KnownIssue, ...]:
    """The issues of a runtime, as it names itself, and of a kubelet; "" if that is not known.

    A bug of all versions says nothing about one node, so it counts only with a known kubelet.
    """
    rows = (row for row in KNOWN_ISSUES if row.covers(name, version, kubelet))
    return tuple(row for row in rows if kubelet or row.is_bounded)


def known_flaw(name: str, version: str, flaw: Flaw) -> KnownIssue | None:
    """The known issue that gives this runtime's events that flaw; None if there is none."""
    rows = (row for row in KNOWN_ISSUES if row.flaw is flaw and row.is_of(name, version))
    return next(rows, None)
