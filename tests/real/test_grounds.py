"""The grounds themselves: real parts start, do what tests need, and leave nothing behind."""

from pathlib import Path

from tests.support.real.containerd import Containerd
from tests.support.real.cri_client import EXITED, NOTREADY, READY, RUNNING
from tests.support.real.leftovers import cgroups, processes, shim_sockets
from tests.support.waiting import until


async def test_a_pod_lives_and_dies(containerd: Containerd) -> None:
    """Each state of a pod's life shows in the lists of each version."""
    async with containerd.pods() as cri:
        assert (await cri.version()).startswith(containerd.version.split(".")[0])
        sandbox = await cri.run_pod("web-1", namespace="shop", uid="u-1")
        app = await cri.create(sandbox, "app")
        await cri.start(app)
        assert await cri.containers() == {app: RUNNING}
        assert await cri.sandboxes() == {sandbox.id: READY}
        await cri.stop(app)
        assert await cri.containers() == {app: EXITED}
        await cri.remove(app)
        await cri.stop_pod(sandbox)

        async def stopped() -> bool:
            return await cri.sandboxes() == {sandbox.id: NOTREADY}

        # On a busy machine containerd answers before it has noticed the sandbox's exit.
        await until(stopped, "the sandbox is not ready")
        await cri.remove_pod(sandbox)
        assert await cri.sandboxes() == await cri.containers() == {}


def traces_of(home: Path, sockets: list[Path]) -> list[object]:
    """Return whatever a runtime in `home` has on this machine."""
    mounts = [
        line for line in Path("/proc/self/mountinfo").read_text().splitlines() if home.name in line
    ]
    found = [path for path in (home, *sockets) if path.exists()]
    return [*processes(home), *mounts, *found, *cgroups(home)]


async def test_nothing_is_left_behind(containerd: Containerd) -> None:
    """Closing while a pod runs removes processes, mounts, cgroups, shim sockets and folder."""
    async with containerd.pods() as cri:
        await cri.start(await cri.create(await cri.run_pod("web-1"), "app"))
    sockets = shim_sockets(containerd.home)
    assert sockets
    assert len(traces_of(containerd.home, sockets)) > len(sockets)
    await containerd.close()
    assert traces_of(containerd.home, sockets) == []
