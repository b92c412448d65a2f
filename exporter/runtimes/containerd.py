"""containerd. Sources: containerd#7318 (shared channel); recordings of 1.7.24 and 2.1.9."""

from functools import partial
from pathlib import Path
from typing import Final

from exporter.model.labels import Flaw, Never, StreamKind
from exporter.runtimes.runtime import KnownIssue, Place, Profile, Runtime

_NAME: Final = "containerd"
_SINCE_2: Final = frozenset({Never.FAILED_START, Never.DELETED_BELOW, Never.SANDBOX_FAILED})
_BEFORE_2: Final = _SINCE_2 | {Never.SANDBOX_CREATED}

_profile = partial(
    Profile,
    name=_NAME,
    turn_on="this version announces events by itself: see in its log whether its CRI plugin runs",
)
_issue = partial(KnownIssue, runtime=_NAME)
_hang = partial(_issue, kubelets=None, since=(2, 3, 2), remedy="stay below 2.3.2 until it is fixed")

CONTAINERD: Final = Runtime(
    name=_NAME,
    cgroup_prefix="cri-containerd-",
    places=(
        Place(
            Path("/run/containerd/containerd.sock"),
            "containerd: kubeadm, kind, minikube, Bottlerocket, EKS, GKE, AKS",
        ),
        Place(Path("/run/k3s/containerd/containerd.sock"), "containerd of k3s, RKE2, k3d"),
        Place(Path("/run/k0s/containerd.sock"), "containerd of k0s"),
        Place(Path("/var/snap/microk8s/common/run/containerd.sock"), "containerd of MicroK8s"),
        Place(Path("/run/dockershim.sock"), "containerd of the first Bottlerocket releases"),
    ),
    profiles=(
        _profile(
            before=(1, 7, 0),
            stream=StreamKind.NONE,
            never=_BEFORE_2,
            why="containerd before 1.7 has no GetContainerEvents",
            turn_on="containerd announces events by itself since 1.7: upgrade it",
        ),
        _profile(
            since=(1, 7, 0),
            before=(2, 0, 0),
            stream=StreamKind.EXCLUSIVE,
            serves_at_once=True,
            never=_BEFORE_2,
            why="containerd 1.7 has one event channel for all subscribers:"
            " a second one takes events from the kubelet (containerd#7318)",
        ),
        _profile(
            since=(2, 0, 0),
            stream=StreamKind.BROADCAST,
            never=_SINCE_2,
            why="containerd 2 sends every event to every subscriber",
        ),
    ),
    issues=(
        _issue(
            id="containerd#10740",
            since=(2, 0, 0),
            fixed_in=((2, 0, 3),),
            what="a sandbox's status has a time and no container statuses: the kubelet believes"
            " that the pod has none",
            remedy="upgrade to 2.0.3",
        ),
        _issue(
            id="containerd#12390",
            since=(1, 7, 0),
            fixed_in=((2, 0, 0),),
            what="the DELETED of a sandbox names no pod, and every kubelet ignores it",
            remedy="upgrade to containerd 2",
            flaw=Flaw.NO_POD,
        ),
        _issue(
            id="containerd#11579",
            kubelets=None,
            fixed_in=((1, 7, 34), (2, 0, 9)),
            what="exits while containerd restarts may be lost: the container is listed as running"
            " from then on",
            remedy="upgrade; until then delete the pods of ghosts",
        ),
        _issue(
            id="containerd#10589",
            kubelets=None,
            fixed_in=((1, 6, 36), (1, 7, 22)),
            what="the exit by an OOM kill beside an exec may be lost: the container is listed as"
            " running from then on",
            remedy="upgrade; until then delete the pods of ghosts",
        ),
        _issue(
            id="containerd#13049",
            kubelets=None,
            what="a container that fails to start may be reported as started for a moment",
            remedy="leave the kubelet's gate PLEGOnDemandRelist off: it meets this more often",
        ),
        _hang(id="containerd#13814", what="ContainerStatus may hang forever"),
        _hang(id="containerd#13849", what="StopContainer may hang forever"),
    ),
)
