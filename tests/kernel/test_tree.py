"""The tree of cgroups, out of ordinary files: by level, by notification, and what goes wrong."""

import errno
import os
import shutil
import subprocess
import sys
import time
from collections.abc import Callable, Iterator
from contextlib import closing
from pathlib import Path

import pytest

from exporter.errors import KernelError
from exporter.kernel import inotify, populated, tree
from exporter.kernel.folders import Place, place_of
from exporter.kernel.populated import Processes
from exporter.kernel.tree import Tree
from exporter.model.facts import CgroupChanged
from simulator.runtime import CgroupFiles
from testbed.fixtures import unavailable

pytestmark = pytest.mark.quick

UID = "7c0d8f2a-1111-2222-3333-444455556666"


class Watched:
    """A tree and what it reported."""

    def __init__(self, root: Path) -> None:
        self.root = root
        self.facts: list[CgroupChanged] = []
        self.tree = Tree(str(root), self.facts.append)

    @property
    def files(self) -> CgroupFiles:
        return CgroupFiles(self.root)

    def close(self) -> None:
        self.tree.close()

    def changes(self) -> list[str]:
        """What it reported since the last call: `+` and `-` with the ids."""
        changes = [f"{'+' if each.populated else '-'}{each.container_id}" for each in self.facts]
        self.facts.clear()
        return changes

    def read(self) -> list[str]:
        for _ in self.tree.read():
            pass
        return self.changes()

    def notified(self) -> list[str]:
        self.tree.notified()
        return self.changes()


@pytest.fixture
def bare(tmp_path: Path) -> Iterator[Watched]:
    (tmp_path / "root").mkdir()
    with closing(Watched(tmp_path / "root")) as watched:
        yield watched


@pytest.fixture
def seen(bare: Watched) -> Watched:
    bare.files.run(UID, "c1")
    return bare


def procs(folder: Path, *pids: int) -> None:
    folder.mkdir(parents=True, exist_ok=True)
    (folder / "cgroup.procs").write_text("".join(f"{pid}\n" for pid in pids))


# --- a read by level needs no notification ------------------------------------


@pytest.mark.parametrize("pipe", [False, True])
def test_what_shows_no_process_at_first_sight_is_no_change(seen: Watched, *, pipe: bool) -> None:
    """Nothing is known to have ended; nor does a pipe that has no writer hold anything up."""
    seen.files.empty(UID, "c1")
    if pipe:
        events = seen.files.folder(UID, "c1") / "cgroup.events"
        events.unlink()
        os.mkfifo(events)
    assert seen.read() == []


def test_odd_things_in_the_tree_hold_nothing_up(seen: Watched) -> None:
    pod = seen.files.folder(UID, "c1").parent
    (pod / "circle").symlink_to(pod)
    (pod / "c2").symlink_to("/proc/1")
    (pod / "c3").symlink_to("c3")
    for name in (os.fsdecode(b"\xff\xfe"), "\n", "\x1b[2J", "n" * 255):
        (pod / name).mkdir()
    seen.root.joinpath(*("d" * 500)).mkdir(parents=True)
    assert seen.read() == ["+c1"]
    assert seen.read() == []
    seen.files.empty(UID, "c1")
    assert seen.notified() == ["-c1"]


def test_a_cgroup_in_place_of_another_is_found(seen: Watched) -> None:
    """A folder with as many folders as before: within eight reads, if one was no container."""
    other = seen.files.folder(UID, "c1").parent / "crio-conmon-x"
    other.mkdir()
    assert seen.read() == ["+c1"]
    other.rmdir()
    seen.files.run(UID, "c2")
    assert [line for _ in range(8) for line in seen.read()] == ["+c2"]
    seen.files.remove(UID, "c1")
    seen.files.run(UID, "c3")
    assert sorted(seen.read()) == ["+c3", "-c1"]
    seen.files.remove(UID, "c2")
    seen.files.remove(UID, "c3")
    seen.files.run("other", "c4")
    assert sorted(seen.read()) == ["+c4", "-c2", "-c3"]


