"""A real runtime, and a subscriber that plays a kubelet behind a proxy that loses events."""

import pytest
from aiohttp import web

from testbed.containerd import Containerd
from testbed.waiting import until
from tests.support.harness import PATIENCE, InProcess, Metrics
from tests.support.kubelet_server import FakeKubelet, kubelet
from tests.support.one_side import PlayedKubelet, playing_kubelet, proxy
from tests.support.real_lives import live

# On a busy machine either side may be late; a reading a second.
GRACE = 5.0
QUIET_READINGS = 3 * round(GRACE)
MISSED = "shadow_pleg_kubelet_missed_events_total"
ONLY = "shadow_pleg_kubelet_only_events_total"
UNDECIDED = "shadow_pleg_kubelet_undecided_events"


async def quiet(fake: FakeKubelet) -> None:
    """Wait for readings while nothing happens."""
    asked = len(fake.requests)
    await until(
        lambda: len(fake.requests) > asked + QUIET_READINGS, "readings", seconds=4 * PATIENCE
    )


def shown_by(played: PlayedKubelet, fake: FakeKubelet) -> None:
    """The fake kubelet shows what the played one counts."""

    async def page(_request: web.Request) -> web.Response:
        return web.Response(text=played.page.text())

    fake.answer = page


# Both sides may be late by the grace, which has to pass several times: a minute.
@pytest.mark.soak
async def test_what_the_kubelets_connection_lost_is_counted_as_its_own(
    containerd_21: Containerd,
) -> None:
    """Exactly, while the runtime and the exporter lost nothing."""
    async with (
        proxy(containerd_21.socket) as theirs,
        playing_kubelet(theirs.socket) as played,
        kubelet() as fake,
        containerd_21.pods() as cri,
    ):
        shown_by(played, fake)
        flags = (f"--kubelet-metrics-url={fake.url}", "--kubelet-metrics-period=1s")
        async with InProcess(containerd_21.socket, *flags, grace=GRACE) as exporter:
            await exporter.streaming()
            await live(cri, "before")
            await quiet(fake)
            theirs.drop = 3
            await live(cri, "lossy")
            assert theirs.dropped == 3
            await quiet(fake)
            await live(cri, "after")

            def proven(seen: Metrics) -> bool:
                return seen.value(MISSED) == 3

            seen = await exporter.shows(proven, "3 events are proven")
            assert seen.value(MISSED, cause="silent") == 3
            assert seen.value(ONLY) == 0
            assert seen.silent == 0
            await quiet(fake)
            seen = await exporter.settled()
            assert seen.value(MISSED) == 3
            assert seen.value(UNDECIDED) == 0
            assert seen.value("shadow_pleg_kubelet_stream", state="connected") == 1
