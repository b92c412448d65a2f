"""The reference: a process that reads the event stream as bytes and does nothing with them.

What it costs is gRPC for Python and nothing else. Each line on stdin is
answered with how many events it has read. Options of the channel are
`--option NAME=NUMBER`; with `--as-exporter` it is the exporter's own channel.
"""

from __future__ import annotations

import argparse
import asyncio
from pathlib import Path
from typing import Any
from urllib.parse import quote

import grpc.aio

from bench.control import obey
from bench.standstill import hold_on_signal
from exporter.cri import runtime_v1_pb2 as pb
from exporter.cri.endpoint import Endpoint

_METHOD = "/runtime.v1.RuntimeService/GetContainerEvents"


class Bare:
    """Counts."""

    def __init__(self) -> None:
        self._read = 0

    async def run(self, channel: Any) -> None:  # noqa: ANN401 - the stubs know no optional arguments
        """Read for ever."""
        call = channel.unary_stream(_METHOD)(pb.GetEventsRequest().SerializeToString())
        async for _ in call:
            self._read += 1

    async def command(self, _word: str, _numbers: list[float]) -> dict[str, Any]:
        """How many so far."""
        return {"read": self._read}


async def _main(given: argparse.Namespace) -> None:
    hold_on_signal(given.hold)
    bare = Bare()
    reading = asyncio.create_task(bare.run(await _channel(given)))
    await obey(bare.command)
    reading.cancel()


async def _channel(given: argparse.Namespace) -> Any:  # noqa: ANN401 - as above
    if given.as_exporter:
        # Private there; options copied to here would not be the same for long.
        return vars(await Endpoint(Path(given.socket)).separate())["_channel"]
    options = [
        (name, int(number)) for name, _, number in (text.partition("=") for text in given.option)
    ]
    return grpc.aio.insecure_channel(f"unix:/{quote(given.socket[1:])}", options=options)


def _arguments() -> argparse.Namespace:
    parser = argparse.ArgumentParser(prog="bench.bare")
    parser.add_argument("--socket", required=True)
    parser.add_argument("--option", action="append", default=[], metavar="NAME=NUMBER")
    parser.add_argument("--as-exporter", action="store_true")
    parser.add_argument("--hold", type=int, default=4, metavar="SECONDS")
    return parser.parse_args()


if __name__ == "__main__":
    asyncio.run(_main(_arguments()))
