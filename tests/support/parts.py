"""The daemon's parts without their tasks, so that a test decides which of them runs."""

from __future__ import annotations

import asyncio
import contextlib
import time
from collections.abc import AsyncIterator, Coroutine
from contextlib import asynccontextmanager
from pathlib import Path
from typing import Any

from exporter.cri import runtime_v1_pb2 as cri
from exporter.daemon import Daemon
from exporter.pleg.events import EventType
from exporter.pleg.facts import ProfileChosen, StreamUp
from tests.support.observer import settings


@asynccontextmanager
async def parts(socket: Path | None = None, **others: Any) -> AsyncIterator[Daemon]:  # noqa: ANN401 - settings
    """A daemon that has met containerd 2 on `socket`, and runs no task."""
    async with Daemon.on(settings(socket, **others)) as daemon:
        daemon.chronicle.take(ProfileChosen(time.monotonic(), "containerd", "2.1.9"))
        yield daemon


def sample(daemon: Daemon, name: str) -> float:
    """One sample of a histogram."""
    value = daemon.registry.get_sample_value(name)
    assert value is not None, name
    return value


def subscribe(daemon: Daemon) -> None:
    """As if a subscription had just succeeded."""
    daemon.chronicle.take(StreamUp(time.monotonic(), time.time_ns()))


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
