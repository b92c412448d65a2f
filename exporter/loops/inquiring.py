"""Asks `ContainerStatus` about containers of which the ledger doubts that they ever ran.

One question at a time; the ledger repeats what stays open, so nothing that
does not fit here is lost.
"""

from __future__ import annotations

import asyncio
from collections.abc import Iterable
from typing import Final

import structlog

from exporter.cri.connect import Endpoint
from exporter.errors import CriError
from exporter.pleg.ledger import Ledger

_log = structlog.get_logger()

_TIMEOUT: Final = 5.0
_WAITING: Final = 256


class Inquiring:
    """A bounded set of open questions, and the task that asks them."""

    def __init__(self, endpoint: Endpoint, ledger: Ledger) -> None:
        self._endpoint = endpoint
        self._ledger = ledger
        self._asked: dict[str, None] = {}
        self._some = asyncio.Event()

    def ask(self, container_ids: Iterable[str]) -> None:
        """Queue questions; those beyond the bound are left for the ledger to repeat."""
        for container_id in container_ids:
            if len(self._asked) < _WAITING:
                self._asked[container_id] = None
                self._some.set()

    async def run(self) -> None:
        """Ask, for ever. No answer is no fact."""
        while True:
            await self._some.wait()
            while self._asked:
                container_id = next(iter(self._asked))
                await self._inquire(container_id)
                self._asked.pop(container_id, None)
            self._some.clear()

    async def _inquire(self, container_id: str) -> None:
        try:
            client = self._endpoint.shared()
            answer = await client.inquire(container_id, _TIMEOUT)
        except CriError as error:
            _log.debug("container not asked", id=container_id, error=str(error))
        else:
            self._ledger.inquired(container_id, answer)
