"""A real kubelet and its containerd, played from a recording by servers of the same services.

`tests/traces/kubelet`: kubelet 1.36.2 with the gate PodsAPI on containerd 2.1.9, 22 static pods
that crash, fail to start, fail probes or run once; polled, and with the gate EventedPLEG. A line
has its time `t` and an `event` (without what the exporter does not read), a `pod` (WatchPodsEvent)
or what a list showed: state by id.
"""

from __future__ import annotations

import asyncio
import json
import lzma
import time
from collections.abc import AsyncIterator
from contextlib import asynccontextmanager
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any, Final

import grpc
import grpc.aio

from exporter.cri import runtime_v1_pb2 as cri
from exporter.kubelet import kubelet_pods_pb2 as pb
from simulator.pods import PodsServer
from tests import ROOT

KINDS: Final = ("polled", "evented")
Context = grpc.aio.ServicerContext[bytes, bytes]


def rows(kind: str) -> list[dict[str, Any]]:
    """The lines of that recording."""
    path = ROOT / f"tests/traces/kubelet/1.36.2-{kind}.jsonl.xz"
    return [json.loads(line) for line in lzma.decompress(path.read_bytes()).splitlines()]


def delays(kind: str) -> tuple[list[float], list[float]]:
    """From exit, and from announcement, to status: sorted, by a plain script."""
    announced: dict[str, float] = {}
    ended: dict[str, float] = {}
    shown: dict[str, float] = {}
    for row in rows(kind):
        if "event" in row:
            event = cri.ContainerEventResponse.FromString(bytes.fromhex(row["event"]))
            for own in event.containers_statuses:
                if own.id == event.container_id and event.container_event_type == 2:
                    announced[own.id], ended[own.id] = row["t"], own.finished_at / 1e9
        elif "pod" in row:
            pod = pb.Pod.FromString(pb.WatchPodsEvent.FromString(bytes.fromhex(row["pod"])).pod)
            status = pb.PodStatus.FromString(pod.status)
            for each in (*status.container_statuses, *status.init_container_statuses):
                for state in (each.state, each.last_state):
                    shown.setdefault(state.terminated.container_id[13:], row["t"])
    both = [each for each in announced if each in shown]
    return (
        sorted(max(0.0, shown[each] - ended[each]) for each in both),
        sorted(max(0.0, shown[each] - announced[each]) for each in both),
    )


@dataclass
class Player:
    """Plays a recording from now on; `shift`: seconds from the recorded time to now."""

    kind: str
    pods: PodsServer
    shift: float = 0.0
    over: asyncio.Event = field(default_factory=asyncio.Event)
    _listed: dict[str, int] = field(default_factory=dict)
    _sandboxes: dict[str, cri.PodSandboxStatus] = field(default_factory=dict)
    _homes: dict[str, str] = field(default_factory=dict)
    _streams: set[asyncio.Queue[bytes]] = field(default_factory=set)

    async def run(self) -> None:
        """Send everything at its time."""
        lines = rows(self.kind)
        self.shift = time.time() - lines[0]["t"] + 1.0
        for row in lines:
            await asyncio.sleep(max(0.0, row["t"] + self.shift - time.time()))
            if "pod" in row:
                self._show(bytes.fromhex(row["pod"]))
            elif "event" in row:
                self._announce(cri.ContainerEventResponse.FromString(bytes.fromhex(row["event"])))
            else:
                self._listed = row["listed"]
        self.over.set()

    def _show(self, raw: bytes) -> None:
        message = pb.WatchPodsEvent.FromString(raw)
        uid = pb.Pod.FromString(message.pod).metadata.uid
        if message.type == pb.DELETED:
            self.pods.pods.pop(uid)
        elif message.type != pb.INITIAL_SYNC_COMPLETE:
            self.pods.pods[uid] = message.pod
        self.pods.send(raw)

    def _announce(self, event: cri.ContainerEventResponse) -> None:
        shift = int(self.shift * 1e9)
        event.created_at += shift
        for status in event.containers_statuses:
            status.finished_at += shift if status.finished_at else 0
        home = event.pod_sandbox_status
        self._sandboxes[home.id], self._homes[event.container_id] = home, home.id
        for stream in self._streams:
            stream.put_nowait(event.SerializeToString())

    async def version(self, _request: bytes, _context: Context) -> bytes:
        """The runtime that was recorded."""
        named = {"runtime_name": "containerd", "runtime_version": "2.1.9"}
        return cri.VersionResponse(**named, runtime_api_version="v1").SerializeToString()

    async def sandboxes(self, _request: bytes, _context: Context) -> bytes:
        """Those of the last list."""
        items = [
            cri.PodSandbox(id=each, metadata=self._sandboxes[each].metadata, state=state)  # type: ignore[arg-type]
            for each, state in self._listed.items()
            if each in self._sandboxes
        ]
        return cri.ListPodSandboxResponse(items=items).SerializeToString()

    async def containers(self, _request: bytes, _context: Context) -> bytes:
        """Those of the last list, which were announced."""
        items = [
            cri.Container(id=each, pod_sandbox_id=self._homes[each], state=state)  # type: ignore[arg-type]
            for each, state in self._listed.items()
            if each not in self._sandboxes and each in self._homes
        ]
        for item in items:
            item.metadata.SetInParent()
        return cri.ListContainersResponse(containers=items).SerializeToString()

    async def events(self, _request: bytes, context: Context) -> None:
        """Until the client leaves."""
        stream: asyncio.Queue[bytes] = asyncio.Queue()
        self._streams.add(stream)
        try:
            while True:
                await context.write(await stream.get())
        finally:
            self._streams.discard(stream)


@asynccontextmanager
async def played(kind: str, folder: Path) -> AsyncIterator[tuple[Player, Path, Path]]:
    """A player, the runtime's socket and the kubelet's; `run` it once both are watched."""
    runtime, kubelet = folder / "cri.sock", folder / "pods.sock"
    async with PodsServer(kubelet) as pods:
        player, server = Player(kind, pods), grpc.aio.server()
        unary, stream = grpc.unary_unary_rpc_method_handler, grpc.unary_stream_rpc_method_handler
        methods = {
            "Version": unary(player.version),
            "ListPodSandbox": unary(player.sandboxes),
            "ListContainers": unary(player.containers),
            "GetContainerEvents": stream(player.events),
        }
        handlers = grpc.method_handlers_generic_handler("runtime.v1.RuntimeService", methods)
        server.add_generic_rpc_handlers((handlers,))
        server.add_insecure_port(f"unix://{runtime}")
        await server.start()
        try:
            yield player, runtime, kubelet
        finally:
            await server.stop(0.1)
