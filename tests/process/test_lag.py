"""How late the loop wakes up: seen where it was blocked, and near nothing where it was not."""

from __future__ import annotations

import pytest

from exporter.process.lag import watch_lag
from tests.support.parts import Parts, parts, running
from tests.support.virtual_time import work
from tests.support.waiting import until

pytestmark = [pytest.mark.virtual_time, pytest.mark.usefixtures("log")]

NOWHERE = None


async def observed(those: Parts, times: int) -> float:
    """Wait for so many observations; how much lag they saw in all."""
    name = "shadow_pleg_event_loop_lag_seconds"
    await until(lambda: those.sample(f"{name}_count") >= times, "the lag is observed")
    return those.sample(f"{name}_sum")


async def test_a_blocked_loop_is_observed() -> None:
    """What kept everything waiting shows as lag of that length; waiting in peace does not."""
    async with parts(NOWHERE) as those, running(watch_lag(those.histograms)):
        before = await observed(those, 1)
        assert before == pytest.approx(0, abs=0.01)
        work(1.5)
        assert await observed(those, 2) - before == pytest.approx(0.5, abs=0.01)
        assert await observed(those, 3) - before == pytest.approx(0.5, abs=0.01)
