"""Decides whether the exporter may use an exclusive stream, and signals when that changes.

It arbitrates between the kubelet's gate and the subscription.
"""

from __future__ import annotations

import asyncio
import time
from collections.abc import Coroutine
from typing import Any, Final

from exporter.cri.client import StreamEnd
from exporter.kubelet.state import Kubelet

# The reason given when a subscription is dropped.
GAVE_WAY: Final = "kubelet"


class Sharing:
    """Whether the exporter may use an exclusive stream, and notification when that changes.

    Never granted without a kubelet to poll.
    """

    def __init__(self, kubelet: Kubelet | None) -> None:
        self._kubelet = kubelet
        self._turned = asyncio.Event()
        self.watched = asyncio.Event()

    def watch(self, wanted: bool) -> None:  # noqa: FBT001 - a state, not an option
        """Whether the answer matters; if so, the kubelet is polled more often."""
        if self._kubelet is None or self._kubelet.watched is wanted:
            return
        self._kubelet.watched = wanted
        if wanted:
            self.watched.set()

    @property
    def has_kubelet(self) -> bool:
        """Whether there is a kubelet to poll."""
        return self._kubelet is not None

    def objection(self) -> str:
        """Why the exporter may not use the stream now; empty if it may."""
        if self._kubelet is None or not self._kubelet.watched:
            return "no kubelet is asked"
        return self._kubelet.objection(time.monotonic())

    def notify(self) -> None:
        """Wake the waiting tasks: the kubelet's state has changed."""
        turned, self._turned = self._turned, asyncio.Event()
        turned.set()

    async def wait_for_first_reading(self, within: float) -> None:
        """Wait until the kubelet was polled for the first time, at most `within` seconds."""
        due = time.monotonic() + within
        while self._kubelet and not self._kubelet.asked and time.monotonic() < due:
            await self._wait_until(due)

    async def wait_until_granted(self, within: float) -> None:
        """Wait until the stream is granted, at most `within` seconds."""
        due = time.monotonic() + within
        while self.objection() and time.monotonic() < due:
            await self._wait_until(due)

    async def while_granted(self, holding: Coroutine[Any, Any, StreamEnd]) -> StreamEnd:
        """Hold a subscription until it ends or must be dropped."""
        task = asyncio.create_task(holding)
        leaving = asyncio.create_task(self._withdrawn())
        try:
            await asyncio.wait({task, leaving}, return_when=asyncio.FIRST_COMPLETED)
            if task.done():
                return task.result()
            # The kubelet may need the events.
            return StreamEnd(GAVE_WAY, leaving.result())
        finally:
            task.cancel()
            leaving.cancel()
            await asyncio.gather(task, leaving, return_exceptions=True)

    async def _withdrawn(self) -> str:
        while not (objection := self.objection()):
            # The grant expires even if the kubelet stays silent.
            await self._wait_until(self._kubelet.trusted_until() if self._kubelet else 0.0)
        return objection

    async def _wait_until(self, due: float) -> None:
        try:
            # One clock tick more, so that the time is past, not just reached.
            async with asyncio.timeout(max(0.0, due - time.monotonic()) + 0.001):
                await self._turned.wait()
        except TimeoutError:
            pass
