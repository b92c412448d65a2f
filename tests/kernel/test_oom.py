"""OOM kills by the files of both versions: what is news, whose limit, and what cannot be read."""

from collections.abc import Iterator, Mapping
from contextlib import closing
from operator import itemgetter
from pathlib import Path
from typing import Final

import pytest

from exporter.kernel.oom import Kills
from exporter.kernel.tree import Tree
from exporter.model.facts import Killed, KillsCounted
from exporter.model.labels import Limit, OomWitness
from tests import table

pytestmark = pytest.mark.quick

UID: Final = "7c0d8f2a-1111-2222-3333-444455556666"
POD: Final = f"kubepods/pod{UID}"
SLICE: Final = f"kubepods-pod{UID.replace('-', '_')}.slice"
OOM: Final = {"oom": 1, "oom_kill": 1}
# Of a kill: whose, how many, of how many processes, and at whose limit.
KillOf = tuple[str, int, int, Limit]


def numbers(path: Path, **counts: int) -> None:
    """Write them as the kernel does: by name, one a line."""
    path.parent.mkdir(parents=True, exist_ok=True)
    # As of Linux 7.2, in which there is more than 64 bytes of it.
    names = ("low", "high", "max", "oom", "oom_kill", "oom_group_kill", "sock_throttled")
    whole = dict.fromkeys(names, 0) | counts if path.name.startswith("memory.events") else counts
    path.write_text("".join(f"{name} {number}\n" for name, number in whole.items()))


class Machine:
    """A node's files, and what is read of them."""

    def __init__(self, root: Path, version: int = 2) -> None:
        self.version, self.vmstat = version, root / "vmstat"
        self.root = root / "cgroup"
        self.facts: list[Killed | KillsCounted] = []
        self.top = self.root if version == 2 else self.root / "pids"
        self.top.mkdir(parents=True)
        if version == 2:
            (self.root / "cgroup.controllers").write_text("cpu memory pids\n")
        else:
            (self.root / "memory").mkdir()
        self.total = 7
        self.node(0)
        self.tree = Tree(str(self.root), lambda _: None)
        self.kills = Kills(self.tree, str(self.root), self.facts.append, str(self.vmstat))
        self.tree.ended = self.kills.ended

    def node(self, more: int) -> None:
        """So many more processes were killed on it."""
        self.total += more
        numbers(self.vmstat, nr_free_pages=1, oom_kill=self.total, oom_other=0)

    def container(self, name: str, /, folder: str = POD, **counts: int) -> None:
        """One that runs, and what its own cgroup counts."""
        path = self.top / folder / name
        path.mkdir(parents=True, exist_ok=True)
        (path / "cgroup.procs").write_text("7\n")
        (path / "cgroup.events").write_text("populated 1\nfrozen 0\n")
        if self.version == 2:
            numbers(path / "memory.events", **counts)
        else:
            memory = self.root / "memory" / folder / name / "memory.oom_control"
            numbers(memory, oom_kill_disable=0, under_oom=0, oom_kill=counts.get("oom_kill", 0))

    def pod(self, own: Mapping[str, int] | None = None, /, **counts: int) -> None:
        """What its pod counts, and of that at its own limit."""
        numbers(self.top / POD / "memory.events", **counts)
        numbers(self.top / POD / "memory.events.local", **(own or {}))

    def end(self, name: str, *, gone: bool = False, folder: str = POD) -> None:
        """Its last process ends; `gone`: so does its folder, before anything is read."""
        path = self.top / folder / name
        for each in ("cgroup.procs", "cgroup.events"):
            (path / each).write_text("" if each == "cgroup.procs" else "populated 0\nfrozen 0\n")
        if gone:
            for file in path.iterdir():
                file.unlink()
            path.rmdir()

    def read(self) -> list[Killed | KillsCounted]:
        """What a relist learns."""
        for _ in self.tree.read():
            pass
        for _ in self.kills.read():
            pass
        facts, self.facts[:] = list(self.facts), []
        return facts

    @property
    def killed(self) -> list[KillOf]:
        """The kills that the next relist tells."""
        kills = [each for each in self.read() if isinstance(each, Killed)]
        assert all(each.pod_uid == UID for each in kills)
        return [(it.container_id, it.number, it.processes, it.limit) for it in kills]