def test_a_container_with_two_cgroups_ends_with_the_last(seen: Watched) -> None:
    """One that is moved is in both for a moment."""
    second = CgroupFiles(seen.root / "kubelet.slice")
    second.run(UID, "c1")
    assert seen.read() == ["+c1"]
    seen.files.remove(UID, "c1")
    assert seen.read() == []
    second.remove(UID, "c1")
    assert seen.read() == ["-c1"]


def test_a_read_of_many_is_in_small_steps(seen: Watched) -> None:
    for number in range(1000):
        seen.files.run(UID, f"c{number}")
    assert len(list(seen.tree.read())) > 1000 / 20
    assert len(seen.changes()) == 1000


POD_SLICE = f"kubepods-burstable-pod{UID.replace('-', '_')}.slice"


def test_what_holds_nothing_is_looked_into_once_it_does(bare: Watched) -> None:
    """A service without folders takes no watch; within eight reads it is found to have some."""
    service = bare.root / "pids/system.slice/containerd.service"
    service.mkdir(parents=True)
    assert bare.read() == []
    procs(service / f"{POD_SLICE}:cri-containerd:c1", 7)
    assert [line for _ in range(8) for line in bare.read()] == ["+c1"]


# --- a process that moved to a cgroup beside its own --------------------------


def events(folder: Path, *, populated: bool, frozen: bool = False) -> None:
    folder.mkdir(parents=True, exist_ok=True)
    (folder / "cgroup.events").write_text(f"populated {populated:d}\nfrozen {frozen:d}\n")


def test_a_cgroup_beside_it_that_comes_later_is_there_for_its_processes(seen: Watched) -> None:
    """Whoever made it: no monitor is begun after its container."""
    seen.read()
    procs(seen.files.folder(UID, "c1").with_name("crio-conmon-c1.scope"), 7)
    assert seen.notified() == []
    seen.files.empty(UID, "c1")
    assert (seen.notified(), seen.read()) == ([], [])
    assert "c1" in seen.tree.shown


# --- frozen -------------------------------------------------------------------


def frozen(watched: Watched) -> list[str]:
    for _ in watched.tree.read():
        pass
    return [each.id for each in watched.tree.shown if each.processes is Processes.FROZEN]


def test_a_frozen_container_has_its_processes(seen: Watched) -> None:
    """Each of which waits; a removal freezes a cgroup that is empty, which is nothing.

    A paused task became UNKNOWN when containerd restarted, and the kubelet began a second one:
    https://github.com/containerd/containerd/issues/11281
    """
    assert frozen(seen) == []
    events(seen.files.folder(UID, "c1"), populated=True, frozen=True)
    assert frozen(seen) == ["c1"]
    assert seen.changes() == ["+c1"]
    events(seen.files.folder(UID, "c1"), populated=False, frozen=True)
    assert frozen(seen) == []
    assert seen.changes() == ["-c1"]


def test_v1_freezes_in_a_hierarchy_of_its_own(bare: Watched) -> None:
    """Which is looked at in every eighth read, or all the time for one that is frozen."""
    below = Path("kubepods", f"pod{UID}", "c1")
    procs(bare.root / "pids" / below, 7)
    assert frozen(bare) == []
    state = bare.root / "freezer" / below / "freezer.state"
    state.parent.mkdir(parents=True)
    state.write_text("FREEZING\n")
    assert not any(frozen(bare) for _ in range(8))
    state.write_text("FROZEN\n")
    assert sum(frozen(bare) == ["c1"] for _ in range(8)) >= 1
    assert frozen(bare) == ["c1"]
    state.write_text("THAWED\n")
    assert frozen(bare) == []
    assert bare.changes() == ["+c1"]


# --- the `pids` hierarchy of version 1 ----------------------------------------


