"""What ended subscriptions cost a containerd that has nothing to announce.

containerd 2 notices only with the next event that a subscriber is gone: until then each ended lease
leaves a goroutine and a buffer. Here: how much, how it ends, and a quiet day of leases worked out
from that. Not here: the leases themselves. Blind spot: no node is as quiet as this for a day.
"""

from __future__ import annotations

import asyncio
import itertools
import re
from collections.abc import Iterator
from dataclasses import dataclass
from pathlib import Path
from statistics import median
from typing import Any, Final

import aiohttp
import grpc
import grpc.aio

from bench.churn import Stopwatch
from bench.harm import in_memory
from bench.rows import Row, Section
from exporter.loops.lease import stretched
from testbed.containerd import Containerd, why_not
from testbed.cri_client import OPTIONS, Pods
from testbed.leftovers import sweep_abandoned
from tests.support.waiting import until

STREAMS: Final = 1000
BATCHES: Final = 3
QUICK_BATCHES: Final = 2
# As short as it may be and still reach the handler; so many at a time, for the sake of time.
LEASE: Final = 0.1
AT_ONCE: Final = 20
WARM_UP: Final = 10
# Both ends watch the deadline. Where the runtime is the first, it resets the stream.
ENDED: Final = (grpc.StatusCode.DEADLINE_EXCEEDED, grpc.StatusCode.CANCELLED)

DEBUG: Final = '\n[debug]\naddress = "{home}/debug.sock"\n'
DAY: Final = 86_400.0
LEASES: Final = {"30 s": 30.0, "60 s (default)": 60.0, "5 min": 300.0}

TITLE: Final = "What ended leases cost a quiet containerd"
TEXT: Final = f"""
containerd 2.1 without events: {{batches}} times {STREAMS} subscriptions that end after
{LEASE * 1000:g} ms, {AT_ONCE} at a time; then one pod. containerd notices with the first event that
they are gone. A day is worked out from one of them, with leases that grow as the exporter's do.
"""


@dataclass(frozen=True, slots=True)
class Footprint:
    """Bytes and goroutines of containerd."""

    live: int
    rss: int
    goroutines: int


@dataclass(frozen=True, slots=True)
class Batch:
    """Before the subscriptions, after them, and after the event; seconds of that RunPodSandbox."""

    before: Footprint
    piled_up: Footprint
    after: Footprint
    next_pod: float


def measure(*, quick: bool) -> Section:
    """The price of one ended lease, and of a day of them."""
    if reason := why_not("2.1"):
        return Section(TITLE, f"Not measured: {reason}.", ())
    sweep_abandoned()
    return asyncio.run(_measured(QUICK_BATCHES if quick else BATCHES))


async def _measured(number: int) -> Section:
    clock, names = Stopwatch(), (f"pod-{n}" for n in itertools.count())
    async with in_memory(DEBUG) as containerd, containerd.pods() as cri:
        for _ in range(WARM_UP):
            await _pod(cri, next(names), Stopwatch())
        batches = []
        for _ in range(number):
            await asyncio.sleep(STREAMS / AT_ONCE * LEASE)
            await _footprint(containerd)
            await _pod(cri, next(names), clock)
            batches.append(await _batch(containerd, cri, names))
    without = clock.seconds["RunPodSandbox"]
    rows = tuple(_rows(batches, without))
    cost = f"**A day without any event** leaves containerd {rows[-2].measured} of ended leases."
    return Section(TITLE, TEXT.format(batches=number), rows, (cost,))


