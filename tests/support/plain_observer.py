"""A whole observer over the socket: the exporter's ledger behind a plain CRI client.

Here: one stream and one relist loop, as small as they can be.
"""

from __future__ import annotations

import asyncio
import contextlib
import time

import grpc.aio

from exporter.cri.decode import Decoder
from exporter.pleg.events import Inquiry, Relist
from exporter.pleg.facts import Inquired, StreamDown, StreamUp
from exporter.pleg.ledger import Ledger
from exporter.pleg.profiles import profile_of
from exporter.simulator.node import Node
from tests.support.plain_client import Client
from tests.support.witness import Counts, compare

GRACE = 0.15
PERIOD = 0.03


class Observer:
    """Watches a node until cancelled; `disagreements` compares with the node's truth."""

    def __init__(self, node: Node, grace: float = GRACE) -> None:
        self._node = node
        self._client = Client(node.server.socket)
        manners = node.server.runtime.manners
        self._ledger = Ledger(profile_of(manners.name, manners.version), grace)
        self._decoder = Decoder()
        self._counts = Counts()

    async def run(self) -> None:
        """Stream and relist, for ever."""
        try:
            async with asyncio.TaskGroup() as group:
                group.create_task(self._stream())
                group.create_task(self._relists())
        finally:
            await self._client.close()

    def disagreements(self, *names: str) -> list[str]:
        """Where the truth and the counts differ now, in these totals or in all."""
        return compare(self._node.summary().rows, self._counts, names)

    async def _stream(self) -> None:
        number = 0
        while True:
            number += 1
            with contextlib.suppress(grpc.aio.AioRpcError):
                await self._client.version()
                began_ns = time.time_ns()
                call = self._client.events().call
                self._ledger.take(StreamUp(time.monotonic(), began_ns))
                async for raw in call:
                    self._take(raw, number)
            self._ledger.take(StreamDown(time.monotonic()))
            await asyncio.sleep(PERIOD)

    def _take(self, raw: bytes, number: int) -> None:
        event = self._decoder.announcement(raw, time.monotonic(), time.time_ns(), number)
        if event is not None:
            self._counts.take(self._ledger.take(event).findings)

    async def _relists(self) -> None:
        while True:
            with contextlib.suppress(grpc.aio.AioRpcError):
                await self._relist()
            await asyncio.sleep(PERIOD)

    async def _relist(self) -> None:
        requested, requested_ns = time.monotonic(), time.time_ns()
        pods = await self._client.call("ListPodSandbox")
        rest = await self._client.call("ListContainers")
        items = tuple(self._decoder.lists([pods], [rest]))
        relist = Relist(requested, time.monotonic(), requested_ns, items)
        taken = self._ledger.take(relist)
        self._counts.take(taken.findings)
        for container_id in taken.doubts:
            with contextlib.suppress(grpc.aio.AioRpcError):
                status = await self._client.status(container_id)
                told = Inquiry.STARTED if status.started_at else Inquiry.NEVER_STARTED
                self._ledger.take(Inquired(time.monotonic(), container_id, told))
