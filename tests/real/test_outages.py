"""The runtime goes away and comes back: the exporter stays, and says what it could not know."""

import os
import signal

import pytest

from testbed.containerd import Containerd
from tests.support.harness import InProcess
from tests.support.real_lives import begin, finish, live, together

# Processes start slowly on a busy machine, ten times as slowly as on a quiet one.
pytestmark = pytest.mark.timeout(120)


async def test_a_death_while_the_runtime_is_down(containerd_21: Containerd) -> None:
    """It shows in the next relist only: missed because the stream was down, not silently."""
    async with InProcess(containerd_21.socket) as exporter:
        await exporter.streaming()
        async with containerd_21.pods() as cri:
            sandbox, (app,) = await begin(cri, "web")
        await exporter.settled()
        await containerd_21.stop()
        # Its shim notes it even while containerd is down.
        os.kill(containerd_21.init_of(app), signal.SIGKILL)
        await containerd_21.start()
        await exporter.streaming()
        seen = await exporter.settled()
        assert seen.missed == {("stream_down", "ContainerDied", "container"): 1}
        async with containerd_21.pods() as cri:
            await finish(cri, sandbox, [app])
            await live(cri, "next")
        seen = await exporter.settled()
    assert seen.missed == {("stream_down", "ContainerDied", "container"): 1}
    assert seen.counts("shadow_pleg_event_gaps_total") == {}
    assert seen.value("shadow_pleg_stream_connections_total") == 2
    assert seen.counts("shadow_pleg_stream_disconnects_total") == {("unavailable",): 1}


async def test_a_crash_under_churn(containerd_21: Containerd) -> None:
    """What was under way when the runtime was killed is missed because of that, never silently."""
    async with InProcess(containerd_21.socket, grace=1) as exporter:
        await exporter.streaming()
        async with containerd_21.pods() as cri:
            pods = [await begin(cri, f"web-{n}") for n in range(4)]
            # The runtime has announced these, or is about to.
            await together(*(cri.stop(container) for _, (container,) in pods))
        await containerd_21.kill()
        await containerd_21.start()
        await exporter.streaming()
        async with containerd_21.pods() as cri:
            await together(*(finish(cri, *pod) for pod in pods))
        seen = await exporter.settled()
    assert seen.silent == 0
    assert seen.counts("shadow_pleg_event_gaps_total") == {}
