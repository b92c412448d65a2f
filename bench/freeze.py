"""What a frozen or killed exporter costs those who share containerd's event stream with it.

Here: the freeze, the churn it happens under, another subscriber that must lose nothing, and a
kubelet's liveness probe. Not here: what a healthy exporter costs (`harm`). Blind spot: the other
subscriber lives in the process that makes the calls, so it is never itself the slow one.
"""

from __future__ import annotations

import asyncio
import itertools
import signal
import time
from collections.abc import AsyncIterator, Awaitable, Iterator, Mapping
from contextlib import asynccontextmanager, suppress
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any, Final, Self, TypeVar

import aiohttp
import grpc.aio

from bench.rows import Row, at_most
from exporter.cri import runtime_v1_pb2 as pb
from tests.support.harness import Exporter
from tests.support.real.containerd import Containerd
from tests.support.real.cri_client import OPTIONS, Pods
from tests.support.waiting import until

# containerd holds 100 events for each subscriber, besides what the socket takes: large ones fill
# the socket with the first few, many fill the rest within a second or so.
LARGE: Final = {"note": "x" * 100_000}
WORKERS: Final = 6
CONTAINERS: Final = 10
# Calls that began just before the end of a hang, and what follows them.
AFTERMATH: Final = 3.0
CATCHING_UP: Final = 10.0

Step = tuple[str, str]
_T = TypeVar("_T")


@dataclass(slots=True)
class Stopwatch:
    """How long each call took, by its name."""

    seconds: dict[str, list[float]] = field(default_factory=dict)

    async def of(self, name: str, call: Awaitable[_T]) -> _T:
        """Await a call and note its duration, also when it fails."""
        began = time.monotonic()
        try:
            return await call
        finally:
            self.seconds.setdefault(name, []).append(time.monotonic() - began)

    @property
    def longest(self) -> float:
        """The longest of all calls; 0 if there was none."""
        return max(itertools.chain.from_iterable(self.seconds.values()), default=0.0)


class Subscriber:
    """Another reader of the events, as a kubelet with Evented PLEG is one: it reads, and no more.

    An async context manager: subscribed, and no longer.
    """

    def __init__(self, socket: Path) -> None:
        self._socket = socket
        self.heard: set[Step] = set()

    async def __aenter__(self) -> Self:
        self._channel: Any = grpc.aio.insecure_channel(f"unix://{self._socket}", options=OPTIONS)
        self._reading = asyncio.create_task(self._read())
        return self

    async def __aexit__(self, *_exc: object) -> None:
        self._reading.cancel()
        await asyncio.gather(self._reading, return_exceptions=True)
        await self._channel.close(None)

    async def lost(self, led: set[Step]) -> int:
        """How many of those steps it has not heard of, once it has had time to catch up."""
        with suppress(TimeoutError):
            await until(lambda: led <= self.heard, "it has heard all", seconds=CATCHING_UP)
        return len(led - self.heard)

    async def _read(self) -> None:
        method = self._channel.unary_stream("/runtime.v1.RuntimeService/GetContainerEvents")
        async for raw in method(b""):
            event = pb.ContainerEventResponse.FromString(raw)
            kind = pb.ContainerEventType.Name(event.container_event_type)
            self.heard.add((event.container_id, kind.split("_")[1]))


@dataclass(slots=True)
class Churn:
    """Pods that live and die, several at a time: `led` is what the runtime has to announce.

    `name` is the beginning of their names.
    """

    cri: Pods
    workers: int = WORKERS
    name: str = "churn"
    annotations: Mapping[str, str] = field(default_factory=lambda: LARGE)
    clock: Stopwatch = field(default_factory=Stopwatch)
    led: set[Step] = field(default_factory=set)
    _numbers: Iterator[int] = field(default_factory=itertools.count)

    @asynccontextmanager
    async def going_on(self) -> AsyncIterator[None]:
        """Lives follow each other meanwhile; the last ones are led to their end."""
        over = asyncio.Event()
        workers = [asyncio.create_task(self._work(over)) for _ in range(self.workers)]
        try:
            yield
        finally:
            over.set()
            await asyncio.gather(*workers)

    async def live(self) -> None:
        """One pod; its containers only come and go, for that is the quickest way to events."""
        timed = self.clock.of
        config = self.cri.run_pod(
            f"{self.name}-{next(self._numbers)}", annotations=self.annotations
        )
        sandbox = await timed("RunPodSandbox", config)
        for number in range(CONTAINERS):
            container = await timed("CreateContainer", self.cri.create(sandbox, f"c-{number}"))
            await timed("RemoveContainer", self.cri.remove(container))
            self.led |= {(container, "CREATED"), (container, "DELETED")}
        await timed("StopPodSandbox", self.cri.stop_pod(sandbox))
        await timed("RemovePodSandbox", self.cri.remove_pod(sandbox))
        self.led |= {(sandbox.id, kind) for kind in ("CREATED", "STARTED", "STOPPED", "DELETED")}

    async def _work(self, over: asyncio.Event) -> None:
        while not over.is_set():
            await self.live()


