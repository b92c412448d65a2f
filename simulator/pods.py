"""The kubelet's pods API on a socket: each watch shows all pods first, then what is sent."""

import asyncio
from pathlib import Path
from typing import Final, Self

import grpc
import grpc.aio

from exporter.kubelet import kubelet_pods_pb2 as pb
from simulator.server import listening

_SERVICE: Final = "v1alpha1.Pods"
# A client that is further behind is dropped, as the kubelet does.
LAG: Final = 100
_STOP_GRACE_SECONDS: Final = 0.1

Context = grpc.aio.ServicerContext[bytes, bytes]


class PodsServer:
    """Serves on `path` from entry to exit. `pods`: as they are shown first, by uid.

    `refusal`: the status with which it ends each watch at once, if any. `watches`: how many began.
    """

    def __init__(self, path: Path) -> None:
        self.path = path
        self.pods: dict[str, bytes] = {}
        self.refusal: grpc.StatusCode | None = None
        self.watches = 0
        self._watchers: set[asyncio.Queue[bytes | None]] = set()
        self._server: grpc.aio.Server | None = None

    async def __aenter__(self) -> Self:
        watch = grpc.unary_stream_rpc_method_handler(self._watch)
        self._server = await listening(self.path, _SERVICE, {"WatchPods": watch})
        return self

    async def __aexit__(self, *_: object) -> None:
        if self._server is not None:
            await self._server.stop(_STOP_GRACE_SECONDS)
        self.path.unlink(missing_ok=True)

    def show(self, uid: str, pod: bytes) -> None:
        """That pod is there, or has changed."""
        kind = pb.MODIFIED if uid in self.pods else pb.ADDED
        self.pods[uid] = pod
        self.send(pb.WatchPodsEvent(type=kind, pod=pod).SerializeToString())

    def drop(self, uid: str) -> None:
        """That pod is no longer there."""
        pod = self.pods.pop(uid)
        self.send(pb.WatchPodsEvent(type=pb.DELETED, pod=pod).SerializeToString())

    def send(self, message: bytes) -> None:
        """Send it to each watch that is not too far behind; the others end."""
        for queue in list(self._watchers):
            if queue.qsize() < LAG:
                queue.put_nowait(message)
            else:
                self._watchers.discard(queue)
                queue.put_nowait(None)

    def end(self) -> None:
        """End all watches: their clients lag."""
        for queue in self._watchers:
            queue.put_nowait(None)
        self._watchers.clear()

    async def _watch(self, _request: bytes, context: Context) -> None:
        self.watches += 1
        if self.refusal is not None:
            await context.abort(self.refusal, "refused")
        queue: asyncio.Queue[bytes | None] = asyncio.Queue()
        self._watchers.add(queue)
        try:
            for pod in list(self.pods.values()):
                await context.write(pb.WatchPodsEvent(type=pb.ADDED, pod=pod).SerializeToString())
            synced = pb.WatchPodsEvent(type=pb.INITIAL_SYNC_COMPLETE)
            await context.write(synced.SerializeToString())
            while (message := await queue.get()) is not None:
                await context.write(message)
        finally:
            self._watchers.discard(queue)
        await context.abort(grpc.StatusCode.RESOURCE_EXHAUSTED, "the client is too slow")
