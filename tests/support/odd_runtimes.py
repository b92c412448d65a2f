"""Runtimes for tests, each on a socket of its own: one that is simulated, and odd ones.

Here: how they come to listen. Not here: what a simulated one can do (`exporter.simulator`).
"""

from __future__ import annotations

import contextlib
import os
import tempfile
from collections.abc import AsyncIterator, Iterator
from pathlib import Path

import grpc.aio

from exporter.cri import runtime_v1_pb2 as pb
from exporter.simulator.options import Options
from exporter.simulator.runtime import SimulatedRuntime
from exporter.simulator.server import SimulatedServer, serve

NOBODY = 65534
QUIET = Options(churn=0)


@contextlib.contextmanager
def folder() -> Iterator[Path]:
    """A folder whose path is short enough for a socket, and open to everybody."""
    with tempfile.TemporaryDirectory(prefix="sp-") as name:
        path = Path(name)
        path.chmod(0o755)
        yield path


@contextlib.asynccontextmanager
async def simulated(options: Options = QUIET) -> AsyncIterator[SimulatedServer]:
    """A simulated runtime in which nothing happens by itself."""
    with folder() as here:
        async with serve(SimulatedRuntime(options), here / "cri.sock") as server:
            yield server


@contextlib.asynccontextmanager
async def grpc_without_cri(*handlers: grpc.GenericRpcHandler[bytes, bytes]) -> AsyncIterator[Path]:
    """The socket of a gRPC server that has just these methods; by default none."""
    with folder() as here:
        socket = here / "grpc.sock"
        server = grpc.aio.server(handlers=handlers)
        server.add_insecure_port(f"unix:{socket}")
        await server.start()
        try:
            yield socket
        finally:
            await server.stop(0)


def calls_itself(name: str, version: str) -> bytes:
    """The answer to Version of a runtime of that name."""
    return pb.VersionResponse(
        version="0.1.0", runtime_name=name, runtime_version=version, runtime_api_version="v1"
    ).SerializeToString()


@contextlib.contextmanager
def without_privileges() -> Iterator[int]:
    """Nobody's rights for a moment, if we have root's; gives the uid in force."""
    if os.geteuid():
        yield os.geteuid()
        return
    os.seteuid(NOBODY)
    try:
        yield NOBODY
    finally:
        os.seteuid(0)