@dataclass(frozen=True, slots=True)
class Probe:
    """A liveness probe as a kubelet leads it, in seconds: at its end the process is killed."""

    period: float = 5.0
    timeout: float = 2.0
    failures: int = 2

    @property
    def bound(self) -> float:
        """When the process is gone that froze just after a probe had succeeded."""
        return self.period * self.failures + self.timeout

    async def until_killed(self, exporter: Exporter) -> None:
        """Ask from now on, every period; kill after so many failures in a row."""
        began, failed = time.monotonic(), 0
        for turn in itertools.count():
            await asyncio.sleep(max(0.0, began + turn * self.period - time.monotonic()))
            failed = 0 if await self._succeeds(exporter.url) else failed + 1
            if failed == self.failures:
                await exporter.end(signal.SIGKILL)
                return

    async def _succeeds(self, url: str) -> bool:
        """A connection of its own for each probe, as a kubelet's."""
        patience = aiohttp.ClientTimeout(total=self.timeout)
        try:
            async with (
                aiohttp.ClientSession(timeout=patience) as session,
                session.get(f"{url}/livez") as response,
            ):
                return response.status == 200  # noqa: PLR2004 -- HTTP's own number
        except (aiohttp.ClientError, TimeoutError):
            return False


@dataclass(frozen=True, slots=True)
class Case:
    """What happens to the exporter: nothing, SIGSTOP or SIGKILL. `lease`: seconds, 0 for none."""

    what: str
    sent: signal.Signals | None
    lease: float = 0.0
    probe: Probe | None = None

    @property
    def bound(self) -> float:
        """The longest that one call may take: whichever comes first lets go, and a second more."""
        bounds = [self.lease + 1] if self.lease else []
        if self.probe:
            bounds.append(self.probe.bound)
        return min(bounds, default=1.0)


@dataclass(frozen=True, slots=True)
class Outcome:
    """Seconds of the longest call, and events that the other subscriber should have heard."""

    case: Case
    longest: float
    lost: int
    led: int


PROBE: Final = Probe()
QUICK_BOUND: Final = 3.0
CASES: Final = (
    Case("nothing happens to it", None),
    Case("SIGSTOP, --stream-lease=2s", signal.SIGSTOP, lease=2.0),
    Case("SIGSTOP, --stream-lease=5s", signal.SIGSTOP, lease=5.0),
    Case("SIGSTOP, no lease, a liveness probe", signal.SIGSTOP, probe=PROBE),
    Case("SIGSTOP, --stream-lease=5s, a liveness probe", signal.SIGSTOP, lease=5.0, probe=PROBE),
    Case("SIGKILL, no lease", signal.SIGKILL),
)
TEXT: Final = f"""
The frozen exporter: SIGSTOP, as soon as it streams (so that its lease is still whole), while
{WORKERS} pods at a time live and die with annotations of 100 kB. containerd 2 waits for its slowest
subscriber, so each call that has something to announce hangs until the runtime lets go of us, which
a lease makes it do by itself; bar: the lease and one second. The probe is a kubelet's, emulated: an
HTTP GET on /livez every {PROBE.period:g} s (periodSeconds), which fails after {PROBE.timeout:g} s
(timeoutSeconds); {PROBE.failures} failures in a row (failureThreshold), and SIGKILL follows. The
bar is periodSeconds x failureThreshold + timeoutSeconds: the process freezes just after a probe
succeeded. A real kubelet first sends SIGTERM, which a stopped process does not hear, and so adds
terminationGracePeriodSeconds (30 s unless set); StopContainer itself does not hang. The other
subscriber is a plain reader of the same events; it lost every event that the test produced
and it did not receive.
"""


async def rows(*, quick: bool) -> list[Row]:
    """The cases (the short ones if `quick`), one after another, on one containerd."""
    cases = [case for case in CASES if case.bound <= QUICK_BOUND or not quick]
    async with Containerd("2.1") as containerd:
        outcomes = [await outcome(containerd, case) for case in cases]
    longest = [_longest(each) for each in outcomes]
    led = sum(each.led for each in outcomes)
    lost = sum(each.lost for each in outcomes)
    return [*longest, at_most(f"lost by the other subscriber, of {led} events", lost, 0, digits=0)]


def _longest(outcome: Outcome) -> Row:
    what = f"longest call: {outcome.case.what}"
    if outcome.case.sent is None:
        return Row(what, f"{outcome.longest:.2f} s")
    return at_most(what, outcome.longest, outcome.case.bound, "s")


async def outcome(containerd: Containerd, case: Case) -> Outcome:
    """One exporter, frozen or killed under churn, and what that did to the others."""
    flags = ("--relist-period=10s", f"--stream-lease={case.lease:g}s")
    async with Subscriber(containerd.socket) as other, containerd.pods() as cri:
        await heard(other, cri)
        churn = Churn(cri)
        # The churn is in full swing before the exporter subscribes: its lease is short.
        async with churn.going_on(), Exporter(containerd.socket, *flags) as exporter:
            await exporter.streaming()
            await _harm(exporter, case)
        return Outcome(case, churn.clock.longest, await other.lost(churn.led), len(churn.led))


async def heard(other: Subscriber, cri: Pods) -> None:
    """Wait until that subscriber is told of what happens: of one pod, of which nothing stays."""
    first = Churn(cri)
    await first.live()
    await until(lambda: first.led <= other.heard, "the other subscriber hears")


async def _harm(exporter: Exporter, case: Case) -> None:
    if case.sent is not signal.SIGSTOP:
        if case.sent is not None:
            await exporter.end(case.sent)
        await asyncio.sleep(AFTERMATH)
        return
    async with exporter.frozen():
        if case.probe:
            # It is frozen just after a probe would have succeeded.
            await asyncio.sleep(case.probe.period)
            await case.probe.until_killed(exporter)
            await asyncio.sleep(AFTERMATH)
        else:
            await asyncio.sleep(case.lease + AFTERMATH)
            await exporter.end(signal.SIGKILL)
