"""What a test asks of an exporter that runs; and the daemon in this event loop, or parts of it."""

import asyncio
import contextlib
import time
from abc import ABC, abstractmethod
from collections.abc import AsyncIterator, Callable, Coroutine, Iterable
from contextlib import asynccontextmanager
from dataclasses import dataclass
from enum import Enum
from functools import partial
from pathlib import Path
from typing import Any, ClassVar, Final, Protocol, Self

from prometheus_client import Metric
from prometheus_client.parser import text_string_to_metric_families
from prometheus_client.samples import Sample

from exporter.daemon import Daemon
from exporter.metrics.collector import Registry
from exporter.model.facts import Fact, ProfileChosen, StreamUp
from exporter.model.findings import Outcome, Verdict
from exporter.model.labels import KernelWitness, KubeletPods, OomWitness, StreamState
from exporter.node.judgement import not_alive, not_ready
from exporter.node.state import Node
from exporter.settings.config import Config, Watch
from exporter.settings.flags import ListenAddress
from testbed.waiting import until

DEADLINE: Final = 30.0
# What is tried every minute is tried thrice within it.
PATIENCE: Final = 300.0
patiently: Final = partial(until, seconds=PATIENCE)
# Quick, and yet longer than an event takes on a busy machine.
PERIOD: Final = 0.1
GRACE: Final = 0.5
# The graces after which what is still missing is stalled.
SIX_TIMES: Final = 6.5

LAST_SEEN: Final = "shadow_pleg_last_seen_seconds"

Counts = dict[tuple[str, ...], int]

_WITNESSES: Final[dict[type[Enum], tuple[str, str]]] = {
    StreamState: ("stream", "shadow_pleg_stream_state"),
    OomWitness: ("oom", "shadow_pleg_oom_witness"),
    KernelWitness: ("kernel", "shadow_pleg_kernel_witness"),
    KubeletPods: ("pods", "shadow_pleg_kubelet_pods"),
}
_LOSSES: Final = (
    *(Verdict.MISSED, Verdict.LATE, Verdict.UNSEEN, Verdict.GAP, Verdict.UNDECIDED),
    *(Verdict.DUPLICATE, Verdict.CONTRADICTED, Verdict.BACKLOG),
)


def settings(socket: Path | None, **others: Any) -> Config:
    quick: dict[str, Any] = {
        "runtime_endpoint": socket,
        "web_listen_address": ListenAddress("127.0.0.1", 0),
        "relist_period": PERIOD,
        "missed_grace": GRACE,
        "relist_timeout": DEADLINE,
        "relist_max_duty": 1.0,
        # It would end all tests of this process where a busy machine lets none run for long.
        "watchdog_timeout": 0,
        # Other tests' containers are in the machine's own cgroups.
        "kernel_witness": Watch.AUTO if "cgroup_root" in others else Watch.NEVER,
        "kubelet_pods": Watch.AUTO if "kubelet_pods_endpoint" in others else Watch.NEVER,
    }
    return Config(**quick | others)


@dataclass(frozen=True, slots=True)
class Metrics:
    """One scrape. `named`: the samples of a name; of a page, these alone are parsed."""

    named: Callable[[str], list[Sample]]

    @classmethod
    def read(cls, text: str) -> Self:
        def named(name: str) -> list[Sample]:
            lines = (it for it in text.splitlines() if it.startswith((f"{name}{{", f"{name} ")))
            return cls.of(text_string_to_metric_families("\n".join(lines))).named(name)

        return cls(named)

    @classmethod
    def of(cls, families: Iterable[Metric]) -> Self:
        samples = [sample for family in families for sample in family.samples]
        return cls(lambda name: [sample for sample in samples if sample.name == name])

    def value(self, name: str, **labels: str) -> float:
        """The sum of the samples of that name that bear those labels; KeyError if there is none."""
        values = [s.value for s in self._named(name) if labels.items() <= s.labels.items()]
        if not values:
            raise KeyError(f"{name}{labels or ''}")
        return sum(values)

    def counts(self, name: str, **labels: str) -> Counts:
        """What is not 0, by the values of the other labels in the order of their names."""
        return {
            tuple(s.labels[key] for key in sorted(s.labels) if key not in labels): int(s.value)
            for s in self._named(name)
            if s.value and labels.items() <= s.labels.items()
        }

    @property
    def missed(self) -> Counts:
        """Missed events that are not 0, by (cause, event, object)."""
        return self.counts("kube_pod_missed_events_total")

    @property
    def silent(self) -> float:
        return self.value("kube_pod_missed_events_total", cause="silent")

    @property
    def stream(self) -> str:
        return self.state("shadow_pleg_stream_state")

    def state(self, name: str) -> str:
        """Of a metric whose samples are states, the one that is 1."""
        (((state,), one),) = self.counts(name).items()
        assert one == 1
        return state

    def labels(self, name: str) -> dict[str, str]:
        (sample,) = self._named(name)
        return sample.labels

    def _named(self, name: str) -> list[Sample]:
        found = self.named(name)
        if not found:
            raise KeyError(name)
        return found