@pytest.fixture
def node(tmp_path: Path) -> Iterator[Machine]:
    """One with cgroup v2 and a pod of two containers, read once."""
    machine = Machine(tmp_path)
    machine.pod()
    machine.container("c1")
    machine.container("c2")
    with closing(machine.tree):
        machine.read()
        yield machine


def test_what_was_there_is_no_news(tmp_path: Path) -> None:
    """Of the node, a pod, and a container; the first count says 0."""
    machine = Machine(tmp_path)
    machine.pod({"oom": 3}, oom=3, oom_kill=3)
    machine.container("c1", oom_kill=2)
    with closing(machine.tree):
        (first,) = machine.read()
        assert isinstance(first, KillsCounted)
        assert first.number == 0
        assert machine.kills.witness is OomWitness.COUNTING
        machine.node(1)
        machine.pod({"oom": 3}, oom=3, oom_kill=4)
        machine.container("c1", oom_kill=3)
        assert machine.killed == [("c1", 1, 1, Limit.ABOVE)]


CASES: Final = table(__file__, "kills.yaml")


@pytest.mark.parametrize("case", CASES)
def test_whose_limit_it_was_and_whose_process(node: Machine, case: str) -> None:
    """Each kill once; the pod's count keeps it, when the container's folder is gone."""
    counted = CASES[case]
    node.node(counted["pod"]["oom_kill"])
    node.pod(counted.get("at_its_own_limit"), **counted["pod"])
    for name, counts in counted.get("containers", {}).items():
        node.container(name, POD, **counts)
    if "gone" in counted:
        node.end(counted["gone"], gone=True)
    told = [(*kill, Limit[limit]) for *kill, limit in counted["told"]]
    assert sorted(node.killed, key=itemgetter(0)) == told
    assert node.read() == []


def test_a_count_that_its_pod_does_not_have_yet_is_passed_on_once(node: Machine) -> None:
    """The kernel counts upwards, and the pod is read first."""
    node.node(2)
    node.pod(oom=1, oom_kill=1)
    node.container("c1", oom=2, oom_kill=2)
    assert node.killed == [("c1", 2, 2, Limit.CONTAINER)]
    node.node(0)
    node.pod(oom=2, oom_kill=2)
    node.end("c1")
    assert node.killed == []


def test_a_lower_count_is_another_cgroup_and_one_that_is_gone_is_forgotten(node: Machine) -> None:
    """Not one that has no process for a moment: its count stays."""

    def more(kills: int) -> list[KillOf]:
        node.node(1)
        node.pod(oom_kill=kills)
        return node.killed

    assert more(5) == [("", 5, 5, Limit.ABOVE)]
    assert more(2) == [("", 2, 2, Limit.ABOVE)]
    for each in ("c1", "c2"):
        node.end(each, gone=True)
    assert more(2) == []
    node.container("c3")
    assert more(2) == []
    node.end("c3", gone=True)
    for file in (node.top / POD).iterdir():
        file.unlink()
    (node.top / POD).rmdir()
    node.node(1)
    node.read()
    node.container("c4")
    assert more(2) == [("", 2, 2, Limit.ABOVE)]
    assert more(0) == []


@pytest.mark.parametrize(
    ("folder", "name", "container_id", "uid"),
    [
        # As of a runtime's other clients.
        ("k8s.io", "ab" * 32, "ab" * 32, ""),
        # https://github.com/kubernetes/kubernetes/issues/106514: the drivers differ.
        ("system.slice", f"{SLICE}:cri-containerd:c1", "c1", UID),
    ],
)
def test_outside_of_a_pods_folder_a_container_counts_by_itself(
    tmp_path: Path, folder: str, name: str, container_id: str, uid: str
) -> None:
    """When it ends, and beside a relist; the node's count is of all since the first read."""
    machine = Machine(tmp_path)
    machine.container(name, folder)
    with closing(machine.tree):
        machine.read()
        machine.container(name, folder, oom_kill=1)
        machine.node(1)
        above, _ = machine.read()
        machine.container(name, folder, oom=1, oom_kill=2)
        machine.end(name, folder=folder)
        (own,) = machine.read()
        machine.node(1)
        assert [each.number for each in machine.read()] == [2]
    for each, limit in ((above, Limit.ABOVE), (own, Limit.CONTAINER)):
        assert each == Killed(each.at, container_id, uid, 1, 1, limit)


