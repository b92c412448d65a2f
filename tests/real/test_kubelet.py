"""A real runtime with one channel, and a kubelet that does not use it, and then does."""

import time
from collections.abc import AsyncIterator
from contextlib import asynccontextmanager

from bench.churn import Subscriber
from tests.support.harness import PATIENCE, InProcess, Metrics
from tests.support.kubelet_pages import STARTED, KubeletPage
from tests.support.kubelet_server import FakeKubelet, kubelet
from tests.support.real.containerd import Containerd
from tests.support.real_lives import (
    begin,
    finish,
    live,
    together,
)
from tests.support.waiting import until

# The shortest that is trust at all: answers count for 2 s, and it is asked every second.
GRACE = 2.5
TRUST = 2.0
ON = KubeletPage(gate=True, started=STARTED + 100)
OFF_AGAIN = KubeletPage(gate=False, started=STARTED + 200)


@asynccontextmanager
async def watching(containerd: Containerd) -> AsyncIterator[tuple[InProcess, FakeKubelet]]:
    """An exporter that asks this kubelet, which leaves the events."""
    async with kubelet() as fake:
        # While its gate is on it is asked once a period: by default that is as long as patience.
        flags = (f"--kubelet-metrics-url={fake.url}", "--kubelet-metrics-period=5s")
        async with InProcess(containerd.socket, *flags, grace=GRACE) as exporter:
            yield exporter, fake


async def reaches(exporter: InProcess, state: str) -> Metrics:
    """Wait for a state of the stream."""
    return await exporter.shows(lambda seen: seen.stream == state, f"the stream is {state}")


async def test_a_kubelet_that_comes_back_gets_its_events(containerd_17: Containerd) -> None:
    """It takes every second event until it is seen; none of that is silent, before or after."""
    async with watching(containerd_17) as (exporter, fake), containerd_17.pods() as cri:
        await exporter.streaming()
        await live(cri, "first")
        pods = [await begin(cri, f"web-{n}") for n in range(4)]
        await exporter.relisted()
        async with Subscriber(containerd_17.socket) as other:
            fake.page, came = ON, time.monotonic()
            await together(*(finish(cri, *pod) for pod in pods))
            seen = await reaches(exporter, "refused")
            assert time.monotonic() - came < TRUST + 1
            assert seen.counts("shadow_pleg_stream_disconnects_total") == {("kubelet",): 1}
            assert other.heard, "it took none: nothing was shared"
            # The exporter loses one more event by leaving; then all are the kubelet's.
            await live(cri, "along")
            sandbox, ids = await begin(cri, "last")
            await until(
                lambda: (ids[0], "STARTED") in other.heard, "it hears all", seconds=PATIENCE
            )
            seen = await exporter.settled()
            assert seen.silent == 0
        fake.page = OFF_AGAIN
        await exporter.streaming()
        await finish(cri, sandbox, ids)
        await live(cri, "after")
        pod = await begin(cri, "whole")
        await exporter.relisted()
        await finish(cri, *pod)
        seen = await exporter.settled()
    assert seen.silent == 0
    assert seen.value("shadow_pleg_stream_connections_total") == 2