class Watcher(ABC):
    """An exporter that runs, and waiting for what it should come to know.

    `grace`: seconds after which something is missing; `patience`: after which it never comes.
    `every`: between two looks.
    """

    grace: float
    patience: ClassVar = DEADLINE
    every: ClassVar = 0.03

    @abstractmethod
    async def metrics(self) -> Metrics:
        """What it exports now."""

    async def shows(self, condition: Callable[[Metrics], bool], what: str) -> Metrics:
        """The first metrics for which `condition` holds."""
        seen: list[Metrics] = []

        async def held() -> bool:
            seen[:] = [await self.metrics()]
            return condition(seen[0])

        await until(held, what, seconds=self.patience + self.grace, every=self.every)
        return seen[0]

    async def streaming(self) -> Metrics:
        """Wait until it is subscribed, and knows from a relist what there is already."""
        return await self.shows(
            lambda seen: seen.stream == "streaming" and seen.value(LAST_SEEN) > 0, "it watches"
        )

    async def relisted(self, after: float | None = None) -> None:
        """Wait for a relist that was asked for after now, or after that moment of `now`."""
        # The first to succeed may have been on its way already.
        over = await self.relist_over(self.now() if after is None else after)
        await self.relist_over(over)

    async def settled(self) -> Metrics:
        """Wait until whatever has happened so far was listed, and once more after the grace."""
        await self.relisted()
        await self.relisted(self.now() + self.grace)
        return await self.metrics()

    def now(self) -> float:
        """The clock by which it dates its relists: unix time."""
        return time.time()

    async def relist_over(self, moment: float) -> float:
        """When a relist succeeded, once one did after that moment."""
        seen = await self.shows(lambda now: now.value(LAST_SEEN) > moment, "a relist succeeds")
        return seen.value(LAST_SEEN)


@dataclass(frozen=True)
class Observer(Watcher):
    """A daemon that runs in this event loop. `node` is its own, not a copy."""

    node: Node
    config: Config
    registry: Registry
    grace: float

    async def metrics(self) -> Metrics:
        return Metrics.of(self.registry.collect())

    @property
    def not_alive(self) -> str:
        """Why /livez would fail now; empty if it would not."""
        return not_alive(self.node, self.config, time.monotonic())

    @property
    def not_ready(self) -> str:
        return not_ready(self.node, self.config, time.monotonic())

    async def value(self, name: str) -> float:
        return (await self.metrics()).value(name)

    @property
    def losses(self) -> dict[str, int]:
        """How often each was found, as `missed ContainerDied container silent`."""
        return self.tallied(*_LOSSES)

    def tallied(self, *verdicts: Verdict) -> dict[str, int]:
        return {
            " ".join((what.value, event.label, kind.value, *([why.value] if why else []))): number
            for (what, event, kind, why), number in self.node.tally.counts.items()
            if what in verdicts
        }

    async def reaches(self, state: StreamState | KernelWitness | KubeletPods | OomWitness) -> None:
        """Wait for a state of the stream or of another witness, which is exported, too."""
        name, metric = _WITNESSES[type(state)]
        what = f"{name}: {state.value}"
        await patiently(lambda: getattr(self.node, name).state is state, what)
        assert (await self.metrics()).state(metric) == state.value

    async def connected(self, times: int = 1) -> None:
        """Wait for that many successful subscriptions in all, and the relists that follow."""
        await patiently(lambda: self.node.connections >= times, f"{times} connections")
        await self.relisted()

    def now(self) -> float:
        """Its monotonic clock, by which a test in virtual time may ask, too."""
        return time.monotonic()

    async def relist_over(self, moment: float) -> float:
        node = self.node
        await patiently(lambda: (node.relist_succeeded or 0.0) > moment, "a relist")
        return node.relist_succeeded or 0.0

    async def judged(self) -> None:
        late = time.monotonic() + SIX_TIMES * self.grace
        await self.settled()
        while time.monotonic() < late and await self.value("shadow_pleg_unresolved_events"):
            await self.relisted()


class Listener(Protocol):
    """What is said each fact that a ledger took."""

    def hear(self, fact: Fact, outcome: Outcome) -> None:
        """Called after the ledger has taken this fact."""


@asynccontextmanager
async def daemon_on(config: Config, *listeners: Listener) -> AsyncIterator[Daemon]:
    """A daemon without its web interface that runs until left; what it raises is raised here."""
    stop, began = asyncio.Event(), asyncio.Event()
    async with Daemon.on(config) as daemon:
        for listener in listeners:
            daemon.chronicle.listen(listener.hear)
        running = asyncio.create_task(daemon.run(stop.wait, began.set))
        try:
            await until(lambda: running.done() or began.is_set(), "the daemon runs")
            if running.done():
                await running
            yield daemon
        finally:
            stop.set()
            async with asyncio.timeout(DEADLINE):
                await running
            daemon.chronicle.tell_drops()


@asynccontextmanager
async def observing(
    socket: Path | None, *listeners: Listener, **others: Any
) -> AsyncIterator[Observer]:
    config = settings(socket, **others)
    async with daemon_on(config, *listeners) as daemon:
        yield Observer(daemon.node, config, daemon.registry, config.missed_grace)


@asynccontextmanager
async def parts(socket: Path | None = None, **others: Any) -> AsyncIterator[Daemon]:
    """A daemon that has met containerd 2 on `socket`, and runs no task."""
    async with Daemon.on(settings(socket, **others)) as daemon:
        daemon.chronicle.record(ProfileChosen(time.monotonic(), "containerd", "2.1.9"))
        yield daemon


def sample(daemon: Daemon, name: str) -> float:
    value = daemon.registry.get_sample_value(name)
    assert value is not None, name
    return value


def subscribe(daemon: Daemon) -> None:
    daemon.chronicle.record(StreamUp(time.monotonic(), time.monotonic()))


@asynccontextmanager
async def tasks(*loops: Coroutine[Any, Any, None]) -> AsyncIterator[None]:
    """These loops as tasks; what one of them raises is raised here."""
    tasks = [asyncio.create_task(loop) for loop in loops]
    try:
        yield
    finally:
        for task in tasks:
            task.cancel()
        for task in tasks:
            with contextlib.suppress(asyncio.CancelledError):
                await task
