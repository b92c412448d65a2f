"""The floor: the least that does an exporter's work with the libraries that it is built upon.

It relists, reads the events, decodes both and counts them on a page for Prometheus: grpc.aio,
protobuf, prometheus-client and aiohttp at work, and nothing of ours but the generated messages
and how memory is held. Here: for comparing memory. It finds nothing out.
"""

from __future__ import annotations

import argparse
import asyncio
import sys
from typing import Any, Final
from urllib.parse import quote

import grpc.aio
from aiohttp import web
from prometheus_client import Counter
from prometheus_client.aiohttp import make_aiohttp_handler

from exporter.cri import runtime_v1_pb2 as pb
from exporter.process.footprint import keep_small

_SERVICE: Final = "/runtime.v1.RuntimeService/"
_PERIOD: Final = 0.2
_LARGEST: Final = 64 * 1024 * 1024

_seen = Counter("seen", "Events and lists.", ["what"])


async def _relist(channel: Any) -> None:  # noqa: ANN401 - the stubs know no optional arguments
    while True:
        for method, answer in (
            ("ListPodSandbox", pb.ListPodSandboxResponse),
            ("ListContainers", pb.ListContainersResponse),
        ):
            answer.FromString(await channel.unary_unary(_SERVICE + method)(b""))
            _seen.labels(method).inc()
        await asyncio.sleep(_PERIOD)


async def _read(channel: Any) -> None:  # noqa: ANN401 - as above
    async for raw in channel.unary_stream(_SERVICE + "GetContainerEvents")(b""):
        event = pb.ContainerEventResponse.FromString(raw)
        _seen.labels(event.pod_sandbox_status.metadata.namespace).inc()


async def _main(socket: str) -> None:
    options = [("grpc.max_receive_message_length", _LARGEST)]
    channel: Any = grpc.aio.insecure_channel(f"unix:/{quote(socket[1:])}", options=options)
    application = web.Application()
    application.router.add_get("/metrics", make_aiohttp_handler())
    runner = web.AppRunner(application)
    await runner.setup()
    await web.TCPSite(runner, "127.0.0.1", 0).start()
    host, port = runner.addresses[0]
    sys.stderr.write(f"msg=serving url=http://{host}:{port}/\n")
    sys.stderr.flush()
    await asyncio.gather(_relist(channel), _read(channel))


if __name__ == "__main__":
    parser = argparse.ArgumentParser(prog="bench.least")
    parser.add_argument("--socket", required=True)
    keep_small()
    asyncio.run(_main(parser.parse_args().socket))