def test_processes_of_nested_cgroups_count(bare: Watched) -> None:
    folder = bare.root / f"pids/kubepods/pod{UID}/c1"
    procs(folder)
    procs(folder / "a" / "b", 7)
    procs(folder / "a")
    assert bare.read() == ["+c1"]
    procs(folder / "a" / "b")
    assert bare.read() == ["-c1"]
    procs(folder, 8)
    assert bare.read() == ["+c1"]


def test_a_new_cgroup_is_read_again_until_it_has_a_process(bare: Watched) -> None:
    """Only folders are notified; the process comes a moment later."""
    pod = bare.root / f"pids/kubepods/pod{UID}"
    pod.mkdir(parents=True)
    assert bare.read() == []
    procs(pod / "c1")
    assert bare.notified() == []
    assert bare.tree.has_fresh
    bare.tree.recheck()
    procs(pod / "c1", 7)
    bare.tree.recheck()
    assert bare.changes() == ["+c1"]
    assert not bare.tree.has_fresh
    shutil.rmtree(pod / "c1")
    assert bare.notified() == ["-c1"]


def test_within_a_pid_namespace_the_count_decides(
    bare: Watched, monkeypatch: pytest.MonkeyPatch
) -> None:
    """The list leaves out what is not in the reader's namespace: nothing seems to run."""
    folder = bare.root / f"pids/kubepods/pod{UID}/c1"
    procs(folder)
    (folder / "pids.current").write_text("3\n")
    assert bare.read() == []
    monkeypatch.setattr(populated, "_INITIAL_PID_NAMESPACE", "pid:[1]")
    with closing(Watched(bare.root)) as seen:
        assert seen.read() == ["+c1"]
        (folder / "pids.current").write_text("0\n")
        assert seen.read() == ["-c1"]


