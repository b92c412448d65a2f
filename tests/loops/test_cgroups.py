"""What the kernel shows, beside the relists: when it counts, and in which order."""

import errno
import os
import time
from dataclasses import replace
from pathlib import Path
from typing import Any

import pytest
from structlog.testing import capture_logs

from exporter.kernel import inotify
from exporter.model.facts import (
    CgroupChanged,
    CgroupsLost,
    CgroupsRead,
    Killed,
    KillsCounted,
    Relist,
)
from exporter.model.findings import Finding, Verdict
from exporter.model.labels import KernelWitness, OomKill, OomWitness
from simulator.runtime import CgroupFiles
from testbed.waiting import until
from tests.support.observer import observing
from tests.support.runtimes import ScriptedServer, running_container
from tests.support.tape import Tape

pytestmark = pytest.mark.virtual_time


def running(server: ScriptedServer, root: Path) -> tuple[CgroupFiles, Tape, str]:
    """A running container, and the tree of cgroups in which it has one."""
    _, app = running_container(server)
    files = CgroupFiles(root)
    files.run("uid", app)
    return files, Tape(), app


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
    _, tape, app = running(server, tmp_path)
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
        assert "none of the listed containers" in watch.node.kernel.note
        assert not any(isinstance(each, CgroupsRead) for each in tape.facts)
        files.run("uid", app)
        await watch.reaches(KernelWitness.WATCHING)
        assert sorted(changes(tape)) == sorted([f"+{app}", "+other"])
        files.remove("uid", app)
        await watch.relisted()
        await watch.reaches(KernelWitness.WATCHING)


async def test_an_empty_node_is_watched_until_another_tree_turns_out_to_be_its_own(
    server: ScriptedServer, tmp_path: Path
) -> None:
    files, tape = CgroupFiles(tmp_path), Tape()
    files.run("uid", "other")
    async with observing(server.socket, tape, cgroup_root=tmp_path) as watch:
        await watch.reaches(KernelWitness.WATCHING)
        running_container(server)
        await watch.reaches(KernelWitness.UNAVAILABLE)
        assert changes(tape) == ["+other", "lost"]


@pytest.mark.parametrize("ends", [False, True])
async def test_a_container_without_a_list_while_it_ran_proves_the_tree_too(
    server: ScriptedServer, tmp_path: Path, ends: bool
) -> None:
    """A killed shim leaves a sandbox listed as ready, and the other container a stray or dead."""
    files, tape = CgroupFiles(tmp_path), Tape()
    async with observing(server.socket, tape, cgroup_root=tmp_path) as watch:
        await watch.reaches(KernelWitness.WATCHING)
        _, app = running_container(server)
        server.runtime.exit(app)
        files.run("uid", app)
        await until(lambda: changes(tape) == [f"+{app}"], "it runs")
        if ends:
            files.remove("uid", app)
        await watch.relisted()
        await watch.relisted()
        assert changes(tape) == [f"+{app}", f"-{app}"][: 1 + ends]


async def test_a_lost_tree_is_a_fact_and_its_return_begins_again(
    server: ScriptedServer, tmp_path: Path
) -> None:
    root = tmp_path / "cgroup"
    files, tape, app = running(server, root)
    async with observing(server.socket, tape, cgroup_root=root) as watch:
        await watch.reaches(OomWitness.COUNTING)
        await watch.reaches(KernelWitness.WATCHING)
        root.rename(tmp_path / "away")
        await watch.reaches(OomWitness.UNAVAILABLE)
        await watch.reaches(KernelWitness.UNAVAILABLE)
        assert changes(tape) == [f"+{app}", "lost"]
        assert not watch.not_ready
        (tmp_path / "away").rename(root)
        pod_counts(files, app, 3)
        await watch.reaches(OomWitness.COUNTING)
        await watch.relisted()
        assert changes(tape) == [f"+{app}", "lost", f"+{app}"]
    counts = [each.number for each in tape.facts if isinstance(each, KillsCounted)]
    assert counts == [0, None, 0]
    assert not any(isinstance(each, Killed) for each in tape.facts)


def reads(tape: Tape) -> list[CgroupsRead]:
    return [each for each in tape.facts if isinstance(each, CgroupsRead)]


