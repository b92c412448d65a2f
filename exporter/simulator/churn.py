"""The churn: pods that come and go, containers that exit and are restarted.

Decides who dies next, and how long each phase lasts. The seed determines the sequence, but not its
timing. Phases last long enough for a relist to see most of them, as far as the rate allows; a pod
is removed only after a relist has shown it stopped, and on a runtime whose removals are ambiguous
only long after its last container was removed.
"""

from __future__ import annotations

import asyncio
import contextlib
import math
from collections.abc import Callable, Iterator
from dataclasses import dataclass
from typing import Final

from exporter.simulator.manners import Manners
from exporter.simulator.names import container_name
from exporter.simulator.options import Events
from exporter.simulator.runtime import SimulatedRuntime

# Seconds to wait for an observer before carrying on without one.
PATIENCE: Final = 10.0

_REPLACED_PODS: Final = 0.1
_LONGEST_LINGER: Final = 15.0
_LONGEST_STARTING: Final = 1.0
# Relists that must have been answered since a pod stopped, and the limit of that wait.
_RELISTS: Final = 2
_LIMIT: Final = 60.0
_AMBIGUOUS: Final = 30.0
_TICK: Final = 0.05


@dataclass(frozen=True, slots=True)
class _Place:
    """Where one life ends and the next begins: a pod, or (with `index`) a container in it."""

    pod: int
    index: int | None
    fails: bool = False


@dataclass(slots=True)
class _Pod:
    """The pod now in a place; `busy`: lives in it that are ending or beginning."""

    sandbox: str
    containers: list[str]
    attempts: list[int]
    busy: int = 0


class Churn:
    """Starts and ends containers at the configured rate: `populate`, `live`, then `quiesce`."""

    def __init__(self, runtime: SimulatedRuntime) -> None:
        self._runtime = runtime
        self._options = runtime.options
        self._rng = runtime.options.random("churn")
        self._pods: list[_Pod] = []
        self._quiet = asyncio.Event()
        self._idle = asyncio.Event()
        self._idle.set()
        total = runtime.options.pods * runtime.options.containers_per_pod
        life = total / runtime.options.churn if runtime.options.churn else _LONGEST_LINGER
        self._linger = min(_LONGEST_LINGER, life / 4)
        self._starting = min(_LONGEST_STARTING, life / 40)

    def populate(self) -> None:
        """Create all pods as if they had long been running: nothing is announced."""
        was_up, self._runtime.up = self._runtime.up, False
        self._pods = [self._new_pod(place) for place in range(self._options.pods)]
        self._runtime.up = was_up

    async def live(self) -> None:
        """End and begin lives at the configured rate, once there is an observer."""
        if not self._options.churn:
            return
        self._idle.clear()
        try:
            async with asyncio.TaskGroup() as lives:
                await self._watched()
                await self._live(lives)
        finally:
            self._idle.set()

    async def quiesce(self) -> None:
        """Begin no more lives, and finish those in progress at once."""
        self._quiet.set()
        await self._idle.wait()

    async def _live(self, lives: asyncio.TaskGroup) -> None:
        for place in self._sequence():
            weight = 1 if place.index is not None else self._options.containers_per_pod
            await self._wait(weight / self._options.churn)
            if self._quiet.is_set():
                return
            lives.create_task(self._replace(place))

    def _sequence(self) -> Iterator[_Place]:
        """Yield each place once per round, in an order determined by the seed."""
        while True:
            places: list[_Place] = []
            for pod in range(self._options.pods):
                whole = self._rng.random() < _REPLACED_PODS
                indexes = (None,) if whole else range(self._options.containers_per_pod)
                places += [_Place(pod, index, self._fails()) for index in indexes]
            self._rng.shuffle(places)
            yield from places

    def _fails(self) -> bool:
        return self._rng.random() < self._options.failed_starts

    async def _replace(self, place: _Place) -> None:
        pod = self._pods[place.pod]
        if place.index is None:
            await self._replace_pod(place.pod)
            return
        pod.busy += 1
        try:
            await self._replace_container(pod, place.index, fails=place.fails)
        finally:
            pod.busy -= 1

    async def _replace_container(self, pod: _Pod, index: int, *, fails: bool) -> None:
        """Like the kubelet: the dead container stays listed until its successor runs."""
        runtime, old = self._runtime, pod.containers[index]
        runtime.exit(old)
        await self._up()
        new = self._create(pod, index)
        await self._pause(self._starting)
        if fails:
            runtime.fail_start(new)
            await self._pause(self._linger)
            if pod.containers[index] == new:
                runtime.start(self._create(pod, index))
            runtime.remove(new)
        runtime.start(new)
        await self._pause(self._linger)
        runtime.remove(old)

    async def _replace_pod(self, place: int) -> None:
        await self._up()
        runtime, old = self._runtime, self._pods[place]
        self._pods[place] = self._new_pod(place)
        await _until(lambda: not old.busy)
        if _ambiguous(runtime.manners):
            await self._pause(_AMBIGUOUS)
        if not self._quiet.is_set():
            runtime.stop_pod(old.sandbox)
            await self._shown()
        if not self._quiet.is_set():
            runtime.remove_pod(old.sandbox)

    def _new_pod(self, place: int) -> _Pod:
        runtime, count = self._runtime, self._options.containers_per_pod
        sandbox = runtime.run_pod(*runtime.names.pod(place))
        pod = _Pod(sandbox, [""] * count, [0] * count)
        for index in range(count):
            runtime.start(self._create(pod, index))
        return pod

    def _create(self, pod: _Pod, index: int) -> str:
        name, attempt = container_name(index), pod.attempts[index]
        pod.attempts[index] += 1
        pod.containers[index] = self._runtime.create(pod.sandbox, name, attempt)
        return pod.containers[index]

    async def _watched(self) -> None:
        """Wait for a first relist and a first stream: everything before predates observation."""
        runtime = self._runtime
        silent = runtime.options.events is not Events.ON

        def watched() -> bool:
            streaming = silent or runtime.channel.subscriptions > 0
            return self._quiet.is_set() or (streaming and runtime.truth.relists > 0)

        await _until(watched, PATIENCE)

    async def _shown(self) -> None:
        """Wait until the observer, if there is one, has seen the current state."""
        truth = self._runtime.truth
        enough = truth.relists + _RELISTS
        await _until(lambda: self._quiet.is_set() or truth.relists >= enough, _LIMIT)
        await self._up()

    async def _up(self) -> None:
        """Wait while the runtime is down: nothing can be created or removed."""
        await _until(lambda: self._runtime.up)

    async def _pause(self, seconds: float) -> None:
        """Sleep, then wait for the runtime."""
        await self._wait(seconds)
        await self._up()

    async def _wait(self, seconds: float) -> None:
        """Sleep, but no longer than until `quiesce`."""
        with contextlib.suppress(TimeoutError):
            await asyncio.wait_for(self._quiet.wait(), seconds)


def _ambiguous(manners: Manners) -> bool:
    """Whether a removal just before its pod's looks like one that is never announced."""
    return not manners.deletes_inside_pod


async def _until(holds: Callable[[], bool], limit: float = math.inf) -> None:
    """Poll for a condition: the simulated world has no tasks and sends no notifications."""
    waited = 0.0
    while not holds() and waited < limit:
        await asyncio.sleep(_TICK)
        waited += _TICK
