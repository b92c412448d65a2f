"""The simulated node's kubelet: what it believes of containers, and when, and its API of pods.

It lists the runtime's containers every second, as Generic PLEG does; an evented one also receives
each STOPPED. It shows changes up to `--kubelet-delay` later, some exits (`--stale`) after two
minutes, some (`--wrong`) with another exit code. While a container is stale, its pod stays and its
successor waits.
"""

import asyncio
import contextlib
import itertools
import os
from collections.abc import Iterable
from dataclasses import replace
from pathlib import Path
from typing import Final, Self

import grpc
import grpc.aio

from exporter.cri import runtime_v1_pb2 as cri
from exporter.kubelet import kubelet_pods_pb2 as pb
from exporter.model.events import EventType, ListedState
from exporter.model.findings import Verdict
from simulator.channel import Notice
from simulator.options import Listens
from simulator.runtime import ContainerRecord, SimulatedRuntime
from simulator.service import Context, listening

_SERVICE: Final = "v1alpha1.Pods"
# Updates that wait for all watches, and for one.
BUFFER: Final = 1000
LAG: Final = 100
_STOP_GRACE_SECONDS: Final = 0.1

_PERIOD_SECONDS: Final = 1.0
_SYNC_SECONDS: Final = 5.0
_GRACE_SECONDS: Final = 30
# The soonest that a status can be found to be stale, less a period; and how long it stays stale:
# longer than a stray's process, which runs for a minute.
_COUNTED_SECONDS: Final = 29.0
_STALE_SECONDS: Final = 120.0
# The runtime's is 0.
_WRONG_EXIT_CODE: Final = 137
_SHOWN: Final = (ListedState.RUNNING, ListedState.EXITED)

_Queue = asyncio.Queue[pb.WatchPodsEvent | None]

SYNCED: Final = pb.WatchPodsEvent(type=pb.INITIAL_SYNC_COMPLETE).SerializeToString()


def event(kind: pb.EventType, pod: pb.Pod) -> pb.WatchPodsEvent:
    """The kubelet's message about that pod."""
    if kind == pb.DELETED:
        its = pod.metadata
        names = pb.ObjectMeta(name=its.name, namespace=its.namespace, uid=its.uid)
        pod = pb.Pod(metadata=names)
    return pb.WatchPodsEvent(type=kind, pod=pod.SerializeToString())


