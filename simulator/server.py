"""The runtime's socket: a gRPC server that restarts, disconnects and sends what was delayed."""

from __future__ import annotations

import asyncio
import contextlib
import time
from pathlib import Path
from typing import Final, Self

import grpc.aio

from exporter.cri.endpoint import make_way
from simulator.channel import StreamEnding
from simulator.service import SERVICE, RuntimeService

# How long a restarting runtime is away.
_OUTAGE_SECONDS: Final = 2.0
_STOP_GRACE_SECONDS: Final = 0.3
_OPTIONS: Final = (("grpc.max_send_message_length", -1), ("grpc.so_reuseport", 0))


async def listening(
    path: Path, service: str, handlers: dict[str, grpc.RpcMethodHandler[bytes, bytes]]
) -> grpc.aio.Server:
    """A server of these methods on a socket, which replaces what is there; OSError if it cannot."""
    make_way(path)
    server = grpc.aio.server(options=_OPTIONS)
    server.add_generic_rpc_handlers((grpc.method_handlers_generic_handler(service, handlers),))
    try:
        server.add_insecure_port(f"unix://{path}")
    except RuntimeError as error:
        raise OSError(f"cannot listen on {path}: {error}") from None
    await server.start()
    return server


class SimulatedServer:
    """A runtime on the socket `path`, from entry to exit, which ends streams as a restart does.

    OSError on entry if it cannot listen.
    """

    def __init__(self, service: RuntimeService, path: Path) -> None:
        self.runtime = service.runtime
        self.socket = path
        self._handlers = {each.value: handler for each, handler in service.handlers().items()}
        self._listener: grpc.aio.Server | None = None
        self._clockwork: asyncio.Task[None] | None = None

    async def __aenter__(self) -> Self:
        await self._open()
        self._clockwork = asyncio.create_task(self._send_delayed())
        return self

    async def __aexit__(self, *_: object) -> None:
        if self._clockwork is not None:
            self._clockwork.cancel()
            await asyncio.gather(self._clockwork, return_exceptions=True)
        await self.go_down()

    @property
    def endpoint(self) -> str:
        """The socket, in the form that `--runtime-endpoint` accepts."""
        return f"unix://{self.socket}"

    def disconnect(self, ending: StreamEnding = StreamEnding.UNAVAILABLE) -> None:
        """End all streams now; announcements not yet sent to their clients are lost."""
        self.runtime.channel.end_all(ending)

    async def go_down(self) -> None:
        """The runtime dies: streams end its way, the socket is gone, all calls fail."""
        self.runtime.go_down()
        clean = self.runtime.behaviour.clean_end
        self.disconnect(StreamEnding.CLEAN if clean else StreamEnding.UNAVAILABLE)
        if self._listener is not None:
            # Let responses in transit arrive.
            await self._listener.stop(_STOP_GRACE_SECONDS)
            self._listener = None
            self.socket.unlink(missing_ok=True)

    async def come_up(self) -> None:
        """The runtime is back on the same path, with its state intact."""
        self.runtime.up = True
        await self._open()

    async def restart(self) -> None:
        """Go down, and come up a little later."""
        await self.go_down()
        await asyncio.sleep(_OUTAGE_SECONDS)
        await self.come_up()

    async def _open(self) -> None:
        self._listener = await listening(self.socket, SERVICE, self._handlers)

    async def _send_delayed(self) -> None:
        outbox, wake = self.runtime.outbox, asyncio.Event()
        outbox.changed = wake.set
        while True:
            wake.clear()
            due_ns = outbox.due_ns
            wait = None if due_ns is None else max(0.0, (due_ns - time.time_ns()) / 1e9)
            with contextlib.suppress(TimeoutError):
                await asyncio.wait_for(wake.wait(), wait)
            outbox.flush(time.time_ns())
