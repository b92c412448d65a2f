"""A complete simulated node, and its churn: pods that come and go, containers that restart.

The seed determines the sequence, but not its timing. If the rate allows, phases last long enough
for a relist to see most of them. A pod is removed only after a relist has shown it stopped, and if
the runtime's removals are ambiguous, only long after its last container was removed.
"""

import asyncio
import contextlib
import math
import random
from collections.abc import AsyncIterator, Awaitable, Callable, Coroutine, Iterator
from dataclasses import dataclass
from functools import partial
from pathlib import Path
from typing import Any, Final

from exporter.model.events import ListedState
from exporter.model.findings import Verdict
from exporter.process.event_loop import meanwhile
from simulator.kubelet import SimulatedKubelet
from simulator.options import Events, Options
from simulator.runtime import CgroupFiles, SimulatedRuntime
from simulator.service import SimulatedServer

_GHOST, _STRAY, _TWIN = Verdict.GHOST, Verdict.STRAY, Verdict.TWIN
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
_LIES: Final = (_GHOST, _STRAY, _TWIN, None)

# How many containers are replaced, and what does it.
_Step = tuple[int, Callable[[], Coroutine[Any, Any, None]]]


@dataclass(slots=True)
class _Pod:
    sandbox: str
    containers: list[str]
    # Containers that are being replaced.
    busy: int = 0


class Churn:
    """Starts and ends containers at the configured rate: `populate`, then `run`."""

    def __init__(self, runtime: SimulatedRuntime) -> None:
        self._runtime = runtime
        self._options = runtime.options
        self._rng = runtime.options.random("churn")
        self._lies = runtime.options.random("lies")
        self._pods: list[_Pod] = []
        total = runtime.options.pods * runtime.options.containers_per_pod
        lifetime = total / runtime.options.churn if runtime.options.churn else math.inf
        self._linger = min(_LONGEST_LINGER_SECONDS, lifetime / 4)
        self._starting = min(_LONGEST_STARTING_SECONDS, lifetime / 40)

    def populate(self) -> None:
        """Create all pods as if they had long been running: nothing is announced or lost."""
        self._runtime.up = False
        self._pods = [self._new_pod(place) for place in range(self._options.pods)]
        self._runtime.up = True
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
            for replaced, replace in self._sequence():
                await asyncio.sleep(replaced / self._options.churn)
                replacements.create_task(replace())

    def _sequence(self) -> Iterator[_Step]:
        """Yield each place once per round, in an order determined by the seed."""
        options, rng, count = self._options, self._rng, self._options.containers_per_pod
        wrong = (options.ghosts, options.strays, options.twins)
        shares = (*wrong, 1 - sum(wrong))
        while True:
            steps = list[_Step]()
            for place in range(options.pods):
                whole = rng.random() < _REPLACED_PODS
                for index in range(1 if whole else count):
                    fails = rng.random() < options.failed_starts
                    (lie,) = self._lies.choices(_LIES, shares)
                    one = partial(self._replace_container, place, index, lie, fails=fails)
                    steps.append((count, partial(self._replace_pod, place)) if whole else (1, one))
            rng.shuffle(steps)
            yield from steps

    async def _replace_container(
        self, place: int, index: int, lie: Verdict | None, *, fails: bool
    ) -> None:
        """Like the kubelet: the dead container stays listed until its successor runs.

        `lie`: GHOST or STRAY if the runtime gets the end wrong, TWIN if it comes late.
        """
        pod = self._pods[place]
        runtime, old = self._runtime, pod.containers[index]
        pod.busy += 1
        if runtime.containers[old].state is not ListedState.RUNNING:
            # It was replaced before it started.
            lie = None
        if lie is not None:
            runtime.wrong[lie] += 1
        ends = {None: runtime.exit, _STRAY: runtime.take_for_ended, _GHOST: runtime.end_process}
        if lie in ends:
            ends[lie](old)
        await self._up()
        new = self._create(pod, index)
        await self._pause(self._starting)
        if fails:
            runtime.fail_start(new)
            await self._pause(self._linger)
            if pod.containers[index] == new:
                runtime.start(self._create(pod, index))
            runtime.remove(new)
        if pod.containers[index] == new:
            # It was not replaced before it started.
            runtime.start(new)
        await self._pause(_LIE_SECONDS if lie in {_GHOST, _TWIN} else self._linger)
        if lie is _TWIN:
            runtime.exit(old)
            await self._pause(self._linger)
        runtime.remove(old)
        if lie is _STRAY:
            await self._pause(_LIE_SECONDS)
            runtime.end_stray(pod.sandbox, old)
        pod.busy -= 1

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
        pod = _Pod(sandbox, [""] * count)
        for index in range(count):
            runtime.start(self._create(pod, index))
        return pod

    def _create(self, pod: _Pod, index: int) -> str:
        name = _CONTAINERS[index] if index < len(_CONTAINERS) else f"sidecar-{index}"
        before = self._runtime.containers.get(pod.containers[index])
        attempt = before.attempt + 1 if before else 0
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
        SimulatedServer(runtime, socket) as server,
        kubelet.server if kubelet else contextlib.nullcontext(),
    ):
        restarts = options.kubelet_restart_every
        loops = [kubelet.run(), _every(restarts, kubelet.restart)] if kubelet else []
        loops += [
            churn.run(),
            _every(options.restart_every, server.restart),
            _every(options.disconnect_every, server.disconnect),
        ]
        async with meanwhile(*loops):
            yield server


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
