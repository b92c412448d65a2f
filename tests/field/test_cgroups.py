"""Trees of cgroups as nodes were found to have them, and processes that are not where they were."""

import shutil
import time
from collections.abc import Mapping, Sequence
from contextlib import closing
from pathlib import Path
from typing import Final

import pytest

from exporter.kernel.tree import Tree
from exporter.kernel.unseen import Unseen
from exporter.model.events import Listed, ListedState, ObjectKind, Pod
from exporter.model.facts import CgroupChanged
from tests import table

pytestmark = pytest.mark.quick

UID: Final = "ca155a2d-58b5-4b5a-8f3c-0123456789ab"
APP: Final = "0ba8ac17" * 8
NODE: Final = "d6701ec2" * 8
SLICE: Final = f"kubepods-besteffort-pod{UID.replace('-', '_')}.slice"
OF_POD: Final = f"kubepods/besteffort/pod{UID}"
PLACES: Final[dict[str, str]] = table(__file__, "places.yaml")


def processes(folder: Path, *pids: int, frozen: bool = False) -> None:
    folder.mkdir(parents=True, exist_ok=True)
    (folder / "cgroup.procs").write_text("".join(f"{pid}\n" for pid in pids))
    (folder / "cgroup.events").write_text(f"populated {bool(pids):d}\nfrozen {frozen:d}\n")


def tree_of(root: Path, version: int) -> Path:
    root.joinpath("pids").mkdir(parents=True)
    if version == 1:
        return root / "pids"
    (root / "cgroup.controllers").touch()
    return root


def read(tree: Tree) -> None:
    for _ in tree.read():
        pass


@pytest.mark.parametrize("version", [1, 2])
@pytest.mark.parametrize("cgroup", PLACES.values(), ids=PLACES)
def test_a_pod_is_found_wherever_its_node_has_it(tmp_path: Path, cgroup: str, version: int) -> None:
    """As in each of these reports: with its uid, and until it ends.

    The exporter showed none of these containers, and `check` advised to mount the node's cgroups,
    which were mounted.
    """
    place = cgroup.format(APP=APP, NODE=NODE, SLICE=SLICE, OF_POD=OF_POD)
    folder, facts = tree_of(tmp_path, version) / place, list[CgroupChanged]()
    processes(folder, 7)
    with closing(Tree(str(tmp_path), facts.append)) as tree:
        read(tree)
        assert [(each.container_id, each.pod_uid) for each in facts] == [(APP, UID)]
        processes(folder)
        read(tree)
        assert [each.populated for each in facts] == [True, False]


@pytest.mark.parametrize("version", [1, 2])
@pytest.mark.parametrize("watched", [True, False])
def test_a_process_beside_its_cgroup_runs(tmp_path: Path, version: int, *, watched: bool) -> None:
    """https://github.com/opencontainers/runc/issues/4620

    `crio-ID.scope` was gone, and its process lived in `crio-conmon-ID.scope`: a ghost was reported.
    """
    pod = tree_of(tmp_path, version) / "kubepods.slice" / SLICE
    own, monitor = pod / f"crio-{APP}.scope", pod / f"crio-conmon-{APP}.scope"
    processes(monitor, 5)
    facts = list[CgroupChanged]()
    with closing(Tree(str(tmp_path), facts.append)) as tree:
        if watched:
            processes(own, 7)
            read(tree)
            processes(own)
        processes(monitor, 5, 7)
        read(tree)
        shutil.rmtree(own, ignore_errors=True)
        read(tree)
        assert APP in tree.shown
        processes(monitor, 5)
        read(tree)
        assert [each.populated for each in facts] == [True, False]
        shutil.rmtree(monitor)
        read(tree)
        assert len(facts) == 2


POD: Final = Pod("shop", "cart", UID)
RUNS: Final = ListedState.RUNNING
APPS: Final = [
    Listed("s", ObjectKind.SANDBOX, RUNS, "s", "", POD),
    Listed(APP, ObjectKind.CONTAINER, RUNS, "s", "app", POD),
    Listed("other", ObjectKind.CONTAINER, RUNS, "t", "app", Pod("shop", "job", "u2")),
]


