"""Other subscribers of a runtime's events, as processes of their own."""

import asyncio
import sys
from collections.abc import AsyncIterator
from contextlib import asynccontextmanager

# With the buffers that gRPC has by default. It writes a line when the first event comes.
PLAIN = """
import sys, grpc
channel = grpc.insecure_channel("unix://" + sys.argv[1])
for number, _ in enumerate(
    channel.unary_stream("/runtime.v1.RuntimeService/GetContainerEvents")(b"")
):
    if not number:
        print(flush=True)
"""
# One with the window that gRPC for Go begins with, which asks something about each event before it
# reads the next one, as Falco does.
SERIAL = """
import sys, time, grpc
options = [("grpc.http2.bdp_probe", 0), ("grpc.http2.lookahead_bytes", 65536)]
channel = grpc.insecure_channel("unix://" + sys.argv[1], options)
for _ in channel.unary_stream("/runtime.v1.RuntimeService/GetContainerEvents")(b""):
    time.sleep(float(sys.argv[2]))
"""


@asynccontextmanager
async def subscriber(source: str, *arguments: str) -> AsyncIterator[asyncio.subprocess.Process]:
    """A process that runs `source`; killed at the end."""
    process = await asyncio.create_subprocess_exec(
        *(sys.executable, "-c", source, *arguments), stdout=asyncio.subprocess.PIPE
    )
    try:
        yield process
    finally:
        process.kill()
        await process.communicate()


async def first_event(process: asyncio.subprocess.Process) -> None:
    """Wait until that subscriber, a `PLAIN` one, has received an event."""
    assert process.stdout is not None
    async with asyncio.timeout(60):
        await process.stdout.readline()
