"""Whether a stream that only one subscriber may have is left to us, and when that changes.

Here: the arbiter between the kubelet's gate and the subscription. Not here: asking the kubelet
(`asking`), what its answers mean (`state`).
"""

from __future__ import annotations

import asyncio
import time
from collections.abc import Coroutine
from typing import Any, Final

from exporter.cri.client import StreamEnd
from exporter.kubelet.state import Kubelet

# The reason of a subscription's end.
GAVE_WAY: Final = "kubelet"


class Sharing:
    """Whether a stream that only one may have is left to us, and the moments at which that changes.

    Without a kubelet to ask it never is.
    """

    def __init__(self, kubelet: Kubelet | None) -> None:
        self._kubelet = kubelet
        self._turned = asyncio.Event()
        self.watched = asyncio.Event()

    def watch(self, wanted: bool) -> None:  # noqa: FBT001 - a state, not an option
        """Whether anything depends on it: where it does, the kubelet is asked more often."""
        if self._kubelet is None or self._kubelet.watched is wanted:
            return
        self._kubelet.watched = wanted
        if wanted:
            self.watched.set()

    @property
    def has_kubelet(self) -> bool:
        """Whether there is a kubelet to ask."""
        return self._kubelet is not None

    def objection(self) -> str:
        """Why the stream is not ours now; empty if it is."""
        if self._kubelet is None or not self._kubelet.watched:
            return "no kubelet is asked"
        return self._kubelet.objection(time.monotonic())

    def notify(self) -> None:
        """Something was learnt: those who wait look again."""
        turned, self._turned = self._turned, asyncio.Event()
        turned.set()

    async def wait_for_first_reading(self, within: float) -> None:
        """Wait until the kubelet was asked for the first time, at most for so many seconds."""
        due = time.monotonic() + within
        while self._kubelet and not self._kubelet.asked and time.monotonic() < due:
            await self._wait_until(due)

    async def wait_until_granted(self, within: float) -> None:
        """Wait until the stream is ours, at most for so many seconds."""
        due = time.monotonic() + within
        while self.objection() and time.monotonic() < due:
            await self._wait_until(due)

    async def while_granted(self, holding: Coroutine[Any, Any, StreamEnd]) -> StreamEnd:
        """Hold a subscription until it ends by itself, or has to be left."""
        task = asyncio.create_task(holding)
        leaving = asyncio.create_task(self._withdrawn())
        try:
            await asyncio.wait({task, leaving}, return_when=asyncio.FIRST_COMPLETED)
            if task.done():
                return task.result()
            # The kubelet may want the events.
            return StreamEnd(GAVE_WAY, leaving.result())
        finally:
            task.cancel()
            leaving.cancel()
            await asyncio.gather(task, leaving, return_exceptions=True)

    async def _withdrawn(self) -> str:
        while not (objection := self.objection()):
            # Not even a silent kubelet is trusted for longer.
            await self._wait_until(self._kubelet.trusted_until() if self._kubelet else 0.0)
        return objection

    async def _wait_until(self, due: float) -> None:
        try:
            # A clock's tick later, so that it is past, not just reached.
            async with asyncio.timeout(max(0.0, due - time.monotonic()) + 0.001):
                await self._turned.wait()
        except TimeoutError:
            pass
