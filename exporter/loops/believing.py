"""The kubelet's belief: watches its pods, and passes on what changes.

A kubelet that is absent, refuses, restarts or sends nonsense is a state, and the ledger learns that
what was shown is void. Invariant: one attempt a second at most; where another would end in the same
way, one a minute.
"""

import asyncio
import time
from typing import Final

import structlog

from exporter.errors import KubeletError
from exporter.kubelet.pods import reach, watch
from exporter.loops.intake import Shared
from exporter.model.facts import BeliefsLost, BeliefsShown, KubeletFact
from exporter.model.labels import KubeletPods, PodsEnd
from exporter.timing.backoff import MIN_SPACING

_log = structlog.get_logger()

# What costs something each time, or is served again only by another kubelet.
_SLOW: Final = (PodsEnd.OVERFLOW, PodsEnd.MALFORMED, PodsEnd.UNSUPPORTED)
_SLOW_SECONDS: Final = 60.0


class Believing:
    """Watches the pods of the kubelet at `--kubelet-pods-endpoint`."""

    def __init__(self, shared: Shared) -> None:
        self._shared = shared
        self._path = shared.config.kubelet_pods_endpoint
        # Whether this watch has shown anything, which is void once it ends.
        self._has_shown = False
        shared.node.pods, shared.node.pods_note = KubeletPods.UNAVAILABLE, "not watched yet"

    async def run(self) -> None:
        """Watch until cancelled."""
        while True:
            began = time.monotonic()
            end, note = await self._attempt()
            self._conclude(end, note)
            pause = _SLOW_SECONDS if end in _SLOW else MIN_SPACING
            await asyncio.sleep(max(0.0, began + pause - time.monotonic()))

    async def _attempt(self) -> tuple[PodsEnd, str]:
        end, note = PodsEnd.EOF, "the kubelet ended the watch"
        try:
            reach(self._path)
        except KubeletError as error:
            return PodsEnd(error.reason), str(error)
        try:
            await watch(self._path, self._take)
        except KubeletError as error:
            end, note = PodsEnd(error.reason), str(error)
        self._shared.node.pods_ends[end] += 1
        return end, note

    def _take(self, fact: KubeletFact) -> None:
        self._has_shown = not isinstance(fact, BeliefsLost)
        if isinstance(fact, BeliefsShown):
            self._set(KubeletPods.WATCHING, "")
        self._shared.chronicle.take(fact)

    def _conclude(self, end: PodsEnd, note: str) -> None:
        if self._has_shown:
            self._take(BeliefsLost(time.monotonic()))
        denied = end is PodsEnd.DENIED
        self._set(KubeletPods.DENIED if denied else KubeletPods.UNAVAILABLE, note)

    def _set(self, state: KubeletPods, note: str) -> None:
        node = self._shared.node
        if (state, note) != (node.pods, node.pods_note):
            _log.info("kubelet's pods", state=state.value, note=note)
        node.pods, node.pods_note = state, note
