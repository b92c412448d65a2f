"""The event stream: messages as they come, and every way in which it ends."""

from __future__ import annotations

import asyncio
from collections.abc import AsyncIterator
from contextlib import asynccontextmanager

import grpc
import pytest

from exporter.cri import runtime_v1_pb2 as pb
from exporter.cri.client import Subscription
from exporter.errors import CriError, CriUnavailableError, CriUnimplementedError
from exporter.simulator.channel import StreamEnding
from exporter.simulator.service import Method
from tests.support.cri_clients import PATIENT, SOON, TOO_LARGE, connected
from tests.support.scripted_runtime import ScriptedServer
from tests.support.waiting import until


@asynccontextmanager
async def subscribed(
    lease: float | None = None,
) -> AsyncIterator[tuple[ScriptedServer, Subscription]]:
    """A simulated runtime and a subscription that it knows of."""
    async with connected() as (server, client):
        subscription = client.subscribe(7, lease)
        await until(lambda: server.runtime.channel.subscribers == 1, "the runtime is subscribed to")
        yield server, subscription


async def all_of(subscription: Subscription) -> list[bytes]:
    """Every message until the stream ends."""
    raws: list[bytes] = []
    async with asyncio.timeout(PATIENT):
        await subscription.read(raws.append)
    return raws


async def test_events_come_undecoded_and_in_order() -> None:
    """Then the clean end of a stream ends the reading without an error."""
    async with subscribed() as (server, subscription):
        server.runtime.run_pod("cart")
        server.announce_raw(b"anything")
        raws: list[bytes] = []
        reading = asyncio.create_task(subscription.read(raws.append))
        await until(lambda: len(raws) == 3, "all three have come")
        server.disconnect(StreamEnding.CLEAN)
        async with asyncio.timeout(PATIENT):
            await reading
    types = [pb.ContainerEventResponse.FromString(raw).container_event_type for raw in raws[:2]]
    assert types == [pb.CONTAINER_CREATED_EVENT, pb.CONTAINER_STARTED_EVENT]
    assert raws[2] == b"anything"
    assert subscription.number == 7


async def test_a_stream_that_breaks_is_unavailable() -> None:
    """As when the runtime is restarted."""
    async with subscribed() as (server, subscription):
        server.disconnect(StreamEnding.UNAVAILABLE)
        with pytest.raises(CriUnavailableError, match="GetContainerEvents: unavailable: "):
            await all_of(subscription)


async def test_a_lease_that_ends_is_deadline_exceeded() -> None:
    """The runtime's server keeps the deadline, whatever becomes of us."""
    async with subscribed(lease=SOON) as (_, subscription):
        with pytest.raises(CriUnavailableError) as caught:
            await all_of(subscription)
    assert caught.value.reason == "deadline_exceeded"


async def test_an_event_beyond_64_mebibytes_ends_the_stream_with_an_error() -> None:
    """The subscription is lost, the process is not."""
    async with subscribed() as (server, subscription):
        server.announce_raw(TOO_LARGE)
        with pytest.raises(CriError) as caught:
            await all_of(subscription)
    assert caught.value.reason == "resource_exhausted"


async def test_a_runtime_without_events_is_unimplemented() -> None:
    """What old runtimes answer."""
    async with connected() as (server, client):
        code = grpc.StatusCode.UNIMPLEMENTED
        server.faults.refuse_next(1, Method.GET_CONTAINER_EVENTS, code=code)
        with pytest.raises(CriUnimplementedError):
            await all_of(client.subscribe(0, None))


async def test_a_cancelled_subscription_is_given_up_by_the_runtime() -> None:
    """Its send is released: nobody waits for a reader that is gone."""
    async with subscribed() as (server, subscription):
        subscription.cancel()
        with pytest.raises(asyncio.CancelledError):
            await all_of(subscription)
        server.runtime.run_pod("cart")
        await until(lambda: server.runtime.channel.subscribers == 0, "the runtime let go")
