"""A container deleted behind the CRI's back, which containerd then removes without a word."""

import asyncio

from exporter.pleg.events import Inquiry
from testbed import debian
from testbed.containerd import Containerd
from testbed.cri_client import EXITED
from testbed.waiting import until
from tests.support.cri_clients import PATIENT, client_of
from tests.support.harness import InProcess
from tests.support.real_lives import begin


async def ctr(containerd: Containerd, *arguments: str) -> None:
    """Run containerd's own client, which knows nothing of the CRI."""
    daemon = debian.find("containerd", containerd.version)
    assert daemon is not None
    program, socket = str(daemon.with_name("ctr")), str(containerd.socket)
    process = await asyncio.create_subprocess_exec(
        program, "-a", socket, "-n", "k8s.io", *arguments
    )
    assert await process.wait() == 0


async def delete_below(containerd: Containerd, container: str) -> None:
    """Kill a container, and delete it from containerd while the CRI goes on listing it."""
    await ctr(containerd, "task", "kill", "-s", "SIGKILL", container)
    async with containerd.pods() as cri:

        async def exited() -> bool:
            return (await cri.containers())[container] == EXITED

        await until(exited, "the CRI sees it exited")
        await ctr(containerd, "containers", "rm", container)
        assert await cri.containers() == {container: EXITED}


async def test_its_removal_is_never_announced(containerd_21: Containerd) -> None:
    """It is missed by design, once, when the CRI lists it no longer; being asked, it had told."""
    async with InProcess(containerd_21.socket) as exporter, containerd_21.pods() as cri:
        await exporter.streaming()
        _, (app,) = await begin(cri, "web")
        await exporter.settled()
        await delete_below(containerd_21, app)
        assert (await exporter.settled()).missed == {}
        await cri.remove(app)
        await exporter.settled()
        seen = await exporter.settled()
    assert seen.missed == {("by_design", "ContainerRemoved", "container"): 1}
    assert seen.counts("shadow_pleg_event_gaps_total") == {}


async def test_only_a_verbose_question_tells(containerd: Containerd) -> None:
    """ContainerStatus answers as if nothing had happened, but NOT_FOUND when asked for details."""
    async with containerd.pods() as cri:
        _, (app,) = await begin(cri, "web")
    await delete_below(containerd, app)
    async with client_of(containerd.socket) as client:
        assert await client.inquire(app, PATIENT) is Inquiry.STARTED
        assert await client.audit(app, PATIENT) is Inquiry.DELETED_BELOW
