"""What the kernel shows of real containers, beside what containerd says; how late, and why."""

import asyncio
import fnmatch
import itertools
import os
import signal
import time
from collections.abc import Callable, Sequence
from contextlib import AbstractAsyncContextManager
from functools import partial
from operator import attrgetter
from pathlib import Path
from typing import Any

import grpc.aio
import pytest

from exporter.commands.check import examine
from exporter.cri import runtime_v1_pb2 as pb
from exporter.kernel import populated
from exporter.model.events import Announcement, EventType, ListedState
from exporter.model.facts import CgroupChanged, CgroupsLost, CgroupsRead, Relist, learnt
from exporter.model.findings import Verdict
from exporter.pleg.kernel import LASTING
from exporter.runtimes.permission import EventStream
from exporter.settings.config import Watch
from testbed.churn import frozen
from testbed.containerd import Containerd
from testbed.pods import CANNOT_START
from testbed.waiting import until
from tests.support.observer import Metrics, Observer, observing
from tests.support.real_lives import begin, finish, has_exited
from tests.support.tape import Tape

pytestmark = pytest.mark.usefixtures("sound_log")

EXITS = ("/bin/true",)
PATIENCE = 60


def ghosts(seen: Metrics) -> float:
    return seen.value("shadow_pleg_active_contradictions", kind="ghost")


def strays(seen: Metrics) -> float:
    return seen.value("shadow_pleg_active_contradictions", kind="stray")


class Changes(Tape):
    """Listens to the changes of cgroups. Other tests' containers are among them."""

    @property
    def lost(self) -> bool:
        return any(isinstance(each, CgroupsLost) for each in self.facts)

    @property
    def accused(self) -> set[str]:
        wanted = (Verdict.GHOST, Verdict.STRAY)
        return {each.container_id for each in self.findings if each.verdict in wanted}

    @property
    def last_read(self) -> CgroupsRead:
        return [CgroupsRead(0), *(it for it in self.facts if isinstance(it, CgroupsRead))][-1]

    def lasts(self, container: str) -> bool:
        of_it = (it for it in self.facts if isinstance(it, CgroupChanged))
        since = min(it.at for it in of_it if it.container_id == container)
        return self.last_read.requested > since + LASTING

    @property
    def stood(self) -> set[tuple[Verdict, str]]:
        wanted = (Verdict.GHOST, Verdict.FROZEN)
        return {(it.verdict, it.container_id) for it in self.findings if it.verdict in wanted}

    def of(self, container: str) -> str:
        """What it reported: `+` for processes that begin, `-` for the last that ends."""
        changes = (each for each in self.facts if isinstance(each, CgroupChanged))
        return "".join("-+"[it.populated] for it in changes if it.container_id == container)

    def are(self, wanted: str, of: Sequence[str]) -> Callable[[], bool]:
        return lambda: all(self.of(each) == wanted for each in of)


def watching(
    containerd: Containerd, changes: Changes, grace: float = 0.3
) -> AbstractAsyncContextManager[Observer]:
    """An exporter without a stream, so that all versions are alike."""
    return observing(
        containerd.socket,
        changes,
        event_stream=EventStream.NEVER,
        cgroup_root=containerd.cgroups,
        missed_grace=grace,
    )


async def test_a_process_that_ended_behind_a_frozen_shim_leaves_a_ghost(
    containerd_on_cgroups: Containerd,
) -> None:
    """The runtime says RUNNING for as long as the shim reports nothing."""
    containerd = containerd_on_cgroups
    changes = Changes()
    async with containerd.pods() as cri, watching(containerd, changes) as exporter:
        sandbox, (app,) = await begin(cri, "web")
        await until(changes.are("+", of=[app, sandbox.id]), "both run")
        await until(lambda: changes.lasts(app), "it lasts")
        with frozen(containerd.shim_of(app)):
            os.kill(containerd.init_of(app), signal.SIGKILL)
            await until(changes.are("+-", of=[app]), "its process is gone")
            seen = await exporter.shows(lambda now: ghosts(now) == 1, "it is found")
            assert (await cri.containers())[app] == pb.CONTAINER_RUNNING
            assert seen.value("shadow_pleg_contradictions_total", kind="ghost") == 1
        assert changes.of(sandbox.id) == "+"
        await until(lambda: has_exited(cri, app), "containerd says that it exited", seconds=30)
        await finish(cri, sandbox, [app])
        await until(changes.are("+-", of=[app, sandbox.id]), "nothing runs")
        await exporter.shows(lambda now: ghosts(now) == 0, "it is none any more")
        assert app in changes.accused


