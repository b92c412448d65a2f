"""The kubelet's belief: watches its pods, passes on changes, and asks about pods in doubt.

A kubelet that is absent, refuses, restarts or sends nonsense is a state; the ledger then learns
that what the kubelet showed is void. Invariant: at most one attempt a second, or one a minute if
another would fail alike; and ten questions a second, of the hundred that a kubelet answers in all.
"""

import asyncio
import time
from dataclasses import replace
from pathlib import Path
from typing import Final

from exporter.errors import KubeletError
from exporter.kubelet.pods import PodsClient, reach
from exporter.loops.context import LoopContext
from exporter.model.facts import BeliefsLost, BeliefsShown, KubeletFact
from exporter.model.labels import KubeletPods, PodsEnd
from exporter.timing import MIN_SPACING

# Ends after which a retry costs too much, or helps only with another kubelet.
_SLOW: Final = (PodsEnd.OVERFLOW, PodsEnd.MALFORMED, PodsEnd.UNSUPPORTED)
_SLOW_SECONDS: Final = 60.0
_ASK_SECONDS: Final = 0.1
# After one of these ends the kubelet may have restarted, and so it may if its socket is young: each
# kubelet creates its own.
_RESTARTS: Final = (PodsEnd.UNAVAILABLE, PodsEnd.NOT_SYNCHRONIZED)
_YOUNG_SECONDS: Final = 120.0


class Believing:
    """Watches the pods of the kubelet at `--kubelet-pods-endpoint`."""

    def __init__(self, context: LoopContext) -> None:
        self._context = context
        self._path = context.config.kubelet_pods_endpoint
        # Whether this watch has shown anything, which is void once the watch ends.
        self._has_shown = False
        self._restarted = False
        self._pods = context.node.pods
        self._pods.state, self._pods.note = KubeletPods.UNAVAILABLE, "not watched yet"

    async def run(self) -> None:
        """Watch until cancelled."""
        while True:
            began = time.monotonic()
            end, note = await self._attempt()
            self._restarted |= end in _RESTARTS
            self._conclude(end, note)
            await asyncio.sleep(max(0.0, began + _pause(end) - time.monotonic()))

    async def _attempt(self) -> tuple[PodsEnd, str]:
        try:
            reach(self._path)
        except KubeletError as error:
            return PodsEnd(error.reason), str(error)
        client = PodsClient(self._path)
        try:
            async with asyncio.TaskGroup() as group:
                asking = group.create_task(self._ask(client))
                end, note = await self._watch(client)
                asking.cancel()
        finally:
            await client.close()
        self._pods.ends[end.value] += 1
        return end, note

    async def _watch(self, client: PodsClient) -> tuple[PodsEnd, str]:
        try:
            await client.watch(self._take)
        except KubeletError as error:
            return PodsEnd(error.reason), str(error)
        return PodsEnd.EOF, "the kubelet ended the watch"

    async def _ask(self, client: PodsClient) -> None:
        """Ask about each pod that the ledger doubts; a pod without an answer stays in doubt."""
        beliefs = self._context.chronicle.ledger.beliefs
        while True:
            await asyncio.sleep(MIN_SPACING)
            for pod in list(beliefs.doubted.values()):
                note, pause = "", _ASK_SECONDS
                try:
                    fact = await client.ask(pod)
                    if fact is not None:
                        self._take(fact)
                except KubeletError as error:
                    note = f"what it shows cannot be confirmed: {error}"
                    pause = _pause(PodsEnd(error.reason))
                self._pods.become(KubeletPods.WATCHING, note)
                await asyncio.sleep(pause)

    def _take(self, fact: KubeletFact) -> None:
        self._has_shown = not isinstance(fact, BeliefsLost)
        if isinstance(fact, BeliefsShown):
            self._pods.become(KubeletPods.WATCHING)
            fact = replace(fact, restarted=self._restarted or _is_young(self._path))
            self._restarted = False
        self._context.chronicle.record(fact)

    def _conclude(self, end: PodsEnd, note: str) -> None:
        if self._has_shown:
            self._take(BeliefsLost(time.monotonic()))
        denied = end is PodsEnd.DENIED
        self._pods.become(KubeletPods.DENIED if denied else KubeletPods.UNAVAILABLE, note)


def _pause(end: PodsEnd) -> float:
    return _SLOW_SECONDS if end in _SLOW else MIN_SPACING


def _is_young(path: Path) -> bool:
    try:
        made = path.stat().st_mtime
    except OSError:
        return True
    return time.time() - made < _YOUNG_SECONDS