def dead(
    root: Path,
    monkeypatch: pytest.MonkeyPatch,
    handlers: Mapping[str, str],
    items: Sequence[Listed] = APPS,
) -> set[str]:
    """Who provably has no process, of the listed; seen for longer than a start takes."""
    began = time.monotonic()
    with closing(Tree(str(root), lambda _: None)) as tree:
        read(tree)
        monkeypatch.setattr(time, "monotonic", lambda: began + 60)
        unseen = Unseen(tree)
        unseen.compare(items, handlers)
        return {each.id for each in unseen.dead}


@pytest.mark.parametrize("left", ["its folder, empty", "nothing"])
def test_who_was_dead_before_the_exporter_came_is_found(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, left: str
) -> None:
    """https://github.com/cri-o/cri-o/issues/9406

    Listed as running for two days, process and monitor gone: who installed the exporter for it was
    told that nothing has happened.
    """
    root = tree_of(tmp_path, 2)
    processes(root / OF_POD / "s", 5)
    processes(root / "kubepods/podu2/other", 6)
    if left != "nothing":
        processes(root / OF_POD / APP)
    assert dead(tmp_path, monkeypatch, {}) == {APP}


@pytest.mark.parametrize("handler", ["untrusted", "krun", "kata-qemu"])
def test_who_keeps_processes_elsewhere_is_known_by_what_is_seen(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, handler: str
) -> None:
    """https://github.com/kata-containers/kata-containers/issues/8412

    Only its sandboxes have processes, and the names of handlers are anybody's choice.
    """
    root = tree_of(tmp_path, 2)
    processes(root / OF_POD / "s", 5)
    processes(root / OF_POD / APP)
    processes(root / "kubepods/podu2/other", 6)
    assert dead(tmp_path, monkeypatch, {"s": handler}) == set()


@pytest.mark.parametrize(
    "place",
    [f"crio-conmon-{APP}", "workers", "run-r7.scope", "run-r7.scope/b", ".", "ended", "locked"],
)
def test_who_may_be_elsewhere_in_its_pod_is_not_dead(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, place: str
) -> None:
    """https://github.com/containers/conmon/issues/545

    A process that moved before anybody looked; to where no container is, or one that has ended.
    """
    root = tree_of(tmp_path, 1)
    for each in (".", "s", "run-r7.scope", place):
        processes(root / OF_POD / each, *([5] if each in {"s", place} else []))
    processes(root / "kubepods/podu2/other", 6)
    if place == "locked":
        (root / OF_POD / place).rename(root / OF_POD / "run-r8.scope")
        procs = root / OF_POD / "run-r8.scope/cgroup.procs"
        procs.unlink()
        procs.symlink_to(procs)
    items = [*APPS, Listed("ended", ObjectKind.CONTAINER, ListedState.EXITED, "s", "job")]
    assert dead(tmp_path, monkeypatch, {}, items) == set()


@pytest.mark.parametrize("version", [1, 2])
@pytest.mark.parametrize("gone", [True, False])
def test_who_moved_while_it_was_watched_may_run(
    tmp_path: Path, version: int, *, gone: bool
) -> None:
    """https://github.com/opencontainers/runc/issues/4620

    Whoever moves it may name the cgroup as they like, and make it beside what is empty from then
    on. Once that is empty, too, nothing is left of the pod but its sandbox.
    """
    pod = tree_of(tmp_path, version) / OF_POD
    for each, pid in (("", []), ("s", [5]), (APP, [7])):
        processes(pod / each, *pid)
    stranger, moved = pod / "run-r7.scope", list[tuple[str, ...]]()
    with closing(Tree(str(tmp_path), lambda _: None)) as tree:
        unseen = Unseen(tree)

        def look() -> None:
            read(tree)
            unseen.compare(APPS[:2], {})
            moved.append(unseen.moved)

        look()
        processes(pod / APP)
        processes(stranger, 7)
        look()
        processes(stranger)
        if gone:
            for file in stranger.iterdir():
                file.unlink()
            stranger.rmdir()
        look()
    assert moved == [(), (APP,), ()]