async def test_a_killed_shim_may_leave_a_stray(containerd_on_cgroups: Containerd) -> None:
    """Containerd 2 says EXITED and lets it run on, also once it is removed; older ones end it."""
    containerd = containerd_on_cgroups
    changes = Changes()
    async with containerd.pods() as cri, watching(containerd, changes) as exporter:
        sandbox, (app,) = await begin(cri, "web")
        await until(changes.are("+", of=[app, sandbox.id]), "both run")
        first = containerd.init_of(app)
        os.kill(containerd.shim_of(app), signal.SIGKILL)
        await until(changes.are("+-", of=[sandbox.id]), "the sandbox is gone")
        await until(lambda: has_exited(cri, app), "containerd says that it exited", seconds=30)
        await exporter.settled()
        runs_on = containerd.version == "2.1"
        assert changes.of(app) == ("+" if runs_on else "+-")
        await exporter.shows(lambda now: strays(now) == runs_on, "it is found if it runs")
        await cri.remove(app)
        await exporter.settled()
        seen = await exporter.metrics()
        found = seen.value("shadow_pleg_contradictions_total", kind="stray")
        assert strays(seen) == found == runs_on
        if runs_on:
            # The first process of its namespace, without a handler.
            os.kill(first, signal.SIGTERM)
            await exporter.settled()
            assert strays(await exporter.metrics()) == 1
            os.kill(first, signal.SIGKILL)
            await exporter.shows(lambda now: strays(now) == 0, "it has ended")
        await finish(cri, sandbox, [])


async def test_a_restart_ends_a_ghost_and_what_else_its_frozen_shim_had(
    containerd_on_cgroups: Containerd,
) -> None:
    """Where the shim alone is killed, the other container becomes a stray."""
    containerd = containerd_on_cgroups
    changes = Changes()
    async with containerd.pods() as cri, watching(containerd, changes) as exporter:
        other, (kept,) = await begin(cri, "other")
        sandbox, apps = await begin(cri, "web", containers=2)
        await until(changes.are("+", of=[*apps, kept, sandbox.id]), "all run")
        with frozen(containerd.shim_of(apps[0])):
            os.kill(containerd.init_of(apps[0]), signal.SIGKILL)
            await exporter.shows(lambda now: ghosts(now) == 1, "it is found")
            await containerd.restart()
            await until(changes.are("+-", of=[*apps, sandbox.id]), "nothing of it runs", seconds=60)
        await exporter.shows(lambda now: ghosts(now) == 0, "it is none any more")
        await exporter.settled()
        assert strays(await exporter.metrics()) == 0
        assert changes.of(kept) == "+"
        await finish(cri, sandbox, apps)
        await finish(cri, other, [kept])


@pytest.mark.parametrize(
    ("workers", "seconds", "grace"),
    [
        (3, 0, 0.3),
        # A busy runtime notes an exit many seconds late: a ghost for as long, and no wrong verdict.
        pytest.param(4, 600, 30, marks=[pytest.mark.soak, pytest.mark.timeout(1200)]),
    ],
    ids=["once", "ten minutes"],
)
async def test_lives_under_churn_are_whole_and_lead_to_no_accusation(
    containerd_on_cgroups: Containerd, workers: int, seconds: float, grace: float
) -> None:
    containerd, changes, numbers = containerd_on_cgroups, Changes(), itertools.count()
    ids, starts = list[str](), list[str]()
    async with containerd.pods() as cri, watching(containerd, changes, grace) as exporter:
        keeper, (kept,) = await begin(cri, "keeper")
        await until(changes.are("+", of=[keeper.id, kept]), "it is watched")
        over = time.monotonic() + seconds

        async def lives() -> None:
            while True:
                sandbox, apps = await begin(cri, f"job-{next(numbers)}", containers=2)
                ids.extend([sandbox.id, *apps])
                starts.append(short := await cri.create(sandbox, "short", EXITS))
                await cri.start(short)
                starts.append(broken := await cri.create(sandbox, "broken", CANNOT_START))
                with pytest.raises(grpc.aio.AioRpcError, match="no such file"):
                    await cri.start(broken)
                os.kill(containerd.init_of(apps[0]), signal.SIGKILL)
                await until(partial(has_exited, cri, apps[0]), "it is listed as exited", seconds=60)
                await finish(cri, sandbox, apps)
                if time.monotonic() >= over:
                    break

        await asyncio.gather(*(lives() for _ in range(workers)))
        await until(changes.are("+-", of=ids[-9:]), "all have begun and ended")
        await exporter.settled()
        assert all(changes.of(each) in ("", "+-") for each in starts[-6:])
        assert changes.of(kept) == changes.of(keeper.id) == "+"
        assert not changes.lost
        assert (changes.last_read.dead, changes.last_read.frozen) == ((), ())
        # A runtime that is late for longer than a short grace has a ghost for a moment.
        assert not changes.accused & ({keeper.id, kept} if seconds == 0 else changes.accused)
        seen = await exporter.metrics()
        assert ghosts(seen) == strays(seen) == 0
        await finish(cri, keeper, [kept])


