"""A runtime that refuses calls with a GOAWAY costs no memory."""

import asyncio
import struct
import sys
from pathlib import Path

from tests import ROOT

PREFACE_BYTES = 24
SETTINGS = b"\0\0\0\x04\0\0\0\0\0"
GOAWAY = b"\0\0\x08\x07\0\0\0\0\0" + struct.pack(">II", 0, 0)
HEADERS = 1
# How many a client makes at once.
CALLS = 2
# Of resident memory. The calls themselves take 3; with retries it was 20 to 5000.
MOST_MIB = 10.0
PROGRAM = """
import asyncio, sys
from pathlib import Path
from exporter.cri.client import CriClient
from exporter.errors import CriError

def peak():
    status = Path("/proc/self/status").read_text(encoding="ascii")
    return next(int(line.split()[1]) / 1024 for line in status.splitlines() if "VmHWM" in line)

async def main():
    before = peak()
    clients = [CriClient(Path(sys.argv[1])) for _ in range(20)]
    calls = [call(5.0) for each in clients for call in (each.version, each.lists)]
    outcomes = await asyncio.gather(*calls, return_exceptions=True)
    print(peak() - before, sum(isinstance(each, CriError) for each in outcomes))

asyncio.run(main())
"""


async def refuse(reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
    """Accept a connection, and once both calls have come, refuse them."""
    writer.write(SETTINGS)
    await reader.readexactly(PREFACE_BYTES)
    calls = 0
    while calls < CALLS:
        high, low, kind = struct.unpack(">HBB5x", await reader.readexactly(9))
        await reader.readexactly(high << 8 | low)
        calls += kind == HEADERS
    writer.write(GOAWAY)
    # The client ends it.
    await reader.read()
    writer.close()


async def test_calls_that_a_goaway_refuses_take_no_memory(tmp_path: Path) -> None:
    """By default gRPC retries them in a loop without pause, and keeps what each attempt took."""
    socket = tmp_path / "cri.sock"
    async with await asyncio.start_unix_server(refuse, socket):
        process = await asyncio.create_subprocess_exec(
            *(sys.executable, "-c", PROGRAM, str(socket)), stdout=asyncio.subprocess.PIPE, cwd=ROOT
        )
        out, _ = await process.communicate()
    grown, failed = out.split()
    assert int(failed) == 40
    assert float(grown) < MOST_MIB
