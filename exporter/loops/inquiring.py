"""Asks `ContainerStatus` what neither the lists nor the stream can show.

It asks whether a container ever ran, if the ledger doubts that. It also checks, one container per
relist, whether an exited container has been deleted behind the CRI. One call at a time; the ledger
repeats open questions, so dropping those that do not fit loses nothing.
"""

import asyncio
import time
from collections.abc import Awaitable, Callable, Iterable
from typing import Final

import structlog

from exporter.cri.client import TIMED_OUT, CriClient
from exporter.cri.endpoint import Endpoint
from exporter.errors import CriError
from exporter.model.events import Inquiry
from exporter.model.facts import Inquired
from exporter.model.labels import Call
from exporter.node.chronicle import Chronicle
from exporter.node.state import Node, words_of

_log = structlog.get_logger()

_Question = Callable[[CriClient, str, float], Awaitable[Inquiry | None]]

_TIMEOUT: Final = 5.0
_WAITING: Final = 256


class Inquiring:
    """A bounded set of open questions, and the task that asks them."""

    def __init__(self, endpoint: Endpoint, chronicle: Chronicle, node: Node) -> None:
        self._endpoint = endpoint
        self._node = node
        self._chronicle = chronicle
        self._asked: dict[str, None] = {}
        self._audited: str | None = None
        self._some = asyncio.Event()

    def ask(self, container_ids: Iterable[str]) -> None:
        """Queue a question about each container; the ledger repeats those that do not fit."""
        for container_id in container_ids:
            if len(self._asked) < _WAITING:
                self._asked[container_id] = None
                self._some.set()

    def audit(self, container_id: str) -> None:
        """Check whether that exited container still exists; a newer request replaces this one."""
        self._audited = container_id
        self._some.set()

    async def run(self) -> None:
        """Ask questions until cancelled. A missing answer is not a fact."""
        while True:
            await self._some.wait()
            while self._asked:
                container_id = next(iter(self._asked))
                await self._put(CriClient.inquire, container_id)
                self._asked.pop(container_id, None)
            audited, self._audited = self._audited, None
            if audited is not None:
                await self._put(CriClient.audit, audited)
            if not self._asked:
                self._some.clear()

    async def _put(self, question: _Question, container_id: str) -> None:
        hanging, began = self._node.hanging, time.monotonic()
        known = hanging.pop(container_id, "")
        try:
            answer = await question(self._endpoint.for_lists(), container_id, _TIMEOUT)
        except CriError as error:
            if error.reason == TIMED_OUT and len(hanging) < _WAITING:
                hanging[container_id] = self._words(container_id)
            write = _log.warning if container_id in hanging and not known else _log.debug
            named = hanging.get(container_id, "")
            write("container not asked", id=container_id, container=named, error=str(error))
            return
        finally:
            self._node.time_call(Call.STATUS, time.monotonic() - began)
        if answer is not None:
            self._chronicle.record(Inquired(time.monotonic(), container_id, answer))

    def _words(self, container_id: str) -> str:
        item = self._node.listed.get(container_id)
        return words_of(item) if item is not None else container_id
