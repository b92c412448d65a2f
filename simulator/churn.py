"""A complete simulated node, and its churn: pods that come and go, containers that restart.

The seed determines the sequence, but not its timing. If the rate allows, phases last long enough
for a relist to see most of them. A pod is removed only after a relist has shown it stopped, and if
the runtime's removals are ambiguous, only long after its last container was removed.
"""

import asyncio
import contextlib
import math
import random
from collections.abc import AsyncIterator, Awaitable, Callable, Iterator
from dataclasses import dataclass
from pathlib import Path
from typing import Final

from exporter.model.findings import Verdict
from exporter.model.labels import OomKill
from simulator.cgroups import CgroupFiles
from simulator.kubelet import SimulatedKubelet
from simulator.options import Events, Options
from simulator.runtime import OOM_ENDS, SimulatedRuntime
from simulator.server import SimulatedServer
from simulator.service import RuntimeService

# The alphabet of Kubernetes' generated names, which cannot spell words.
_SAFE: Final = "bcdfghjklmnpqrstvwxz2456789"
_WORKLOADS: Final = (
    *("checkout/payments", "checkout/cart", "catalog/search", "catalog/image-resizer"),
    *("identity/login", "logistics/route-planner", "batch/report-builder"),
)
_CONTAINERS: Final = ("app", "proxy", "log-shipper", "metrics", "cache")

# How long to wait for an observer before carrying on without one.
_OBSERVER_SECONDS: Final = 10.0

_REPLACED_PODS: Final = 0.1
_LONGEST_LINGER_SECONDS: Final = 15.0
# Longer than the period of the demo's relists: each container is listed before it starts.
_LONGEST_STARTING_SECONDS: Final = 3.0
# Relists that must have been answered since a pod stopped, and the limit of that wait.
_RELISTS: Final = 2
_RELISTS_SECONDS: Final = 60.0
_AMBIGUOUS_SECONDS: Final = 30.0
_LIE_SECONDS: Final = 60.0
_TICK_SECONDS: Final = 0.05


@dataclass(frozen=True, slots=True)
class _Place:
    """What is to be replaced: a container, or its whole pod if `index` is None."""

    pod: int
    index: int | None
    fails: bool = False
    # GHOST or STRAY if the runtime gets the end wrong, TWIN if it comes late, or an OOM kill.
    lie: Verdict | OomKill | None = None


@dataclass(slots=True)
class _Pod:
    sandbox: str
    containers: list[str]
    attempts: list[int]
    # Containers that are being replaced.
    busy: int = 0


