"""How late the loop wakes up: seen where it was blocked, and near nothing where it was not."""

from __future__ import annotations

import time

from exporter.loops.lag import watch_lag
from tests.grounds.waiting import until
from tests.loops.parts import Parts, parts, running

NOWHERE = None


def block(seconds: float) -> None:
    """Keep the loop from turning, as a bug would."""
    end = time.monotonic() + seconds
    while time.monotonic() < end:
        pass


async def observed(those: Parts, times: int) -> float:
    """Wait for so many observations; how much lag they saw in all."""
    name = "shadow_pleg_event_loop_lag_seconds"
    await until(lambda: those.sample(f"{name}_count") >= times, "the lag is observed")
    return those.sample(f"{name}_sum")


async def test_a_blocked_loop_is_observed() -> None:
    """What kept everything waiting shows as lag of that length; waiting in peace does not."""
    async with parts(NOWHERE) as those, running(watch_lag(those.histograms)):
        before = await observed(those, 1)
        assert 0 <= before < 0.4
        block(1.5)
        assert await observed(those, 2) - before > 0.4