def made(hierarchy: Path, *names: str) -> Path:
    """A cgroup below others, with the processors and the memory of its parents."""
    for name in names:
        parent, hierarchy = hierarchy, hierarchy / name
        hierarchy.mkdir(exist_ok=True)
        for given in ("cpuset.cpus", "cpuset.mems"):
            if (parent / given).exists():
                (hierarchy / given).write_text((parent / given).read_text())
    return hierarchy


async def test_a_runtime_with_another_driver_than_the_kubelet_hides_nothing(
    containerd_on_cgroups: Containerd,
) -> None:
    """It takes the kubelet's slice for a path, below its own cgroup; on v2, beside that."""
    containerd, changes = containerd_on_cgroups, Changes()
    for each in containerd.hierarchies():
        service = made(each, containerd.home.name, "containerd.service")
        (service / "cgroup.procs").write_text(str(containerd.pid))
    async with containerd.pods(systemd=True) as cri, watching(containerd, changes):
        sandbox, (app,) = await begin(cri, "web")
        await until(changes.are("+", of=[app, sandbox.id]), "both run")
        # Cgroups of other tests may go meanwhile: os.walk() passes over them, glob() does not.
        walked = os.walk(containerd.cgroups)
        own = [
            Path(at).name for at, names, _ in walked if fnmatch.filter(names, f"*.slice:*:{app}")
        ]
        await finish(cri, sandbox, [app])
        await until(changes.are("+-", of=[app, sandbox.id]), "nothing runs")
    assert {"containerd.service", containerd.home.name} & set(own)
    of_app = (each for each in changes.facts if isinstance(each, CgroupChanged))
    uids = {each.pod_uid for each in of_app if each.container_id == app}
    assert uids == {cri.uid("web")}


async def test_who_moved_or_is_frozen_runs_and_who_was_dead_before_is_found(
    containerd_on_cgroups: Containerd, monkeypatch: pytest.MonkeyPatch
) -> None:
    """By an exporter that comes after the end, and by `check`; the dead one is a zombie.

    One moves to its monitor's cgroup, one to a cgroup of nobody's name.
    """
    # Its processes are not listed to a reader in a pod, and it counts for one.
    monkeypatch.setattr(populated, "_INITIAL_PID_NAMESPACE", "pid:[1]")
    containerd, changes = containerd_on_cgroups, Changes()

    async with containerd.pods() as cri:
        sandbox, (moves, leaves, waits) = await begin(cri, "web", containers=3)
        # Its shim has no other container.
        other, (dead,) = await begin(cri, "job")
        with frozen(containerd.shim_of(dead)):
            os.kill(containerd.init_of(dead), signal.SIGKILL)
            async with watching(containerd, changes) as exporter:
                await until(
                    lambda: changes.last_read.dead == (dead,), "it is found", seconds=PATIENCE
                )
                for each in containerd.hierarchies():
                    for app, name in (
                        (moves, f"crio-conmon-{moves}.scope"),
                        (leaves, "run-r7.scope"),
                    ):
                        for own in each.glob(f"{containerd.home.name}/*/{app}"):
                            beside = made(own.parent, name)
                            (beside / "cgroup.procs").write_text(str(containerd.init_of(app)))
                    for own in each.glob(f"{containerd.home.name}/*/{waits}"):
                        for name, state in (("freezer.state", "FROZEN"), ("cgroup.freeze", "1")):
                            if (own / name).exists():
                                (own / name).write_text(state)
                await until(
                    lambda: changes.last_read.frozen == (waits,), "one is frozen", seconds=PATIENCE
                )
                for _ in range(3):
                    await exporter.settled()
                assert (changes.last_read.dead, changes.last_read.moved) == ((dead,), (leaves,))
                told = {(Verdict.GHOST, dead), (Verdict.FROZEN, waits)}
                await until(lambda: told == changes.stood, "both are told", seconds=PATIENCE)
                assert changes.of(moves) == changes.of(waits) == "+"
                assert changes.of(leaves) == "+-"
                assert not changes.accused & {moves, leaves, waits}
                lines = await examine(exporter.config)
                (ghost,) = (line.text for line in lines if line.level == "fail")
                assert ghost.startswith(
                    f"default/job/app-0 ({dead[:12]}) runs by the lists since 2"
                )
                assert any("may be elsewhere in its pod" in line.text for line in lines)
                os.kill(containerd.init_of(moves), signal.SIGKILL)
                await until(changes.are("+-", of=[moves]), "it has ended")
        for killed in (dead, moves):
            await until(partial(has_exited, cri, killed), "containerd says so", seconds=30)
        await finish(cri, other, [dead])
        await finish(cri, sandbox, [moves, leaves, waits])


