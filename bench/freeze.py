"""What a frozen, slow or killed observer costs those who share containerd's event stream with it.

Here: what happens to the exporter or to the filter before it, a kubelet's liveness probe, and how
long calls then take. Not here: what a healthy exporter costs (`harm`).
"""

from __future__ import annotations

import asyncio
import itertools
import signal
import time
from collections.abc import Sequence
from contextlib import AsyncExitStack
from dataclasses import dataclass, replace
from enum import Enum
from typing import Final

import aiohttp

from bench.churn import WORKERS, Churn, Subscriber, heard
from bench.rows import Row, Verdict, at_most
from testbed.containerd import Containerd
from tests.support.filtering import FilterProcess, filtering
from tests.support.harness import Exporter

# Calls that began just before the end of a hang, and what follows them.
AFTERMATH: Final = 3.0
_PREFIX: Final = "longest call: "


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


class Fate(Enum):
    """What happens to the observer."""

    NOTHING = "nothing happens to it"
    FROZEN = "SIGSTOP"
    SLOW = "stopped for 0.9 s of every second"
    DEAD = "SIGKILL"


@dataclass(frozen=True, slots=True)
class Case:
    """What happens to whom. `lease`: seconds; `through`: `filter` lies between; `it`: to that.

    Through a filter that goes on, a frozen exporter holds up nobody.
    """

    fate: Fate
    lease: float = 60.0
    probe: Probe | None = None
    through: bool = False
    it: bool = False

    @property
    def what(self) -> str:
        """In words."""
        words = [self.fate.value]
        if self.through:
            words.append("the filter itself" if self.it else "through the filter")
        if self.fate is Fate.FROZEN:
            words.append(f"--stream-lease={self.lease:g}s" if self.lease else "no lease")
        if self.probe:
            words.append("a liveness probe")
        return ", ".join(words)

    @property
    def bound(self) -> float:
        """The longest that one call may take: whichever comes first lets go, and a second more."""
        if self.fate is not Fate.FROZEN or (self.through and not self.it):
            return _AT_ONCE + (_STOPPED if self.fate is Fate.SLOW else 0.0)
        bounds = [self.lease + 1] if self.lease else []
        if self.probe:
            bounds.append(self.probe.bound)
        return min(bounds)


@dataclass(frozen=True, slots=True)
class Outcome:
    """Seconds of the longest call, and events that the other subscriber should have heard."""

    case: Case
    longest: float
    lost: int
    led: int


PROBE: Final = Probe()
QUICK_BOUND: Final = 3.0
_AT_ONCE: Final = 1.0
_STOPPED: Final = 0.9
_RUNNING: Final = 0.1
_SLOW_SECONDS: Final = 5
# Through the filter, until the events of a second or two have filled what an exporter takes.
_FULL: Final = 5.0
CASES: Final = (
    Case(Fate.NOTHING),
    Case(Fate.FROZEN, lease=2.0),
    Case(Fate.FROZEN, lease=5.0),
    Case(Fate.FROZEN, lease=0.0, probe=PROBE),
    Case(Fate.SLOW),
    Case(Fate.DEAD),
    Case(Fate.FROZEN, through=True),
    Case(Fate.FROZEN, lease=5.0, through=True, it=True),
    Case(Fate.SLOW, through=True),
    Case(Fate.DEAD, through=True),
    Case(Fate.DEAD, through=True, it=True),
)
TEXT: Final = f"""
Frozen: SIGSTOP while {WORKERS} pods at a time come and go. containerd 2 waits for its slowest
subscriber, so calls hang until the lease ends; the bar is the lease and one second. The liveness
probe is a kubelet's (every {PROBE.period:g} s, timeout {PROBE.timeout:g} s, {PROBE.failures}
failures, then SIGKILL); a real kubelet adds terminationGracePeriodSeconds. Slow: stopped for
{_STOPPED:g} s of every second. The other subscriber is a plain reader of the same events.
"""


async def rows(*, quick: bool) -> list[Row]:
    """The cases (the short ones if `quick`), one after another, on one containerd."""
    cases = [case for case in CASES if case.bound <= QUICK_BOUND or not quick]
    async with Containerd("2.1") as containerd:
        outcomes = [await outcome(containerd, case) for case in cases]
    undisturbed = next(each.longest for each in outcomes if each.case.fate is Fate.NOTHING)
    longest = [_longest(each, undisturbed) for each in outcomes]
    led = sum(each.led for each in outcomes)
    lost = sum(each.lost for each in outcomes)
    return [*longest, at_most(f"lost by the other subscriber, of {led} events", lost, 0, digits=0)]


def cost(measured: Sequence[Row]) -> str:
    """For the top of the page: the longest that a frozen exporter held anybody up."""
    case = CASES[2].what
    longest = (row.measured for row in measured if row.what == _PREFIX + case)
    return "".join(f" Frozen ({case}), it made the longest call take {each}." for each in longest)


def _longest(outcome: Outcome, undisturbed: float) -> Row:
    """`undisturbed`: the longest call where nothing happened: how busy the machine is."""
    case = outcome.case
    if case.fate is Fate.NOTHING:
        return Row(_PREFIX + case.what, f"{outcome.longest:.2f} s")
    row = at_most(_PREFIX + case.what, outcome.longest, case.bound, "s")
    slow = undisturbed > _AT_ONCE and outcome.longest <= case.bound + undisturbed
    if row.verdict is Verdict.NOT_MET and slow:
        row = replace(row, verdict=Verdict.CANNOT_TELL)
    return row.because(f"one took {undisturbed:.2f} s where nothing happened")


async def outcome(containerd: Containerd, case: Case) -> Outcome:
    """One observer, and what became of the others when that happened to it, under churn."""
    flags = ("--relist-period=10s", f"--stream-lease={case.lease:g}s")
    async with (
        Subscriber(containerd.socket) as other,
        containerd.pods() as cri,
        AsyncExitStack() as stack,
    ):
        await heard(other, cri)
        churn = Churn(cri)
        # Under way before the exporter subscribes: its lease is short.
        await stack.enter_async_context(churn.going_on())
        socket, between = containerd.socket, None
        if case.through:
            between = await stack.enter_async_context(filtering(containerd.socket))
            socket = between.socket
        exporter = await stack.enter_async_context(Exporter(socket, *flags))
        await exporter.streaming()
        await _harm(exporter, between, case)
        await stack.aclose()
        return Outcome(case, churn.clock.longest, await other.lost(churn.led), len(churn.led))


async def _harm(exporter: Exporter, between: FilterProcess | None, case: Case) -> None:
    victim = between if between and case.it else exporter
    if case.fate is Fate.DEAD:
        await _kill(victim)
    elif case.fate is Fate.SLOW:
        for _ in range(_SLOW_SECONDS):
            async with victim.frozen():
                await asyncio.sleep(_STOPPED)
            await asyncio.sleep(_RUNNING)
    elif case.fate is Fate.FROZEN:
        async with victim.frozen():
            if case.probe:
                # It is frozen just after a probe would have succeeded.
                await asyncio.sleep(case.probe.period)
                await case.probe.until_killed(exporter)
            else:
                await asyncio.sleep(min(case.lease, _FULL))
                await asyncio.sleep(AFTERMATH)
                await _kill(victim)
    await asyncio.sleep(AFTERMATH)


async def _kill(victim: Exporter | FilterProcess) -> None:
    if isinstance(victim, Exporter):
        await victim.end(signal.SIGKILL)
    else:
        victim.command.process.send_signal(signal.SIGKILL)
        await victim.command.process.wait()
