"""Lives of pods as a kubelet leads them, and what the two witnesses have to say of them."""

import asyncio
from collections.abc import Awaitable, Callable

from conformance.cri_client import Sandbox
from exporter.cri import runtime_v1_pb2 as pb
from testbed import debian
from testbed.containerd import Containerd
from testbed.pods import Pods
from testbed.waiting import until
from tests.support.observer import Counts, Metrics


async def begin(
    cri: Pods, name: str, containers: int = 1, handler: str = ""
) -> tuple[Sandbox, list[str]]:
    sandbox = await cri.run_pod(name, handler=handler)
    ids = [await cri.create(sandbox, f"app-{number}") for number in range(containers)]
    for container in ids:
        await cri.start(container)
    return sandbox, ids


async def finish(cri: Pods, sandbox: Sandbox, containers: list[str]) -> None:
    """Stop and remove a pod, containers first, as the kubelet does."""
    for container in containers:
        await cri.stop(container)
    await cri.stop_pod(sandbox)
    for container in containers:
        await cri.remove(container)
    await cri.remove_pod(sandbox)


async def live(cri: Pods, name: str, containers: int = 1) -> None:
    await finish(cri, *await begin(cri, name, containers))


async def live_slowly(cri: Pods, name: str, pause: Callable[[], Awaitable[object]]) -> None:
    sandbox = await cri.run_pod(name)
    await pause()
    container = await cri.create(sandbox, "app")
    for step in (cri.start, cri.stop, cri.remove):
        await pause()
        await step(container)
    for last in (cri.stop_pod, cri.remove_pod):
        await pause()
        await last(sandbox)


def sandboxes(number: int) -> Counts:
    """What a relist witnesses of that many sandboxes, each seen READY and NOTREADY."""
    events = ("ContainerStarted", "ContainerDied", "ContainerRemoved")
    return {(event, "sandbox"): number for event in events}


def containers(number: int) -> Counts:
    events = ("ContainerChanged", "ContainerStarted", "ContainerDied", "ContainerRemoved")
    return {(event, "container"): number for event in events}


def accounted(seen: Metrics, lives: Counts) -> Counts:
    """What was witnessed of those lives, or announced of them between two relists."""
    witnessed = seen.counts("shadow_pleg_lifecycle_events_total")
    unseen = seen.counts("shadow_pleg_verdicts_total", verdict="unseen", cause="")
    return {key: witnessed.get(key, 0) + unseen.get(key, 0) for key in lives}


def announced(*, pods: int, containers: int) -> Counts:
    numbers = {"sandbox": pods, "container": containers}
    types = ("CREATED", "STARTED", "STOPPED", "DELETED")
    return {(event, kind): number for event in types for kind, number in numbers.items()}


async def has_exited(cri: Pods, container: str) -> bool:
    """While containerd 2 takes note of an exit, a stop may fail: the shim is gone."""
    return (await cri.containers())[container] == pb.CONTAINER_EXITED


async def delete_below(containerd: Containerd, container: str) -> None:
    """Kill a container, and delete it from containerd while the CRI goes on listing it."""
    await _ctr(containerd, "task", "kill", "-s", "SIGKILL", container)
    async with containerd.pods() as cri:
        await until(lambda: has_exited(cri, container), "the CRI sees it exited")
        await _ctr(containerd, "containers", "rm", container)
        assert await cri.containers() == {container: pb.CONTAINER_EXITED}


async def _ctr(containerd: Containerd, *arguments: str) -> None:
    daemon = debian.part(f"containerd-{containerd.version}")
    program, socket = str(daemon.with_name("ctr")), str(containerd.socket)
    process = await asyncio.create_subprocess_exec(
        program, "-a", socket, "-n", "k8s.io", *arguments
    )
    assert await process.wait() == 0
