"""CRI-O. Sources: cri-o#9004 (crash on disconnect); recordings of 1.36.3; its code.

Since 1.31 it removes a container whose start failed.
"""

from functools import partial
from pathlib import Path
from typing import Final

from exporter.model.labels import Flaw, Never, StreamKind
from exporter.runtimes.runtime import KnownIssue, Place, Profile, Runtime

_NAME: Final = "cri-o"
_profile = partial(
    Profile,
    name=_NAME,
    sets_up_early=True,
    serves_at_once=True,
    never=frozenset(
        {
            Never.SANDBOX_CREATED,
            Never.SANDBOX_REMOVED,
            Never.REMOVED_WITH_SANDBOX,
            Never.FORCED_REMOVAL,
            Never.FAILED_START,
            Never.FAILED_START_REMOVED,
            Never.STOPPED_ONLY_IF_RAN,
        }
    ),
    turn_on="put enable_pod_events = true under [crio.runtime] in"
    " /etc/crio/crio.conf.d/10-events.conf and restart CRI-O",
)

CRIO: Final = Runtime(
    name=_NAME,
    cgroup_prefix="crio-",
    # conmon, the monitor of each container.
    cgroup_beside="crio-conmon-",
    places=(Place(Path("/run/crio/crio.sock"), "CRI-O: kubeadm, minikube, OpenShift"),),
    profiles=(
        _profile(
            before=(1, 26, 0),
            stream=StreamKind.NONE,
            why="CRI-O before 1.26 has no GetContainerEvents",
        ),
        _profile(
            since=(1, 26, 0),
            before=(1, 28, 0),
            stream=StreamKind.EXCLUSIVE,
            why="CRI-O before 1.28 has one event channel for all subscribers:"
            " a second one takes events from the kubelet",
        ),
        _profile(
            since=(1, 28, 0),
            before=(1, 33, 0),
            stream=StreamKind.FRAGILE,
            why="CRI-O 1.28 to 1.32 can crash when an event client disconnects (cri-o#9004)",
        ),
        _profile(
            since=(1, 33, 0),
            stream=StreamKind.BROADCAST,
            why="CRI-O since 1.33 sends every event to every subscriber",
        ),
    ),
    issues=(
        KnownIssue(
            id="cri-o#9663",
            runtime=_NAME,
            since=(1, 31, 0),
            fixed_in=((1, 35, 0),),
            what="events may hold empty container statuses, on which the kubelet panics",
            remedy="upgrade CRI-O to 1.35",
            flaw=Flaw.EMPTY_STATUS,
        ),
        KnownIssue(
            id="cri-o#9738",
            runtime=_NAME,
            since=(1, 26, 0),
            what="events may come out of order: the kubelet takes an older state for the newer",
            flaw=Flaw.OUT_OF_ORDER,
        ),
        KnownIssue(
            id="cri-o#9840",
            runtime=_NAME,
            kubelets=None,
            fixed_in=((1, 33, 13), (1, 34, 11), (1, 35, 6), (1, 36, 0)),
            what="a container that ends within milliseconds may be reported with exit code 255",
            remedy="upgrade CRI-O",
        ),
    ),
)