@pytest.mark.parametrize(
    ("containerd", "handler", "shown"),
    [
        # It makes the same cgroups; it refuses a machine that has both versions.
        (("2.1", True), "crun", "+"),
        (("1.7", True), "crun", "+"),
        # Their own cgroups are empty: all processes are in the sandbox's.
        (("2.1", False), "runsc", ""),
    ],
    ids=["crun", "crun, containerd 1.7", "gVisor"],
    indirect=["containerd"],
)
async def test_containers_of_another_handler_are_no_ghosts(
    containerd: Containerd, handler: str, shown: str
) -> None:
    changes = Changes()
    async with containerd.pods() as cri, watching(containerd, changes) as exporter:
        sandbox, apps = await begin(cri, "web", containers=2, handler=handler)
        await until(changes.are("+", of=[sandbox.id]), "it runs")
        for _ in range(3):
            await exporter.settled()
        assert {changes.of(app) for app in apps} == {shown}
        assert set((await cri.containers()).values()) == {pb.CONTAINER_RUNNING}
        assert not changes.accused


# Longer than anything that happens by itself, shorter than containerd waits for a clean-up.
HELD_SECONDS = 3.0
# How far a measured delay may be from the truth.
WITHIN = 1.0
STARTS = 30


@pytest.mark.parametrize("witness", Watch)
async def test_a_clean_up_that_takes_long_shows_in_both_delays(
    containerd_unified: Containerd, witness: Watch
) -> None:
    """List and stream are late together; the kernel, or else `finished_at`, tells since when."""
    containerd, tape = containerd_unified, Tape()
    kernel: dict[str, Any] = {"kernel_witness": witness, "cgroup_root": containerd.cgroups}

    def measured() -> dict[Verdict, float]:
        mine = (each for each in tape.findings if each.container_id == app)
        return {each.verdict: each.seconds for each in mine if each.seconds is not None}

    async with (
        containerd.pods() as cri,
        observing(containerd.socket, tape, event_stream=EventStream.ALWAYS, **kernel) as exporter,
    ):
        sandbox, (app,) = await begin(cri, "web")
        await exporter.settled()
        containerd.held.touch()
        ended = time.monotonic()
        os.kill(containerd.init_of(app), signal.SIGKILL)
        over = ended + HELD_SECONDS
        await until(lambda: time.monotonic() > over, "the clean-up takes", seconds=PATIENCE)
        containerd.held.unlink()
        both = {Verdict.EXIT_ANNOUNCED, Verdict.EXIT_LISTED}
        await until(lambda: both <= measured().keys(), "both have said", seconds=PATIENCE)
        relists = (each for each in tape.facts if isinstance(each, Relist))
        shown = [
            each.completed
            for each in relists
            if (app, ListedState.EXITED) in map(attrgetter("id", "state"), each.changed)
        ]
        events = (each for each in tape.facts if isinstance(each, Announcement))
        told = [
            learnt(each)
            for each in events
            if (each.container_id, each.type) == (app, EventType.STOPPED)
        ]
        for verdict, at in ((Verdict.EXIT_LISTED, shown[-1]), (Verdict.EXIT_ANNOUNCED, told[-1])):
            assert at - ended >= HELD_SECONDS
            assert abs(measured()[verdict] - (at - ended)) < WITHIN
        assert Verdict.SLOW in measured()
        await finish(cri, sandbox, [app])


async def test_a_failed_start_that_is_removed_at_once_is_never_silent(
    containerd_21: Containerd,
) -> None:
    """Each is removed as soon as a relist has listed it EXITED: it may be too late to ask."""
    async with (
        observing(containerd_21.socket, relist_period=0.02, missed_grace=0.2) as exporter,
        containerd_21.pods() as cri,
    ):
        await exporter.streaming()
        sandbox = await cri.run_pod("web")
        for attempt in range(STARTS):
            container = await cri.create(sandbox, f"app-{attempt}", CANNOT_START)
            with pytest.raises(grpc.aio.AioRpcError):
                await cri.start(container)
            await exporter.relisted()
            await cri.remove(container)
        seen = await exporter.settled()
    assert seen.silent == 0
    undecided = seen.value("shadow_pleg_verdicts_total", verdict="undecided")
    by_design = seen.value("kube_pod_missed_events_total", cause="by_design")
    witnessed = seen.value(
        "shadow_pleg_lifecycle_events_total", event="ContainerDied", object="container"
    )
    assert undecided + by_design == witnessed >= STARTS / 2