async def _batch(containerd: Containerd, cri: Pods, names: Iterator[str]) -> Batch:
    before = await _footprint(containerd)
    await _subscriptions(containerd.socket)
    piled_up = await _footprint(containerd)
    clock = Stopwatch()
    await _pod(cri, next(names), clock)
    # They all leave at once, but not before the call that woke them has returned.
    await until(lambda: _is_below(containerd, before.goroutines + STREAMS // 2), "they leave")
    after = await _footprint(containerd)
    return Batch(before, piled_up, after, clock.seconds["RunPodSandbox"][0])


async def _pod(cri: Pods, name: str, clock: Stopwatch) -> None:
    sandbox = await clock.of("RunPodSandbox", cri.run_pod(name))
    await cri.stop_pod(sandbox)
    await cri.remove_pod(sandbox)


async def _subscriptions(socket: Path) -> None:
    """Subscribe and let the deadline pass, again and again."""
    async with grpc.aio.insecure_channel(f"unix://{socket}", options=OPTIONS) as channel:
        for _ in range(STREAMS // AT_ONCE):
            await asyncio.gather(*(_ended(channel) for _ in range(AT_ONCE)))


async def _ended(channel: Any) -> None:  # noqa: ANN401 -- grpc.aio's own channel, of no public type
    call = channel.unary_stream("/runtime.v1.RuntimeService/GetContainerEvents")(b"", timeout=LEASE)
    try:
        async for _ in call:
            pass
    except grpc.aio.AioRpcError as error:
        if error.code() not in ENDED:
            raise


async def _footprint(containerd: Containerd) -> Footprint:
    heap = await _profile(containerd, "heap?debug=1&gc=1")
    live = _number(r"# HeapAlloc = (\d+)", heap) + _number(r"# Stack = (\d+)", heap)
    status = Path(f"/proc/{containerd.pid}/status").read_text()  # noqa: ASYNC240 -- no disk
    rss = _number(r"VmRSS:\s+(\d+)", status) * 1024
    return Footprint(live, rss, await _goroutines(containerd))


async def _goroutines(containerd: Containerd) -> int:
    profile = await _profile(containerd, "goroutine?debug=1")
    return _number(r"goroutine profile: total (\d+)", profile)


async def _is_below(containerd: Containerd, number: int) -> bool:
    return await _goroutines(containerd) < number


async def _profile(containerd: Containerd, query: str) -> str:
    connector = aiohttp.UnixConnector(str(containerd.home / "debug.sock"))
    async with (
        aiohttp.ClientSession(connector=connector, raise_for_status=True) as session,
        session.get(f"http://containerd/debug/pprof/{query}") as response,
    ):
        return await response.text()


def _number(pattern: str, text: str) -> int:
    found = re.search(pattern, text)
    if found is None:
        raise RuntimeError(f"containerd tells no {pattern}")
    return int(found[1])


def _rows(batches: list[Batch], without: list[float]) -> Iterator[Row]:
    live = median((each.piled_up.live - each.before.live) / STREAMS for each in batches)
    rss = (max(each.piled_up.rss for each in batches) - batches[0].before.rss) / STREAMS
    each_leaves = [(one.piled_up.goroutines - one.before.goroutines) / STREAMS for one in batches]
    kept = (batches[-1].after.live - batches[0].after.live) / (STREAMS * (len(batches) - 1))
    grown = (batches[-1].after.rss - batches[0].before.rss) / 2**20
    yield Row("heap and stacks for each ended stream", f"{live / 1024:.1f} KiB")
    yield Row("RSS for each ended stream, the first that pile up", f"{rss / 1024:.1f} KiB")
    yield Row("goroutines for each ended stream", f"{median(each_leaves):.2f}")
    yield Row("heap and stacks that stay after the event, for each further stream", f"{kept:.0f} B")
    yield Row(f"RSS left of {len(batches) * STREAMS} after an event", f"{grown:.1f} MiB")
    after = [each.next_pod for each in batches]
    what = "RunPodSandbox, median (longest), after"
    yield Row(f"{what} {STREAMS} ended streams", _milliseconds(after))
    yield Row(f"{what} as long a time without", _milliseconds(without))
    for name, lease in LEASES.items():
        number = _renewals(lease, DAY)
        total = f"{number} streams, {number * live / 2**20:.1f} MiB"
        yield Row(f"a day without an event, --stream-lease={name}", total)


def _renewals(lease: float, seconds: float) -> int:
    """How many leases end in that time, if no event comes."""
    passed, renewals = 0.0, 0
    while passed < seconds:
        passed += stretched(lease, renewals) / 2
        renewals += 1
    return renewals


def _milliseconds(seconds: list[float]) -> str:
    return f"{median(seconds) * 1000:.1f} ms ({max(seconds) * 1000:.1f} ms)"