class PodsServer:
    """Serves pods on `path` from entry to exit, as `pkg/kubelet/apis/pods/server.go` does.

    Updates wait in one buffer for all, and then in one for each watch. Those that do not fit into
    the first are dropped silently; a watch whose buffer is full ends. A watch is registered before
    its first pods are sent, so older updates may follow them. A DELETED has only names. Until the
    kubelet has its own status of a pod, it serves the API server's. Not imitated: its limit of
    GetPod calls.
    """

    def __init__(self, path: Path) -> None:
        self.path = path
        # As the API server has them, by uid, and the statuses that the kubelet made itself.
        self.pods: dict[str, pb.Pod] = {}
        self.statuses: dict[str, bytes] = {}
        # It knows all its pods.
        self.ready = True
        # Ends each call, if set.
        self.refusal: grpc.StatusCode | None = None
        # Calls.
        self.watches = self.questions = 0
        self._buffer: _Queue = asyncio.Queue(BUFFER)
        self._watchers: set[_Queue] = set()
        self._process = contextlib.AsyncExitStack()

    async def __aenter__(self) -> Self:
        await self.start()
        # As if it had been running for long.
        os.utime(self.path, (0, 0))
        return self

    async def __aexit__(self, *_: object) -> None:
        await self.stop()

    async def start(self) -> None:
        """Listen, with nothing in the buffers."""
        self._buffer, self._watchers = asyncio.Queue(BUFFER), set()
        methods = {
            "WatchPods": grpc.unary_stream_rpc_method_handler(self._watch),
            "GetPod": grpc.unary_unary_rpc_method_handler(self._get),
        }
        server = await listening(self.path, _SERVICE, methods)
        passing = asyncio.create_task(self._pass_on())
        self._process.callback(self.path.unlink, missing_ok=True)
        self._process.push_async_callback(server.stop, _STOP_GRACE_SECONDS)
        self._process.callback(passing.cancel)

    async def stop(self) -> None:
        """End the process, and with it all calls."""
        await self._process.aclose()

    def update(self, pod: pb.Pod) -> None:
        """The kubelet has a pod's status of its own, or a new one."""
        uid = pod.metadata.uid
        kind = pb.MODIFIED if uid in self.statuses else pb.ADDED
        self.pods[uid], self.statuses[uid] = pod, pod.status
        self._broadcast(kind, pod)

    def remove(self, uid: str) -> None:
        """The kubelet has that pod no longer."""
        self.statuses.pop(uid, None)
        self._broadcast(pb.DELETED, self.pods.pop(uid))

    def _broadcast(self, kind: pb.EventType, pod: pb.Pod) -> None:
        with contextlib.suppress(asyncio.QueueFull):
            self._buffer.put_nowait(event(kind, pod))

    async def _pass_on(self) -> None:
        while True:
            update = await self._buffer.get()
            for queue in list(self._watchers):
                if queue.qsize() < LAG:
                    queue.put_nowait(update)
                else:
                    self._watchers.discard(queue)
                    queue.put_nowait(None)
            # Watches run beside it.
            await asyncio.sleep(0)

    def _effective(self, pod: pb.Pod) -> pb.Pod:
        status = self.statuses.get(pod.metadata.uid, pod.status)
        return pb.Pod(metadata=pod.metadata, spec=pod.spec, status=status)

    async def _validate(self, context: Context) -> None:
        if self.refusal is not None:
            await context.abort(self.refusal, "refused")
        if not self.ready:
            await context.abort(grpc.StatusCode.FAILED_PRECONDITION, "Kubelet is initializing")

    async def _get(self, request: bytes, context: Context) -> bytes:
        self.questions += 1
        await self._validate(context)
        uid = pb.GetPodRequest.FromString(request).pod_uid
        if uid not in self.pods:
            await context.abort(grpc.StatusCode.NOT_FOUND, f"pod with UID {uid} not found")
        pod = self._effective(self.pods[uid]).SerializeToString()
        return pb.GetPodResponse(pod=pod).SerializeToString()

    async def _watch(self, _request: bytes, context: Context) -> None:
        self.watches += 1
        await self._validate(context)
        queue: _Queue = asyncio.Queue()
        self._watchers.add(queue)
        try:
            for _, pod in sorted(self.pods.items()):
                await context.write(event(pb.ADDED, self._effective(pod)).SerializeToString())
            await context.write(SYNCED)
            while (update := await queue.get()) is not None:
                await context.write(update.SerializeToString())
        finally:
            self._watchers.discard(queue)
        await context.abort(grpc.StatusCode.RESOURCE_EXHAUSTED, "watch client channel closed")


