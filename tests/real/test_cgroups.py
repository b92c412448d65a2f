"""What the kernel shows of real containers, beside what containerd says of them."""

import itertools
import os
import signal
import time
from collections.abc import Awaitable, Callable, Sequence
from contextlib import AbstractAsyncContextManager

import grpc
import pytest

from exporter.model.facts import CgroupChanged, CgroupsLost
from exporter.model.findings import Verdict
from exporter.settings.config import EventStream
from testbed.churn import frozen
from testbed.containerd import Containerd
from testbed.cri_client import CANNOT_START, EXITED, RUNNING, Pods
from testbed.waiting import until
from tests.support.observer import Observer, observing
from tests.support.real_lives import begin, finish, together
from tests.support.tape import Tape

# Processes start slowly on a busy machine, ten times as slowly as on a quiet one.
pytestmark = [pytest.mark.timeout(120), pytest.mark.usefixtures("sound_log")]

EXITS = ("/bin/true",)
GHOSTS_NOW = "shadow_pleg_ghost_containers"


class Changes(Tape):
    """Listens to the changes of cgroups. Other tests' containers are among them."""

    @property
    def lost(self) -> bool:
        """Whether they could not be observed for a while."""
        return any(isinstance(each, CgroupsLost) for each in self.facts)

    @property
    def accused(self) -> set[str]:
        """Who was taken for a ghost or a stray."""
        wanted = (Verdict.GHOST, Verdict.STRAY)
        return {each.container_id for each in self.findings if each.verdict in wanted}

    def of(self, container: str) -> str:
        """What it reported: `+` for processes that begin, `-` for the last that ends."""
        changes = (each for each in self.facts if isinstance(each, CgroupChanged))
        return "".join("-+"[it.populated] for it in changes if it.container_id == container)

    def are(self, wanted: str, of: Sequence[str]) -> Callable[[], bool]:
        """Whether those are the changes of each of these containers."""
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


def exited(cri: Pods, container: str) -> Callable[[], Awaitable[bool]]:
    """Whether the runtime lists that container as exited."""

    async def listed() -> bool:
        return (await cri.containers())[container] == EXITED

    return listed


async def test_a_process_that_ended_behind_a_frozen_shim_leaves_a_ghost(
    containerd_on_cgroups: Containerd,
) -> None:
    """The runtime says RUNNING for as long as the shim reports nothing."""
    containerd = containerd_on_cgroups
    changes = Changes()
    async with containerd.pods() as cri, watching(containerd, changes) as exporter:
        sandbox, (app,) = await begin(cri, "web")
        await until(changes.are("+", of=[app, sandbox.id]), "both run")
        with frozen(containerd.shim_of(app)):
            os.kill(containerd.init_of(app), signal.SIGKILL)
            await until(changes.are("+-", of=[app]), "its process is gone")
            seen = await exporter.shows(lambda now: now.value(GHOSTS_NOW) == 1, "it is found")
            assert (await cri.containers())[app] == RUNNING
            assert seen.value("shadow_pleg_ghosts_total") == 1
        assert changes.of(sandbox.id) == "+"
        # While containerd 2 takes note of an exit, a stop may fail: its shim is gone.
        await until(exited(cri, app), "containerd says that it exited", seconds=30)
        await finish(cri, sandbox, [app])
        await until(changes.are("+-", of=[app, sandbox.id]), "nothing runs")
        await exporter.shows(lambda now: now.value(GHOSTS_NOW) == 0, "it is none any more")
        assert app in changes.accused


async def test_a_killed_shim_may_leave_a_stray(containerd_on_cgroups: Containerd) -> None:
    """Containerd 2 says EXITED and lets it run on, also once it is removed; older ones end it."""
    containerd = containerd_on_cgroups
    changes = Changes()
    async with containerd.pods() as cri, watching(containerd, changes) as exporter:
        sandbox, (app,) = await begin(cri, "web")
        await until(changes.are("+", of=[app, sandbox.id]), "both run")
        os.kill(containerd.shim_of(app), signal.SIGKILL)
        await until(changes.are("+-", of=[sandbox.id]), "the sandbox is gone")
        await until(exited(cri, app), "containerd says that it exited", seconds=30)
        await exporter.settled()
        runs_on = containerd.version == "2.1"
        assert changes.of(app) == ("+" if runs_on else "+-")
        # While it is listed as exited, and when it is not even that.
        strays = "shadow_pleg_stray_containers"
        await exporter.shows(lambda now: now.value(strays) == runs_on, "it is found if it runs")
        await cri.remove(app)
        await exporter.settled()
        seen = await exporter.metrics()
        assert seen.value(strays) == seen.value("shadow_pleg_strays_total") == runs_on
        await finish(cri, sandbox, [])


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
    """Each begins once and ends once, also one that is killed, ends by itself or cannot start."""
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
                await until(exited(cri, apps[0]), "it is listed as exited", seconds=60)
                await finish(cri, sandbox, apps)
                if time.monotonic() >= over:
                    break

        await together(*(lives() for _ in range(workers)))
        await until(changes.are("+-", of=ids[-9:]), "all have begun and ended")
        await exporter.settled()
        # What is over between two looks leaves no trace, or one of each.
        assert all(changes.of(each) in ("", "+-") for each in starts[-6:])
        assert changes.of(kept) == changes.of(keeper.id) == "+"
        assert not changes.lost
        # A runtime that is late for longer than a short grace has a ghost for a moment.
        assert not changes.accused & ({keeper.id, kept} if seconds == 0 else changes.accused)
        seen = await exporter.metrics()
        assert seen.value(GHOSTS_NOW) == seen.value("shadow_pleg_stray_containers") == 0
        await finish(cri, keeper, [kept])


async def no_ghosts(containerd: Containerd, handler: str, shown: str) -> None:
    """Containers of that program run, show that of their processes, and are not accused."""
    changes = Changes()
    async with containerd.pods() as cri, watching(containerd, changes) as exporter:
        sandbox, apps = await begin(cri, "web", containers=2, handler=handler)
        await until(changes.are("+", of=[sandbox.id]), "it runs")
        for _ in range(3):
            await exporter.settled()
        assert {changes.of(app) for app in apps} == {shown}
        assert set((await cri.containers()).values()) == {RUNNING}
        assert not changes.accused


async def test_containers_of_crun_are_no_ghosts(containerd_unified: Containerd) -> None:
    """It makes the same cgroups; it refuses a machine that has both versions."""
    await no_ghosts(containerd_unified, "crun", "+")


async def test_containers_of_gvisor_are_no_ghosts(containerd_21: Containerd) -> None:
    """Their own cgroups are empty: all processes are in the sandbox's.

    Its own shim is not among Debian's packages; runc's starts it, but cannot stop it.
    """
    await no_ghosts(containerd_21, "runsc", "")
