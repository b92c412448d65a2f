"""The first law: whatever becomes of the exporter, neither the runtime nor others suffer by it."""

import json
import signal
from collections.abc import AsyncIterator
from contextlib import asynccontextmanager
from typing import Any

from exporter.model.events import EventType
from exporter.model.findings import Verdict
from testbed.churn import FLOOD, LEASE, MORE, SLACK, Churn, Step, Subscriber, more, others
from testbed.containerd import Containerd
from tests.support.harness import Exporter

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
    async with others(containerd) as (cri, other):
        if exporter:
            await exporter.streaming()
        churn = Churn(cri, WORKERS, **of_churn)
        async with churn.going_on():
            yield churn, other
        assert churn.longest <= most
        assert await other.lost(churn.led) == 0


async def gaps(exporter: Exporter) -> set[Step]:
    """Announcements that never came though a later one did; AssertionError if not all are known."""
    status, text = await exporter.get("/debug/misses?format=json")
    assert status == 200
    found = {
        (record["container"]["id"], ANNOUNCEMENTS[record["event"]])
        for record in json.loads(text)["records"]
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
            async with exporter.frozen():
                await more(churn, FLOOD)
            await exporter.shows(lambda seen: seen.counts(ENDED) != {}, "it knows that it slept")
            await exporter.streaming()
            outage = other.received - before
            await more(churn, MORE)
        seen = await exporter.settled()
        assert await gaps(exporter) <= outage
    assert seen.value(ENDED) == 1
    assert seen.silent == 0


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