def test_within_one_a_zombie_is_no_process_where_version_2_is_beside(
    bare: Watched, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Nobody reaps it, and it counts; the hierarchy without controllers leaves it out."""
    monkeypatch.setattr(populated, "_INITIAL_PID_NAMESPACE", "pid:[1]")
    below = Path("kubepods", f"pod{UID}", "c1")
    procs(bare.root / "pids" / below)
    (bare.root / "pids" / below / "pids.current").write_text("1\n")
    (bare.root / "unified").mkdir()
    (bare.root / "unified/cgroup.controllers").touch()
    # One that only v1 has.
    assert bare.read() == ["+c1"]
    events(bare.root / "unified" / below, populated=False)
    assert bare.read() == ["-c1"]
    events(bare.root / "unified" / below, populated=True)
    assert bare.read() == ["+c1"]


# --- notifications, between two reads -----------------------------------------


def test_a_life_is_seen_without_a_read(seen: Watched) -> None:
    seen.read()
    seen.files.run("new", "c2")
    seen.tree.notified()
    seen.tree.recheck()
    assert seen.changes() == ["+c2"]
    before = time.time_ns()
    seen.files.empty("new", "c2")
    seen.tree.notified()
    (fact,) = seen.facts
    assert not fact.populated
    assert before <= fact.at_wall_ns <= time.time_ns()
    seen.files.remove("new", "c2")
    seen.changes()
    assert (seen.notified(), seen.read()) == ([], [])


def test_what_was_made_before_the_watch_is_found(seen: Watched) -> None:
    seen.read()
    CgroupFiles(seen.root.with_name("elsewhere")).run("new", "c2")
    seen.root.with_name("elsewhere").rename(seen.root / "more")
    assert seen.notified() == ["+c2"]
    (seen.root / "more").rename(seen.root.with_name("gone"))
    assert seen.notified() == ["-c2"]


# --- the watches that all processes of a uid share ----------------------------


def watches(watched: Watched) -> int:
    """How many the kernel says that it has."""
    return Path(f"/proc/self/fdinfo/{watched.tree.fileno}").read_text().count("inotify wd:")


def test_half_of_the_watches_is_left_to_others(
    bare: Watched, monkeypatch: pytest.MonkeyPatch, tmp_path: Path
) -> None:
    monkeypatch.setattr(inotify, "LIMIT", tmp_path / "max_user_watches")
    for number in range(20):
        bare.files.run(UID, f"c{number}")
    inotify.LIMIT.write_text("16\n")
    bare.read()
    assert watches(bare) == 8
    assert bare.tree.polling == (
        "inotify: half of this user's watches is left to others: raise fs.inotify.max_user_watches"
    )
    # The kernel's default is far more.
    inotify.LIMIT.unlink()
    bare.read()
    assert watches(bare) > 20
    assert bare.tree.polling == ""


# The user has as many watches as there are containers, and more are needed.
USED_UP = """
import sys
from pathlib import Path
from tests.kernel.test_tree import UID, Watched, watches

watched = Watched(Path(sys.argv[1]))
for number in range(20):
    watched.files.run(UID, f"c{number}")
print(*sorted(watched.read())[:1], watches(watched), watched.tree.polling)
Path("/proc/sys/user/max_inotify_watches").write_text("99")
print(*watched.read(), watches(watched), watched.tree.polling)
"""


def test_when_they_are_used_up_the_others_get_ours(tmp_path: Path) -> None:
    """For a minute. A neighbour that restarted got none: the next read took what it had left."""
    limited = 'echo 20 >/proc/sys/user/max_inotify_watches && exec "$@"'
    command = ("unshare", "--map-root-user", "sh", "-c", limited, "sh", sys.executable, "-c")
    argv = [*command, USED_UP, str(tmp_path)]
    done = subprocess.run(argv, capture_output=True, text=True, check=False)
    if "unshare" in done.stderr:
        unavailable(done.stderr)
    note = "inotify: No space left on device: raise fs.inotify.max_user_watches"
    assert (done.stdout, done.stderr) == (f"+c0 0 {note}\n0 {note}\n", "")


# --- what cannot be read is an error, and no change ---------------------------


def test_a_replaced_tree_is_an_error_once(seen: Watched) -> None:
    seen.read()
    seen.root.rename(seen.root.with_name("old"))
    seen.files.run(UID, "c2")
    with pytest.raises(KernelError, match="another tree is there now"):
        seen.read()
    assert seen.changes() == []
    assert seen.read() == ["+c2"]
    assert seen.notified() == []


def test_no_permission_is_an_error(seen: Watched, monkeypatch: pytest.MonkeyPatch) -> None:
    seen.read()

    def denied(_files: populated.ReadV2, folder: str, _last: object) -> None:
        raise PermissionError(errno.EACCES, "Permission denied", folder)

    monkeypatch.setattr(populated.ReadV2, "look", denied)
    seen.files.empty(UID, "c1")
    assert seen.notified() == []
    with pytest.raises(KernelError, match="c1: Permission denied"):
        seen.read()
    assert "c1" not in seen.tree.shown


def test_who_is_logged_in_does_not_burden_the_reader(
    bare: Watched, monkeypatch: pytest.MonkeyPatch
) -> None:
    login = bare.root / "pids/user.slice/user-1000.slice/user@1000.service"
    for number in range(30):
        procs(login / "kubepods/podx" / f"c{number}", 7)
    procs(bare.root / f"pids/kubepods/pod{UID}/c1", 7)
    monkeypatch.setattr(tree, "_MOST_OF_LOGINS", 20)
    for _ in range(16):
        bare.read()
        assert 10 < len({*bare.tree.shown}) <= 20
    monkeypatch.undo()
    monkeypatch.setattr(tree, "_MOST_OF_LOGINS", 10)
    shutil.rmtree(login)
    bare.read()
    procs(login / "kubepods/pody/c2", 7)
    assert [line for _ in range(8) for line in bare.read()] == ["+c2"]


@pytest.mark.parametrize("user", ["user.slice/user-1000.slice/user@1000.service", "x.service"])
@pytest.mark.parametrize("part", ["files", "folders"])
def test_what_a_user_closes_is_as_it_was(
    bare: Watched, monkeypatch: pytest.MonkeyPatch, user: str, part: str
) -> None:
    procs(bare.root / "pids" / user / "kubepods/podx/c1", 7)
    procs(bare.root / f"pids/kubepods/pod{UID}/c2", 7)
    assert sorted(bare.read()) == ["+c1", "+c2"]
    module, name = (populated, "_read") if part == "files" else (os, "scandir")
    opened: Callable[[str], object] = getattr(module, name)

    def closed(path: str) -> object:
        if "podx" in path:
            raise PermissionError(errno.EACCES, "Permission denied", path)
        return opened(path)

    monkeypatch.setattr(module, name, closed)
    procs(bare.root / f"pids/kubepods/pod{UID}/c2")
    assert bare.read() == ["-c2"]
    assert not any(bare.read() for _ in range(8))


def test_a_name_is_no_command_to_a_terminal(tmp_path: Path) -> None:
    (tmp_path / "\x1b[2J").mkdir()
    with closing(Watched(tmp_path / "\x1b[2J")) as watched, pytest.raises(KernelError) as error:
        watched.read()
    assert str(error.value).isprintable()


def test_what_vanishes_under_a_read_ends(seen: Watched) -> None:
    seen.files.run("other", "c2")
    seen.read()
    steps = seen.tree.read()
    next(steps)
    seen.files.remove(UID, "c1")
    seen.files.remove("other", "c2")
    seen.tree.notified()
    seen.files.run(UID, "c1")
    list(steps)
    seen.read()
    assert "c1" in seen.tree.shown
    seen.files.remove(UID, "c1")
    seen.read()
    assert "c1" not in seen.tree.shown


ID = "0123456789abcdef" * 4
SLICE = f"pod{UID.replace('-', '_')}.slice"
# What folders of these names are, in no pod's folder.
OUTSIDE = {
    Place("", ""): "kubepods burstable kubepods.slice k8s.io system.slice user.slice mine"
    " machine-libpod_pod_1.slice",
    Place("", UID): f"pod{UID} kubepods-{SLICE} kubepods-burstable-{SLICE}"
    f" kubelet-kubepods-besteffort-{SLICE}",
    # A static pod's uid is the hash of its configuration.
    Place("", ID[:32]): f"pod{ID[:32]}",
    # The kubelet's systemd driver, and a runtime that takes its names for a path.
    Place(ID, UID): f"kubepods-{SLICE}:cri-containerd:{ID} kubepods-burstable-{SLICE}:crio:{ID}"
    f" kubelet-kubepods-besteffort-{SLICE}:docker:{ID}",
    Place(ID, ""): f"system.slice:docker:{ID}",
    # Without a kubelet, and other clients of the runtime.
    Place(ID, "", may_hold=True): f"{ID} cri-containerd-{ID}.scope",
    # Services and logins.
    Place("", "", may_hold=True): "containerd.service docker-registry.service init.scope"
    f" libpod-{ID}.scope",
    None: "dev-hugepages.mount",
}
IN_A_POD = {
    Place(ID, UID): f"{ID} crio-{ID} cri-containerd-{ID}.scope crio-{ID}.scope docker-{ID}.scope",
    Place(ID, UID, beside=True): f"crio-conmon-{ID} crio-conmon-{ID}.scope",
    Place("my_ctr.v2", UID): "crio-my_ctr.v2.scope",
    Place("21sa65q9wwiq", UID): "21sa65q9wwiq",
    # What others put below a pod.
    None: f"system.slice kata_{ID}",
}


@pytest.mark.parametrize(
    ("name", "pod_uid", "place"),
    [
        (name, uid, place)
        for uid, folders in (("", OUTSIDE), (UID, IN_A_POD))
        for place, names in folders.items()
        for name in names.split()
    ],
)
def test_a_folders_name_tells_what_it_is(name: str, pod_uid: str, place: Place | None) -> None:
    assert place_of(name, pod_uid) == place
