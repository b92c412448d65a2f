"""Where runtimes have their CRI sockets, and where kubelets say which one they use: data only.

Sources: the runtimes' own defaults, and those of the distributions that move them. Paths are the
node's, with /run for /var/run, which is a link to it.
"""

from pathlib import Path
from typing import Final, NamedTuple


class Place(NamedTuple):
    """A socket, and who has it there."""

    path: Path
    used_by: str


PLACES: Final = (
    Place(
        Path("/run/containerd/containerd.sock"),
        "containerd: kubeadm, kind, minikube, Bottlerocket, EKS, GKE, AKS",
    ),
    Place(Path("/run/crio/crio.sock"), "CRI-O: kubeadm, minikube, OpenShift"),
    Place(Path("/run/cri-dockerd.sock"), "cri-dockerd: kubeadm, minikube"),
    Place(Path("/run/k3s/containerd/containerd.sock"), "containerd of k3s, RKE2, k3d"),
    Place(Path("/run/k3s/cri-dockerd/cri-dockerd.sock"), "cri-dockerd of k3s --docker"),
    Place(Path("/run/k0s/containerd.sock"), "containerd of k0s"),
    Place(Path("/var/snap/microk8s/common/run/containerd.sock"), "containerd of MicroK8s"),
    Place(Path("/run/dockershim.sock"), "containerd of the first Bottlerocket releases"),
)
# In each, `containerRuntimeEndpoint` or `--container-runtime-endpoint` is what the kubelet uses.
KUBELET_FILES: Final = (
    Path("/var/lib/kubelet/config.yaml"),
    Path("/var/lib/kubelet/instance-config.yaml"),
    Path("/var/lib/kubelet/kubeadm-flags.env"),
    Path("/etc/kubernetes/kubelet.conf"),
    Path("/etc/kubernetes/kubelet/config.json"),
    Path("/etc/kubernetes/kubelet/config"),
    Path("/var/lib/k0s/kubelet-config.yaml"),
    Path("/var/lib/rancher/k3s/agent/etc/kubelet.conf.d/00-k3s-defaults.conf"),
    Path("/var/lib/rancher/rke2/agent/etc/kubelet.conf.d/00-rke2-defaults.conf"),
)
