"""The exporter behind `shadow-pleg filter`: the same verdicts, and neither holds up containerd."""

import asyncio
import signal
from collections.abc import AsyncIterator
from contextlib import AsyncExitStack, asynccontextmanager
from pathlib import Path
from typing import Any

import grpc.aio
import pytest

from crifilter.calls import EVENTS
from exporter.cri.client import SERVICE
from testbed.churn import FLOOD, LEASE, MORE, SLACK, frozen, more
from testbed.containerd import Containerd
from testbed.waiting import until
from tests.real.test_harm import ENDED, amid_churn
from tests.support.commands import Exporter, Filter, filtering
from tests.support.observer import observing
from tests.support.real_lives import begin, delete_below

pytestmark = pytest.mark.usefixtures("sound_log")

# So long that it frees no client within a test: what does is the filter.
UNENDING = "--stream-lease=10m"
OFTEN = "--relist-period=200ms"


async def test_what_was_deleted_behind_the_cri_is_known_to_be_so(containerd_21: Containerd) -> None:
    async with (
        filtering(containerd_21.socket) as it,
        observing(it.socket) as exporter,
        containerd_21.pods() as cri,
    ):
        await exporter.streaming()
        _, (app,) = await begin(cri, "web")
        await delete_below(containerd_21, app)
        await exporter.settled()
        await cri.remove(app)
        await exporter.settled()
        seen = await exporter.settled()
    assert seen.missed == {("by_design", "ContainerRemoved", "container"): 1}
    assert seen.counts(ENDED) == {}


async def test_a_frozen_exporter_delays_no_other_client(containerd_21: Containerd) -> None:
    async with (
        filtering(containerd_21.socket) as it,
        Exporter(it.socket, UNENDING, OFTEN, grace=1) as exporter,
    ):
        # Names come through the filter, annotations do not: both connections fill soon.
        large: dict[str, Any] = {"name": "n" * 4_000, "note": 500_000}
        async with amid_churn(containerd_21, SLACK, exporter, **large) as (churn, _):
            with frozen(exporter.pid):
                await more(churn, 2 * FLOOD)
            await more(churn, MORE)
        seen = await exporter.settled()
    assert seen.stream == "streaming"
    assert seen.silent == 0
    # Nothing was lost either: the filter kept it.
    assert seen.missed == {}
    assert seen.counts(ENDED) == {}


async def test_a_frozen_filter_frees_the_runtime_when_the_lease_ends(
    containerd_21: Containerd,
) -> None:
    """The exporter's deadline binds the runtime; it returns when the filter does."""
    async with (
        filtering(containerd_21.socket) as it,
        Exporter(
            it.socket, f"--stream-lease={LEASE:g}s", OFTEN, "--relist-timeout=2s", grace=1
        ) as exporter,
    ):
        async with amid_churn(containerd_21, LEASE + SLACK, exporter) as (churn, _):
            with frozen(it.pid):
                await more(churn, FLOOD)
            await exporter.shows(lambda seen: seen.counts(ENDED) != {}, "it knows of the outage")
            await exporter.streaming()
            await more(churn, MORE)
        seen = await exporter.settled()
    assert seen.silent == 0


async def test_a_killed_filter_is_an_outage_of_the_stream(
    containerd_21: Containerd, folder: Path
) -> None:
    socket = folder / "filter.sock"
    async with (
        filtering(containerd_21.socket, socket) as first,
        Exporter(socket, UNENDING, OFTEN, grace=1) as exporter,
        amid_churn(containerd_21, SLACK, exporter) as (churn, _),
    ):
        await more(churn, 1)
        first.process.send_signal(signal.SIGKILL)
        await exporter.shows(lambda seen: seen.stream != "streaming", "it has noticed")
        await more(churn, MORE)
        async with filtering(containerd_21.socket, socket):
            await exporter.streaming()
            await more(churn, MORE)
            seen = await exporter.settled()
    assert seen.counts(ENDED) == {("unavailable",): 1}
    assert seen.silent == 0


@asynccontextmanager
async def abuse(it: Filter) -> AsyncIterator[list[int]]:
    done, held = [0], []

    async def call(channel: Any) -> None:
        while True:
            await channel.unary_stream(SERVICE + "ExecSync")(b"", timeout=60).code()
            asked = channel.unary_stream(EVENTS)(b"", timeout=60)
            try:
                # Only a refusal comes at once.
                async with asyncio.timeout(0.05):
                    await asked.code()
            except TimeoutError:
                held.append(asked)
            done[0] += 2

    async with AsyncExitStack() as stack:
        calls = []
        for _ in range(8):
            channel = grpc.aio.insecure_channel(f"unix:{it.socket}")
            await stack.enter_async_context(channel)
            calls.append(asyncio.create_task(call(channel)))
        try:
            yield done
        finally:
            for each in calls:
                each.cancel()
            await asyncio.gather(*calls, return_exceptions=True)


async def test_an_abused_filter_harms_no_other_client(containerd_21: Containerd) -> None:
    async with (
        filtering(containerd_21.socket) as it,
        amid_churn(containerd_21, SLACK) as (churn, _),
        abuse(it) as done,
    ):
        await more(churn, MORE)
        await until(lambda: done[0] > 500, "there was some abuse", seconds=60)
        assert 0 < it.log.count("call denied") < 50
