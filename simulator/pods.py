"""The kubelet's pods API on a socket, as `pkg/kubelet/apis/pods/server.go` of Kubernetes serves it.

Updates wait in one buffer for all, and then in one for each watch. Those that do not fit into the
first are dropped silently; a watch whose buffer is full ends. A watch is registered before its
first pods are sent, so older updates may follow them. A DELETED has only names. Until the kubelet
has its own status of a pod, it serves the API server's. Not imitated: its limit of GetPod calls.
"""

import asyncio
import contextlib
import os
from pathlib import Path
from typing import Final, Self

import grpc
import grpc.aio

from exporter.kubelet import kubelet_pods_pb2 as pb
from simulator.service import Context, listening

_SERVICE: Final = "v1alpha1.Pods"
# Updates that wait for all watches, and for one.
BUFFER: Final = 1000
LAG: Final = 100
_STOP_GRACE_SECONDS: Final = 0.1

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
    """Serves on `path` from entry to exit."""

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