async def test_each_read_says_who_provably_has_no_process_and_who_is_frozen(
    server: ScriptedServer, tmp_path: Path
) -> None:
    """Not before its handler's containers have shown that they have cgroups of their own."""
    files, tape, app = running(server, tmp_path)
    pod, dead = running_container(server, "web-1")
    files.run("u1", pod)
    async with observing(server.socket, tape, cgroup_root=tmp_path) as watch:
        await watch.relisted(time.monotonic() + 3)
        assert reads(tape)[0] == replace(reads(tape)[0], dead=(), frozen=())
        assert reads(tape)[-1].dead == (dead,)
        for each in (app, pod):
            files.folder("uid" if each == app else "u1", each).joinpath("cgroup.events").write_text(
                f"populated {each == pod:d}\nfrozen 1\n"
            )
        await watch.relisted()
        await watch.relisted()
        assert reads(tape)[-1].dead == (dead,)
        assert reads(tape)[-1].frozen == ()
        files.folder("u1", dead).mkdir()
        files.folder("u1", dead).joinpath("cgroup.events").write_text("populated 1\nfrozen 1\n")
        await watch.relisted()
        await watch.relisted()
        assert (reads(tape)[-1].dead, reads(tape)[-1].frozen) == ((app,), (dead,))


@pytest.mark.parametrize(("limit", "part"), [("watches", "add"), ("instances", "__init__")])
async def test_a_kernel_that_notifies_nothing_is_polled_until_it_does(
    server: ScriptedServer, tmp_path: Path, monkeypatch: pytest.MonkeyPatch, limit: str, part: str
) -> None:
    """The user's limit of watches or of instances is reached: the note says which to raise."""

    def none_left(*_: object) -> None:
        number = errno.ENOSPC if part == "add" else errno.EMFILE
        raise OSError(number, os.strerror(number))

    files, tape, app = running(server, tmp_path)
    with monkeypatch.context() as limits, capture_logs() as logs:
        limits.setattr(inotify.Inotify, part, none_left)
        settings: dict[str, Any] = {"cgroup_root": tmp_path, "relist_period": 20.0}
        async with observing(server.socket, tape, **settings) as watch:
            await watch.reaches(KernelWitness.POLLING)
            assert f"raise fs.inotify.max_user_{limit}" in watch.node.kernel.note
            files.empty("uid", app)
            await watch.relisted()
            await watch.relisted()
            assert changes(tape) == [f"+{app}", f"-{app}"]
            limits.undo()
            await watch.reaches(KernelWitness.WATCHING)
            began = time.monotonic()
            files.run("uid", app)
            await until(lambda: changes(tape)[2:] == [f"+{app}"], "it is notified")
            assert time.monotonic() < began + 1
    warned = [each["event"] for each in logs if each["log_level"] == "warning"]
    assert [each for each in warned if each.startswith("kernel")] == ["kernel witness polling"]


def pod_counts(files: CgroupFiles, app: str, kills: int) -> None:
    events = files.folder("uid", app).parent / "memory.events"
    events.write_text(f"oom {kills}\noom_kill {kills}\n")


def of_pods(tape: Tape) -> list[Finding]:
    """What was found of kills, without this machine's own."""
    found = (each for each in tape.findings if each.verdict is Verdict.OOM)
    return [each for each in found if each.cause is not OomKill.UNATTRIBUTED]


async def test_the_pods_count_names_a_kill_though_the_container_is_gone(
    server: ScriptedServer, tmp_path: Path
) -> None:
    """What was there when the exporter began is no news; nor is anything once it is forgotten."""
    files, tape, app = running(server, tmp_path)
    files.run("uid", "sandbox")
    pod_counts(files, app, 3)
    async with observing(server.socket, tape, cgroup_root=tmp_path) as watch:
        await watch.reaches(OomWitness.COUNTING)
        pod_counts(files, app, 4)
        files.remove("uid", app)
        server.runtime.exit(app)
        await until(lambda: bool(of_pods(tape)), "judged")
        seen = await watch.metrics()
        await watch.relisted()
    (found,) = of_pods(tape)
    assert found.container_id == app
    assert isinstance(found.cause, OomKill)
    assert seen.value("shadow_pleg_oom_kills_total", kind=found.cause.value) == 1
    kills = [each for each in tape.facts if isinstance(each, Killed)]
    assert [(each.container_id, each.pod_uid, each.number) for each in kills] == [("", "uid", 1)]