@pytest.mark.parametrize("end", [False, True])
def test_v1_has_a_containers_own_count_only(tmp_path: Path, *, end: bool) -> None:
    """Beside the hierarchy of processes; whose limit it was is not told."""
    machine = Machine(tmp_path, version=1)
    machine.container("c1", oom_kill=1)
    with closing(machine.tree):
        machine.read()
        assert machine.kills.witness is OomWitness.PARTLY
        machine.container("c1", oom_kill=3)
        machine.node(2)
        if end:
            machine.end("c1")
        assert machine.killed == [("c1", 2, 2, Limit.UNKNOWN)]


@pytest.mark.parametrize(
    ("version", "file", "content", "note"),
    [
        (1, "cgroup/memory", None, "no memory hierarchy"),
        (2, "cgroup/cgroup.controllers", "cpu pids\n", "no memory.events"),
        (2, "vmstat", "nr_free_pages 1\n", "vmstat: it has no oom_kill"),
    ],
)
def test_a_node_that_counts_none_is_a_state(
    tmp_path: Path, version: int, file: str, content: str | None, note: str
) -> None:
    """Nothing is claimed, at no end either; and a count that comes later begins then."""
    machine = Machine(tmp_path, version)
    if version == 1:
        machine.container("c1")
    path, away = tmp_path / file, tmp_path / "away"
    path.rename(away)
    if content:
        path.write_text(content)
    with closing(machine.tree):
        for _ in range(2):
            assert machine.read() == []
            assert machine.kills.witness is OomWitness.UNAVAILABLE
            assert note in machine.kills.note
            if version == 1:
                machine.end("c1")
        away.replace(path)
        assert [each.number for each in machine.read() if isinstance(each, KillsCounted)] == [0]
        assert machine.kills.witness is (OomWitness.PARTLY, OomWitness.COUNTING)[version - 1]
        assert machine.kills.note == ""


@pytest.mark.parametrize("at", ["relist", "end", "limit"])
def test_what_cannot_be_read_any_more_is_said_once(node: Machine, at: str) -> None:
    """A loop in place of the file is refused to root, too."""
    files = {"relist": "memory.events", "end": "memory.events", "limit": "memory.events.local"}
    file = node.top / POD / files[at]
    node.pod(**OOM)
    file.unlink()
    file.symlink_to(file)
    if at == "end":
        node.end("c1")
    else:
        node.node(1)
    facts = node.read()
    lost = [each for each in facts if isinstance(each, KillsCounted)]
    assert [each.number for each in lost] == [None]
    assert node.kills.witness is OomWitness.UNAVAILABLE
    assert str(file) in node.kills.note
    node.kills.forget()
    assert node.facts == []


def test_an_old_kernel_does_not_say_what_happened_at_a_pods_own_limit(node: Machine) -> None:
    (node.top / POD / "memory.events.local").unlink()
    numbers(node.top / POD / "memory.events", oom_kill=1)
    node.node(1)
    assert node.killed == [("", 1, 1, Limit.ABOVE)]


@pytest.mark.parametrize("version", [1, 2])
def test_a_dead_containers_own_count_is_known_as_long_as_its_cgroup(
    tmp_path: Path, version: int
) -> None:
    """However old it is: what was there at the first read is no news, and still so."""
    machine = Machine(tmp_path, version)
    machine.pod(oom_kill=1)
    for name, kills in (("c1", 1), ("c2", 0), ("c3", 1)):
        machine.container(name, oom_kill=kills)
        machine.end(name)
    with closing(machine.tree):
        machine.read()
        assert machine.kills.among(["c1", "c2", "c4"]) == ("c1",)
        (machine.top / POD / "c1/memory.events").unlink(missing_ok=True)
        (machine.root / "memory" / POD / "c1/memory.oom_control").unlink(missing_ok=True)
        assert machine.kills.among(["c1"]) == ()


def test_many_pods_are_read_in_steps(node: Machine) -> None:
    """The event loop has other work meanwhile."""
    for number in range(20):
        uid = f"{number:08}-1111-2222-3333-444455556666"
        node.container(f"d{number}", f"kubepods/pod{uid}")
    node.read()
    node.node(1)
    assert len(list(node.kills.read())) == 1
