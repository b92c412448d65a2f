"""Which container or pod a cgroup's folder belongs to, by its name alone.

Sources: kubelet's `pkg/kubelet/cm`, containerd's and CRI-O's CRI servers, cri-dockerd. Blind spot:
a container of another client of the runtime looks like a container without a pod.
"""

import re
from typing import Final, NamedTuple

# CRI-O's cgroupfs driver writes no `.scope`; its conmon is beside the container, not in it.
_PREFIXED: Final = re.compile(
    r"(?:cri-containerd-|crio-(?!conmon-)|docker-)([0-9A-Za-z][0-9A-Za-z-]*)(?:\.scope)?"
)
_ID: Final = re.compile(r"[0-9a-f]{64}")
# Within a pod's folder there is nothing but containers.
_ID_IN_POD: Final = re.compile(r"(?!crio-conmon-)[0-9A-Za-z]+(?:-[0-9A-Za-z]+)*")
_POD: Final = re.compile(r"pod([0-9A-Za-z_-]+)")
_POD_SLICE: Final = re.compile(
    r"(?:.*-)?kubepods(?:-burstable|-besteffort)?-pod([0-9A-Za-z_]+)\.slice"
)
# Services of the machine, and logins: no container is below them.
_OTHERS: Final = re.compile(
    r".*\.(?:service|scope|mount|socket|swap|device|path|timer)|user\.slice"
)


class Place(NamedTuple):
    """`container_id`: "" for a folder that may hold some. `pod_uid`: "" outside pods."""

    container_id: str
    pod_uid: str


def place_of(name: str, pod_uid: str) -> Place | None:
    """What the folder of that name is, below a folder of that pod; None if it is of no interest."""
    if match := _PREFIXED.fullmatch(name):
        return Place(match[1], pod_uid)
    if pod_uid:
        return Place(name, pod_uid) if _ID_IN_POD.fullmatch(name) else None
    if _ID.fullmatch(name):
        return Place(name, "")
    if match := _POD.fullmatch(name):
        return Place("", match[1])
    if match := _POD_SLICE.fullmatch(name):
        # systemd takes a dash for a level: the kubelet writes an underscore.
        return Place("", match[1].replace("_", "-"))
    return None if _OTHERS.fullmatch(name) else Place("", "")
