"""Names of cgroups' folders: the containers of each driver, and what is none."""

import pytest

from exporter.kernel.names import Place, place_of

pytestmark = pytest.mark.quick

ID = "0123456789abcdef" * 4
UID = "0b1c2d3e-4f50-6172-8394-a5b6c7d8e9f0"
SLICE_UID = UID.replace("-", "_")


@pytest.mark.parametrize(
    ("name", "pod_uid", "place"),
    [
        # The kubelet's cgroupfs driver.
        ("kubepods", "", Place("", "")),
        ("burstable", "", Place("", "")),
        (f"pod{UID}", "", Place("", UID)),
        (ID, UID, Place(ID, UID)),
        (f"crio-{ID}", UID, Place(ID, UID)),
        (f"crio-conmon-{ID}", UID, None),
        # Its systemd driver, in a node and in kind.
        ("kubepods.slice", "", Place("", "")),
        (f"kubepods-pod{SLICE_UID}.slice", "", Place("", UID)),
        (f"kubepods-burstable-pod{SLICE_UID}.slice", "", Place("", UID)),
        (f"kubelet-kubepods-besteffort-pod{SLICE_UID}.slice", "", Place("", UID)),
        (f"cri-containerd-{ID}.scope", UID, Place(ID, UID)),
        (f"crio-{ID}.scope", UID, Place(ID, UID)),
        (f"crio-conmon-{ID}.scope", UID, None),
        (f"docker-{ID}.scope", UID, Place(ID, UID)),
        # A static pod's uid is the hash of its configuration.
        (f"pod{ID[:32]}", "", Place("", ID[:32])),
        # Without a kubelet, and other clients of the runtime.
        ("k8s.io", "", Place("", "")),
        (ID, "", Place(ID, "")),
        ("system.slice", "", Place("", "")),
        (f"cri-containerd-{ID}.scope", "", Place(ID, "")),
        ("mine", "", Place("", "")),
        # Services, logins, and what others put below a pod.
        ("containerd.service", "", None),
        ("user.slice", "", None),
        ("init.scope", "", None),
        ("dev-hugepages.mount", "", None),
        ("machine-libpod_pod_1.slice", "", Place("", "")),
        ("system.slice", UID, None),
        (f"kata_{ID}", UID, None),
    ],
)
def test_a_folders_name_tells_what_it_is(name: str, pod_uid: str, place: Place | None) -> None:
    """A container with its pod, a folder that may hold some, or nothing of interest."""
    assert place_of(name, pod_uid) == place
