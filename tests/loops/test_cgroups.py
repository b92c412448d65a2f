"""What the kernel shows, beside the relists: when it counts, and in which order."""

from pathlib import Path

import pytest

from exporter.model.facts import CgroupChanged, CgroupsLost, CgroupsRead, Relist
from exporter.model.labels import KernelWitness
from simulator.cgroups import CgroupFiles
from tests.support.observer import observing
from tests.support.runtimes import running_container
from tests.support.scripted_runtime import ScriptedServer
from tests.support.tape import Tape

pytestmark = pytest.mark.virtual_time


def changes(tape: Tape) -> list[str]:
    """`+` and `-` with ids, and `lost`, in order."""
    return [
        "lost" if isinstance(each, CgroupsLost) else "-+"[each.populated] + each.container_id
        for each in tape.facts
        if isinstance(each, CgroupChanged | CgroupsLost)
    ]


async def test_a_complete_read_comes_right_before_each_relist(
    server: ScriptedServer, tmp_path: Path
) -> None:
    """It begins when the lists were requested or later; what it showed comes before."""
    _, app = running_container(server)
    files, tape = CgroupFiles(tmp_path), Tape()
    files.run("uid", app)
    async with observing(server.socket, tape, cgroup_root=tmp_path) as watch:
        await watch.relisted()
        await watch.relisted()
    kinds = CgroupChanged | CgroupsRead | Relist
    first, *others = [each for each in tape.facts if isinstance(each, kinds)]
    assert isinstance(first, CgroupChanged)
    assert (first.container_id, first.pod_uid, first.populated) == (app, "uid", True)
    assert len(others) >= 4
    for read, listed in zip(others[::2], others[1::2], strict=True):
        assert isinstance(read, CgroupsRead)
        assert isinstance(listed, Relist)
        assert listed.requested <= read.requested


async def test_the_kernel_counts_from_the_moment_it_shows_a_listed_container(
    server: ScriptedServer, tmp_path: Path
) -> None:
    """Cgroups of others say nothing; later all populated ones are passed on at once."""
    _, app = running_container(server)
    files, tape = CgroupFiles(tmp_path), Tape()
    files.run("uid", "other")
    async with observing(server.socket, tape, cgroup_root=tmp_path) as watch:
        await watch.relisted()
        await watch.reaches(KernelWitness.UNAVAILABLE)
        assert "none of the listed containers" in watch.node.kernel_note
        assert not any(isinstance(each, CgroupsRead) for each in tape.facts)
        files.run("uid", app)
        await watch.reaches(KernelWitness.WATCHING)
        assert sorted(changes(tape)) == sorted([f"+{app}", "+other"])
        # It stays: that the last one ended is what it is there to say.
        files.remove("uid", app)
        await watch.relisted()
        await watch.reaches(KernelWitness.WATCHING)


async def test_an_empty_node_is_watched_until_another_tree_turns_out_to_be_its_own(
    server: ScriptedServer, tmp_path: Path
) -> None:
    """Nothing speaks against the tree while nothing is listed as running."""
    files, tape = CgroupFiles(tmp_path), Tape()
    files.run("uid", "other")
    async with observing(server.socket, tape, cgroup_root=tmp_path) as watch:
        await watch.reaches(KernelWitness.WATCHING)
        running_container(server)
        await watch.reaches(KernelWitness.UNAVAILABLE)
        assert changes(tape) == ["+other", "lost"]


async def test_a_lost_tree_is_a_fact_and_its_return_begins_again(
    server: ScriptedServer, tmp_path: Path
) -> None:
    """Nothing is said of what cannot be read any more."""
    _, app = running_container(server)
    root, tape = tmp_path / "cgroup", Tape()
    CgroupFiles(root).run("uid", app)
    async with observing(server.socket, tape, cgroup_root=root) as watch:
        await watch.reaches(KernelWitness.WATCHING)
        root.rename(tmp_path / "away")
        await watch.reaches(KernelWitness.UNAVAILABLE)
        assert changes(tape) == [f"+{app}", "lost"]
        assert not watch.not_ready
        (tmp_path / "away").rename(root)
        await watch.reaches(KernelWitness.WATCHING)
        assert changes(tape) == [f"+{app}", "lost", f"+{app}"]
