"""cri-dockerd. Its event streams are not known, so the exporter only relists."""

from pathlib import Path
from typing import Final

from exporter.runtimes.runtime import Place, Runtime

CRI_DOCKERD: Final = Runtime(
    name="docker",
    cgroup_prefix="docker-",
    places=(
        Place(Path("/run/cri-dockerd.sock"), "cri-dockerd: kubeadm, minikube"),
        Place(Path("/run/k3s/cri-dockerd/cri-dockerd.sock"), "cri-dockerd of k3s --docker"),
    ),
)