class SimulatedKubelet:
    """Shows the containers of `runtime` on the socket `path`: `run` it while `server` serves."""

    def __init__(self, runtime: SimulatedRuntime, path: Path) -> None:
        self.server = PodsServer(path)
        self._runtime = runtime
        # How each container is shown, by sandbox, and these sandboxes.
        self._shown: dict[str, dict[str, ContainerRecord]] = {}
        self._sandboxes: dict[str, cri.PodSandboxMetadata] = {}
        # States that are shown, or will be.
        self._noticed: dict[str, ListedState] = {}
        self._stale: set[str] = set()
        self._changes = asyncio.TaskGroup()
        # The API server's versions of a pod.
        self._versions = itertools.count(1)
        if runtime.options.kubelet is Listens.EVENTED:
            runtime.channel.on_sent = self._note
        # Containers of the start are shown at once.
        for record in runtime.containers.values():
            self._show(record)

    async def run(self) -> None:
        """Look at the runtime every second, until cancelled."""
        async with self._changes:
            while True:
                await asyncio.sleep(_PERIOD_SECONDS)
                if self._runtime.up and self.server.ready:
                    self._look(self._runtime.containers.values())
                    self._forget()

    async def restart(self) -> None:
        """It restarts; until it has looked at a pod, it shows the API server's status."""
        self.server.ready = False
        await self.server.stop()
        self.server.statuses.clear()
        await self.server.start()
        await asyncio.sleep(_SYNC_SECONDS)
        self.server.ready = True

    def _note(self, notice: Notice) -> None:
        record = self._runtime.containers.get(notice.container_id)
        if notice.type is EventType.STOPPED and record is not None and self.server.ready:
            self._look((record,))

    def _look(self, records: Iterable[ContainerRecord]) -> None:
        for record in records:
            is_news = record.state in _SHOWN and self._noticed.get(record.id) is not record.state
            if is_news and not self._is_behind(record):
                self._noticed[record.id] = record.state
                self._changes.create_task(self._show_later(record))

    def _forget(self) -> None:
        """Show removed containers as ended, and then no more."""
        there = self._runtime.containers
        for shown in self._shown.values():
            for record in [each for each in shown.values() if each.id not in there]:
                if record.state is ListedState.EXITED:
                    del shown[record.id], self._noticed[record.id]
                elif self._noticed[record.id] is ListedState.RUNNING:
                    self._show(replace(record, state=ListedState.EXITED))
        for sandbox_id in set(self._shown) - set(self._runtime.sandboxes):
            if not self._stale.isdisjoint(self._shown[sandbox_id]):
                continue
            for container_id in self._shown.pop(sandbox_id):
                self._noticed.pop(container_id, None)
            self.server.remove(self._sandboxes.pop(sandbox_id).uid)

    def _is_behind(self, record: ContainerRecord) -> bool:
        shown = self._shown.get(record.sandbox_id, {})
        return any(shown[each].name == record.name for each in self._stale & shown.keys())

    async def _show_later(self, record: ContainerRecord) -> None:
        options = self._runtime.options
        rng = options.random(f"kubelet/{record.id}/{record.state.value}")
        stale = record.state is ListedState.EXITED and rng.random() < options.stale
        # Else it was not shown running.
        if stale and record.id in self._shown.get(record.sandbox_id, ()):
            self._stale.add(record.id)
            await asyncio.sleep(_COUNTED_SECONDS)
            self._runtime.wrong[Verdict.STALE] += 1
            await asyncio.sleep(_STALE_SECONDS - _COUNTED_SECONDS)
            self._stale.discard(record.id)
        else:
            await asyncio.sleep(rng.random() * options.kubelet_delay)
        if self._noticed.get(record.id) is record.state:
            self._show(record)

    def _show(self, record: ContainerRecord) -> None:
        here = record.sandbox_id
        listed = self._runtime.sandboxes.get(here)
        its = listed.metadata if listed else self._sandboxes.get(here)
        if its is None:
            return
        self._noticed[record.id] = record.state
        if self._is_wrong(record):
            self._runtime.wrong[Verdict.DISAGREES] += 1
            record = replace(record, exit_code=_WRONG_EXIT_CODE)
        shown = self._shown.setdefault(here, {})
        shown[record.id], self._sandboxes[here] = record, its
        newest = sorted(shown.values(), key=lambda each: (each.name, -each.attempt))
        by_name = itertools.groupby(newest, key=lambda each: each.name)
        status = pb.PodStatus(container_statuses=[_status(*each) for _, each in by_name])
        metadata = pb.ObjectMeta(
            name=its.name,
            namespace=its.namespace,
            uid=its.uid,
            resource_version=str(next(self._versions)),
        )
        spec = pb.PodSpec(termination_grace_period_seconds=_GRACE_SECONDS)
        pod = pb.Pod(metadata=metadata, spec=spec, status=status.SerializeToString())
        self.server.update(pod)

    def _is_wrong(self, record: ContainerRecord) -> bool:
        """Whether another exit code is shown; what never ran has none."""
        options = self._runtime.options
        has_exited = record.state is ListedState.EXITED and record.started_at_ns > 0
        return has_exited and options.random(f"exit/{record.id}").random() < options.wrong


def _status(record: ContainerRecord, *older: ContainerRecord) -> pb.ContainerStatus:
    """Of the newest container of a name; its last state is that of the one before it."""
    ended = next((each for each in older if each.state is ListedState.EXITED), None)
    return pb.ContainerStatus(
        name=record.name,
        container_id=f"containerd://{record.id}",
        state=_state(record),
        last_state=_state(ended) if ended else None,
    )


def _state(record: ContainerRecord) -> pb.ContainerState:
    if record.state is not ListedState.EXITED:
        return pb.ContainerState(running=pb.ContainerStateRunning())
    code, own = record.exit_code, f"containerd://{record.id}"
    reason = "Error" if code else "Completed"
    end = pb.ContainerStateTerminated(exit_code=code, reason=reason, container_id=own)
    return pb.ContainerState(terminated=end)
