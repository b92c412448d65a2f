"""Which mounts a process could write to, by a table of a pod on a real node with cgroup v1."""

from pathlib import Path

import pytest

from exporter.kernel.mounts import writable

pytestmark = pytest.mark.quick

OF_NODE = (Path("/host/sys/fs/cgroup"), Path("/run/containerd"))
# As in a pod whose mounts were not read-only recursively.
TABLE = r"""
1 0 0:50 / / ro,relatime - overlay overlay rw
2 1 0:51 / /proc rw,nosuid - proc proc rw
3 1 0:28 / /host/sys/fs/cgroup ro,relatime - tmpfs tmpfs rw
4 3 0:35 / /host/sys/fs/cgroup/freezer rw,relatime master:7 - cgroup cgroup rw,freezer
5 3 0:36 / /host/sys/fs/cgroup/pids ro,relatime - cgroup cgroup rw,pids
6 1 0:24 /containerd /run/containerd ro,nosuid - tmpfs tmpfs rw
7 6 0:60 / /run/containerd/a\040b/rootfs rw - overlay overlay rw
8 1 0:61 / /run/containerd-other rw - tmpfs tmpfs rw
""".strip()


def test_mounts_below_those_of_the_node_are_writable_by_their_own_flags() -> None:
    found = writable(OF_NODE, TABLE)
    assert [str(each) for each in found] == [
        "/host/sys/fs/cgroup/freezer",
        "/run/containerd/a b/rootfs",
    ]


def test_a_folder_without_a_mount_of_its_own_is_judged_by_the_one_that_holds_it() -> None:
    """As on cgroup v1, where a single hierarchy may be mounted."""
    assert writable([Path("/host/sys/fs")], TABLE) == [Path("/host/sys/fs/cgroup/freezer")]
    assert writable([Path("/run/containerd-other/x")], TABLE) == [Path("/run/containerd-other")]


def test_of_several_mounts_at_one_point_the_last_counts() -> None:
    again = TABLE + "\n9 4 0:35 / /host/sys/fs/cgroup/freezer ro - cgroup cgroup rw"
    assert writable(OF_NODE[:1], again) == []
