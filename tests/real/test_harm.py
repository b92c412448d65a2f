"""The first law: whatever becomes of the exporter, neither the runtime nor others suffer by it."""

import asyncio
import itertools
import json
import signal
import time
from collections import Counter
from collections.abc import AsyncIterator
from contextlib import asynccontextmanager
from typing import Any

from exporter.model.events import EventType
from exporter.model.findings import Verdict
from testbed.churn import FLOOD, LEASE, MORE, SLACK, Churn, Step, Subscriber, frozen, more, others
from testbed.containerd import Containerd
from testbed.waiting import until
from tests.support.commands import Exporter
from tests.support.observer import DEADLINE
from tests.support.real_lives import begin, finish

# Each list of the churn's pods is large.
LEASED = (f"--stream-lease={LEASE:g}s", "--relist-period=200ms")

ENDED = "shadow_pleg_stream_disconnects_total"
ANNOUNCEMENTS = {event.announces.label: event.name for event in EventType}

WORKERS = 2


@asynccontextmanager
async def amid_churn(
    containerd: Containerd, most: float, exporter: Exporter | None = None, **of_churn: Any
) -> AsyncIterator[tuple[Churn, Subscriber]]:
    """Pods live and die while an exporter is abused, beside another subscriber."""
    if exporter:
        await exporter.streaming()
    async with others(containerd) as (cri, other):
        churn = Churn(cri, WORKERS, **of_churn)
        async with churn.going_on():
            yield churn, other
        assert churn.longest <= most
        assert await other.lost(churn.led) == set()


async def gaps(exporter: Exporter) -> set[Step]:
    """Announcements that never came though a later one did; AssertionError if not all are known."""
    page = await exporter.page("debug/misses?format=json")
    found = {
        (record["container"]["id"], ANNOUNCEMENTS[record["event"]])
        for record in json.loads(page)["records"]
        if record["verdict"] == Verdict.GAP.value
    }
    seen = await exporter.metrics()
    # Those that an outage may explain are no cases.
    assert len(found) == seen.value("shadow_pleg_verdicts_total", verdict="gap", cause="")
    return found


async def test_a_frozen_exporter_under_churn_blocks_no_call_beyond_its_lease(
    containerd_21: Containerd,
) -> None:
    async with Exporter(containerd_21.socket, *LEASED, grace=1) as exporter:
        async with amid_churn(containerd_21, LEASE + SLACK, exporter) as (churn, other):
            before = set(other.received)
            with frozen(exporter.pid):
                await more(churn, FLOOD)
            await exporter.shows(lambda seen: seen.counts(ENDED) != {}, "it knows that it slept")
            await exporter.streaming()
            outage = other.received - before
            await more(churn, MORE)
        seen = await exporter.settled()
        assert await gaps(exporter) <= outage
    assert seen.value(ENDED) == 1
    assert seen.silent == 0


async def test_what_ends_after_the_lease_of_a_frozen_exporter(containerd_21: Containerd) -> None:
    """The lease was over, so nothing was subscribed: `stream_down`, never silent."""
    async with (
        Exporter(containerd_21.socket, *LEASED) as exporter,
        # Without another subscriber containerd would keep the events for the exporter.
        others(containerd_21) as (cri, _),
    ):
        await exporter.streaming()
        pods = [await begin(cri, f"web-{n}") for n in range(3)]
        # A process that gets no time for as long as its lease misses the starts, too.
        before = await exporter.settled()
        with frozen(exporter.pid):
            # Nothing shows that it has passed.
            over = time.monotonic() + LEASE + 0.5
            await until(lambda: time.monotonic() >= over, "time passes", seconds=DEADLINE)
            await asyncio.gather(*(finish(cri, *pod) for pod in pods))
        await exporter.streaming()
        seen = await exporter.settled()
    ends = itertools.product(("ContainerDied", "ContainerRemoved"), ("container", "sandbox"))
    missed = Counter(seen.missed) - Counter(before.missed)
    assert missed == {("stream_down", *end): 3 for end in ends}
    assert seen.silent == 0
    gaps, gap = "shadow_pleg_verdicts_total", "gap"
    assert seen.counts(gaps, verdict=gap) == before.counts(gaps, verdict=gap)


async def test_an_exporter_killed_under_churn_blocks_no_call(containerd_21: Containerd) -> None:
    async with Exporter(containerd_21.socket, *LEASED, grace=1) as exporter:
        async with amid_churn(containerd_21, SLACK, exporter) as (churn, other):
            await more(churn, 1)
            before = set(other.received)
            assert await exporter.end(signal.SIGKILL) == -signal.SIGKILL
            await more(churn, MORE)
            await exporter.start()
            await exporter.streaming()
            outage = other.received - before
            await more(churn, MORE)
        seen = await exporter.settled()
        assert await gaps(exporter) <= outage
    assert seen.stream == "streaming"
    assert seen.silent == 0
