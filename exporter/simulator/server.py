"""The runtime's socket: a gRPC server that can be stopped and restarted.

Handles listening, restarts, disconnects, and sends delayed announcements when due.
"""

from __future__ import annotations

import asyncio
import contextlib
import socket
from collections.abc import AsyncIterator
from pathlib import Path
from typing import Final

import grpc.aio

from exporter.pleg.events import EventType
from exporter.simulator.calls import CallFaults
from exporter.simulator.channel import End
from exporter.simulator.records import Notice
from exporter.simulator.runtime import SimulatedRuntime
from exporter.simulator.service import RuntimeService

# How many seconds a restarting runtime is away.
OUTAGE: Final = 2.0

_STOP_GRACE: Final = 0.3
_PROBE: Final = 1.0
_OPTIONS: Final = (
    ("grpc.max_send_message_length", -1),
    ("grpc.so_reuseport", 0),
)


class SimulatedServer:
    """A runtime on a unix socket; created by `serve`.

    `faults`: the faults of the next calls. Faults of announcements are in `runtime.outbox`.
    """

    def __init__(self, runtime: SimulatedRuntime, path: Path) -> None:
        self.runtime = runtime
        self.socket = path
        self.faults = CallFaults()
        self._listener: grpc.aio.Server | None = None
        self._service = RuntimeService(runtime, self.faults)

    @property
    def endpoint(self) -> str:
        """The socket, in the form that `--runtime-endpoint` accepts."""
        return f"unix://{self.socket}"

    def disconnect(self, end: End = End.UNAVAILABLE) -> None:
        """End all streams now; announcements not yet sent to their clients are lost."""
        self.runtime.channel.end_all(end)

    def announce_raw(self, payload: bytes) -> None:
        """Send these bytes to the subscribers as if they were an announcement."""
        notice = Notice("", EventType.CREATED, self.runtime.wall_ns(), payload=payload)
        self.runtime.channel.publish(notice)

    async def go_down(self) -> None:
        """The runtime dies: streams end its way, the socket is gone, all calls fail."""
        self.runtime.go_down()
        self.disconnect(End.CLEAN if self.runtime.manners.clean_end else End.UNAVAILABLE)
        await self._close()

    async def come_up(self) -> None:
        """The runtime is back on the same path, with its state intact."""
        self.runtime.come_up()
        await self._open()

    async def restart(self, outage: float = OUTAGE) -> None:
        """Go down and come up `outage` seconds later."""
        await self.go_down()
        await asyncio.sleep(outage)
        await self.come_up()

    async def _open(self) -> None:
        _clear(self.socket)
        listener = grpc.aio.server(options=_OPTIONS)
        listener.add_generic_rpc_handlers((self._service.handlers(),))
        try:
            listener.add_insecure_port(self.endpoint)
        except RuntimeError as error:
            raise OSError(f"cannot listen on {self.socket}: {error}") from None
        await listener.start()
        self._listener = listener

    async def _close(self) -> None:
        """Let responses in transit arrive, then close."""
        if self._listener is not None:
            await self._listener.stop(_STOP_GRACE)
            self._listener = None
            self.socket.unlink(missing_ok=True)

    async def _clockwork(self) -> None:
        """Send what the outbox delayed, when it is due."""
        outbox, runtime = self.runtime.outbox, self.runtime
        wake = asyncio.Event()
        outbox.changed = wake.set
        while True:
            wake.clear()
            due_ns = outbox.due_ns
            wait = None if due_ns is None else max(0.0, (due_ns - runtime.wall_ns()) / 1e9)
            with contextlib.suppress(TimeoutError):
                await asyncio.wait_for(wake.wait(), wait)
            outbox.flush(runtime.wall_ns())


@contextlib.asynccontextmanager
async def serve(runtime: SimulatedRuntime, path: Path) -> AsyncIterator[SimulatedServer]:
    """Serve `runtime` on the socket `path` until exit; OSError if that is impossible.

    On exit, streams end as in a restart, and the socket is removed.
    """
    server = SimulatedServer(runtime, path)
    clockwork = asyncio.create_task(server._clockwork())  # noqa: SLF001 -- its own factory
    try:
        await server._open()  # noqa: SLF001
        yield server
    finally:
        clockwork.cancel()
        await asyncio.gather(clockwork, return_exceptions=True)
        await server.go_down()


def _clear(path: Path) -> None:
    """Remove a socket without a server; OSError for anything else at that path."""
    if not path.exists():
        return
    if not path.is_socket():
        raise FileExistsError(f"{path} exists and is no socket")
    with socket.socket(socket.AF_UNIX) as probe:
        probe.settimeout(_PROBE)
        try:
            probe.connect(str(path))
        except ConnectionRefusedError:
            path.unlink(missing_ok=True)
            return
    raise FileExistsError(f"somebody serves {path} already")