class Churn:
    """Starts and ends containers at the configured rate: `populate`, then `run`."""

    def __init__(self, runtime: SimulatedRuntime) -> None:
        self._runtime = runtime
        self._options = runtime.options
        self._rng = runtime.options.random("churn")
        self._lies = runtime.options.random("lies")
        self._kills = runtime.options.random("kills")
        self._pods: list[_Pod] = []
        total = runtime.options.pods * runtime.options.containers_per_pod
        lifetime = total / runtime.options.churn if runtime.options.churn else math.inf
        self._linger = min(_LONGEST_LINGER_SECONDS, lifetime / 4)
        self._starting = min(_LONGEST_STARTING_SECONDS, lifetime / 40)

    def populate(self) -> None:
        """Create all pods as if they had long been running: nothing is announced or lost."""
        was_up, self._runtime.up = self._runtime.up, False
        self._pods = [self._new_pod(place) for place in range(self._options.pods)]
        self._runtime.up = was_up
        self._runtime.losses.clear()
        self._runtime.wrong.clear()

    async def run(self) -> None:
        """Replace containers and pods at the configured rate, once there is an observer."""
        if not self._options.churn:
            return
        # Everything before a first relist and a first stream predates observation.
        runtime, silent = self._runtime, self._options.events is not Events.ON
        await _until(
            lambda: bool(runtime.relists and (silent or runtime.channel.subscriptions)),
            _OBSERVER_SECONDS,
        )
        async with asyncio.TaskGroup() as replacements:
            for place in self._sequence():
                weight = 1 if place.index is not None else self._options.containers_per_pod
                await asyncio.sleep(weight / self._options.churn)
                replacements.create_task(self._replace(place))

    def _sequence(self) -> Iterator[_Place]:
        """Yield each place once per round, in an order determined by the seed."""
        while True:
            places: list[_Place] = []
            for pod in range(self._options.pods):
                whole = self._rng.random() < _REPLACED_PODS
                indexes = (None,) if whole else range(self._options.containers_per_pod)
                failed = self._options.failed_starts
                places += [
                    _Place(pod, at, self._rng.random() < failed, self._lie()) for at in indexes
                ]
            self._rng.shuffle(places)
            yield from places

    async def _replace(self, place: _Place) -> None:
        if place.index is None:
            await self._replace_pod(place.pod)
            return
        pod = self._pods[place.pod]
        pod.busy += 1
        try:
            await self._replace_container(pod, place.index, place)
        finally:
            pod.busy -= 1

    def _lie(self) -> Verdict | OomKill | None:
        dice, options = self._lies.random(), self._options
        if dice >= 1 - options.oom:
            return self._kills.choice(tuple(OOM_ENDS))
        if dice < options.ghosts:
            return Verdict.GHOST
        if dice < options.ghosts + options.strays:
            return Verdict.STRAY
        return Verdict.TWIN if dice < options.ghosts + options.strays + options.twins else None

    def _end(self, container: str, lie: Verdict | OomKill | None) -> None:
        runtime = self._runtime
        if isinstance(lie, OomKill):
            runtime.exit_killed(container, lie)
            return
        if lie is None:
            runtime.exit(container)
            return
        runtime.wrong[lie] += 1
        if lie is Verdict.STRAY:
            runtime.take_for_ended(container)
        elif lie is Verdict.GHOST:
            runtime.end_process(container)

    async def _replace_container(self, pod: _Pod, index: int, place: _Place) -> None:
        """Like the kubelet: the dead container stays listed until its successor runs."""
        runtime, old = self._runtime, pod.containers[index]
        self._end(old, place.lie)
        await self._up()
        new = self._create(pod, index)
        await self._pause(self._starting)
        if place.fails:
            runtime.fail_start(new)
            await self._pause(self._linger)
            if pod.containers[index] == new:
                runtime.start(self._create(pod, index))
            runtime.remove(new)
        if pod.containers[index] == new:
            # It was not replaced before it started.
            runtime.start(new)
        stays = place.lie in {Verdict.GHOST, Verdict.TWIN}
        await self._pause(_LIE_SECONDS if stays else self._linger)
        if place.lie is Verdict.TWIN:
            runtime.exit(old)
            await self._pause(self._linger)
        runtime.remove(old)
        if place.lie is Verdict.STRAY:
            await self._pause(_LIE_SECONDS)
            runtime.end_stray(pod.sandbox, old)

    async def _replace_pod(self, place: int) -> None:
        await self._up()
        runtime, old = self._runtime, self._pods[place]
        self._pods[place] = self._new_pod(place)
        await _until(lambda: not old.busy)
        if not runtime.behaviour.deletes_inside_pod:
            # A removal just before its pod's looks like one that is never announced.
            await self._pause(_AMBIGUOUS_SECONDS)
        runtime.stop_pod(old.sandbox)
        shown = runtime.relists + _RELISTS
        await _until(lambda: runtime.relists >= shown, _RELISTS_SECONDS)
        await self._up()
        runtime.remove_pod(old.sandbox)

    def _new_pod(self, place: int) -> _Pod:
        runtime, count = self._runtime, self._options.containers_per_pod
        sandbox = runtime.run_pod(*_pod_name(runtime.names, place))
        pod = _Pod(sandbox, [""] * count, [0] * count)
        for index in range(count):
            runtime.start(self._create(pod, index))
        return pod

    def _create(self, pod: _Pod, index: int) -> str:
        name = _CONTAINERS[index] if index < len(_CONTAINERS) else f"sidecar-{index}"
        attempt = pod.attempts[index]
        pod.attempts[index] += 1
        pod.containers[index] = self._runtime.create(pod.sandbox, name, attempt)
        return pod.containers[index]

    async def _up(self) -> None:
        await _until(lambda: self._runtime.up)

    async def _pause(self, seconds: float) -> None:
        await asyncio.sleep(seconds)
        await self._up()


@contextlib.asynccontextmanager
async def simulated_node(
    options: Options, socket: Path, cgroups: CgroupFiles | None = None, pods: Path | None = None
) -> AsyncIterator[SimulatedServer]:
    """A populated runtime on `socket`, with its churn and its schedule, running until exit.

    OSError if it cannot listen. `cgroups`: where it shows which containers have processes. `pods`:
    where its kubelet shows its pods.
    """
    runtime = SimulatedRuntime(options, cgroups)
    churn = Churn(runtime)
    churn.populate()
    kubelet = SimulatedKubelet(runtime, pods) if pods else None
    async with (
        SimulatedServer(RuntimeService(runtime), socket) as server,
        kubelet.server if kubelet else contextlib.nullcontext(),
    ):
        restarts = options.kubelet_restart_every
        loops = [kubelet.run(), _every(restarts, kubelet.restart)] if kubelet else []
        loops += [
            churn.run(),
            _every(options.restart_every, server.restart),
            _every(options.disconnect_every, server.disconnect),
        ]
        tasks = [asyncio.create_task(each) for each in loops]
        try:
            yield server
        finally:
            for task in tasks:
                task.cancel()
            await asyncio.gather(*tasks, return_exceptions=True)


async def _until(holds: Callable[[], bool], limit: float = math.inf) -> None:
    """Poll for a condition: the simulated world sends no notifications."""
    waited = 0.0
    while not holds() and waited < limit:
        await asyncio.sleep(_TICK_SECONDS)
        waited += _TICK_SECONDS


def _pod_name(rng: random.Random, index: int) -> tuple[str, str]:
    namespace, workload = _WORKLOADS[index % len(_WORKLOADS)].split("/")
    replicas, pod = ("".join(rng.choices(_SAFE, k=length)) for length in (9, 5))
    return f"{workload}-{replicas}-{pod}", namespace


async def _every(seconds: float, action: Callable[[], Awaitable[None] | None]) -> None:
    while seconds:
        await asyncio.sleep(seconds)
        if (acting := action()) is not None:
            await acting
