"""The runtime for load, for clients that encode headers in other ways than gRPC for C."""

import asyncio
import struct
from pathlib import Path

import pytest
from hpack import Encoder

from bench import golang
from bench.http2 import Connection, Stream
from bench.processes import firehose, wait_for
from testbed.fixtures import unavailable

PREFACE = b"PRI * HTTP/2.0\r\n\r\nSM\r\n\r\n"
HEADERS, END_HEADERS, END_STREAM = 1, 4, 1


@pytest.mark.quick
async def test_huffman_codes_and_the_header_table_are_understood(tmp_path: Path) -> None:
    """Each call arrives with its path, also where it only refers to what an earlier one spelt."""
    called: asyncio.Queue[Stream] = asyncio.Queue()
    loop = asyncio.get_running_loop()
    path = str(tmp_path / "runtime.sock")
    server = await loop.create_unix_server(
        lambda: Connection(called.put_nowait, lambda: None), path
    )
    _, writer = await asyncio.open_unix_connection(path)
    encoder = Encoder()
    writer.write(PREFACE)
    for number, name in ((1, "/service/Version"), (3, "/service/Events"), (5, "/service/Version")):
        fields = [(":method", "POST"), (":path", name), ("user-agent", "another")]
        block = encoder.encode(fields, huffman=True)
        writer.write(_frame(HEADERS, END_HEADERS, number, block) + _frame(0, END_STREAM, number))
    paths = [(await called.get()).path for _ in range(3)]
    writer.close()
    server.close()
    await server.wait_closed()
    assert paths == ["/service/Version", "/service/Events", "/service/Version"]


@pytest.mark.soak
@pytest.mark.timeout(600)
def test_a_client_in_go_is_served() -> None:
    """It relists and reads every event of a burst, beyond what its first window takes."""
    if not golang.is_here():
        unavailable("the Go compiler was not fetched: make go")
    with firehose(pods=50) as (runtime, socket), golang.client(socket, "10ms") as client:
        wait_for("it is subscribed", lambda: runtime.ask("ready")["subscribers"])
        sent = runtime.ask("burst 2000 30")["put"]
        wait_for("it has read all", lambda: client.ask("read")["read"] == sent == 2000)
        wait_for("it has relisted", lambda: len(runtime.ask("relists")["relists"]) > 1)


def _frame(kind: int, flags: int, number: int, payload: bytes = b"") -> bytes:
    size = len(payload)
    return struct.pack(">HBBBI", size >> 8, size & 0xFF, kind, flags, number) + payload
