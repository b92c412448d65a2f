"""The daemon's parts without their tasks, so that a test decides which of them runs.

Here: the parts put together as the daemon does it, and raw events to feed them.
"""

from __future__ import annotations

import asyncio
import contextlib
import time
from collections.abc import AsyncIterator, Coroutine
from contextlib import asynccontextmanager
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from prometheus_client import CollectorRegistry

from exporter.collector import Histograms
from exporter.cri import runtime_v1_pb2 as cri
from exporter.cri.decode import Decoder
from exporter.cri.endpoint import Endpoint
from exporter.loops.inquiring import Inquiring
from exporter.loops.intake import Intake, Witnessing
from exporter.loops.relisting import Relisting
from exporter.loops.streaming import Streaming
from exporter.node.reporter import Reporter
from exporter.node.state import Node
from exporter.pleg.chronicle import Chronicle
from exporter.pleg.events import EventType
from exporter.pleg.facts import StreamUp
from exporter.pleg.ledger import Ledger
from exporter.pleg.profiles import profile_of
from tests.support.observer import settings

CONTAINERD_2 = profile_of("containerd", "2.1.9")


@dataclass(frozen=True, slots=True)
class Parts:
    """Everything but the tasks."""

    node: Node
    chronicle: Chronicle
    registry: CollectorRegistry
    histograms: Histograms
    endpoint: Endpoint
    intake: Intake
    inquiring: Inquiring
    relisting: Relisting
    streaming: Streaming

    def sample(self, name: str, **labels: str) -> float:
        """One sample of a histogram."""
        value = self.registry.get_sample_value(name, labels)
        assert value is not None, name
        return value

    def watching(self) -> None:
        """As if a subscription had just succeeded."""
        self.chronicle.take(StreamUp(time.monotonic(), time.time_ns()))


@asynccontextmanager
async def parts(socket: Path | None, **others: Any) -> AsyncIterator[Parts]:  # noqa: ANN401 - settings
    """The parts on `socket`; their connection is closed at the end."""
    config, node, registry = settings(socket, **others), Node(), CollectorRegistry()
    endpoint = Endpoint(socket)
    chronicle = Chronicle(Ledger(CONTAINERD_2, config.missed_grace))
    chronicle.listen(Reporter(node))
    inquiring, histograms = Inquiring(endpoint, chronicle), Histograms(registry)
    shared = Witnessing(
        node=node,
        chronicle=chronicle,
        histograms=histograms,
        inquiring=inquiring,
        decoder=Decoder(node.malformed),
    )
    intake = Intake(shared, config.event_queue_capacity)
    relisting = Relisting(config, endpoint, intake, shared)
    streaming = Streaming(config, endpoint, intake, shared)
    try:
        yield Parts(
            node=node,
            chronicle=chronicle,
            registry=registry,
            histograms=histograms,
            endpoint=endpoint,
            intake=intake,
            inquiring=inquiring,
            relisting=relisting,
            streaming=streaming,
        )
    finally:
        await endpoint.close()


@asynccontextmanager
async def running(*loops: Coroutine[Any, Any, None]) -> AsyncIterator[None]:
    """These loops as tasks; what one of them raises is raised here."""
    tasks = [asyncio.create_task(loop) for loop in loops]
    try:
        yield
    finally:
        for task in tasks:
            task.cancel()
        for task in tasks:
            with contextlib.suppress(asyncio.CancelledError):
                await task


def raw_event(
    container: str, what: EventType, created_at_ns: int | None = None, sandbox: str = ""
) -> bytes:
    """An event as the runtime sends it, made now unless told otherwise."""
    status = cri.PodSandboxStatus(
        id=sandbox, metadata=cri.PodSandboxMetadata(name="web-0", uid="u-1", namespace="shop")
    )
    return cri.ContainerEventResponse(
        container_id=container,
        container_event_type=cri.ContainerEventType.Name(what),
        created_at=time.time_ns() if created_at_ns is None else created_at_ns,
        pod_sandbox_status=status if sandbox else None,
    ).SerializeToString()
