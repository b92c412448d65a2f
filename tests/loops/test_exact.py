"""The runtime as the outside world: what it does to its announcements is exactly what is counted.

The scripts run beside each other, each in a world of its own.
"""

from __future__ import annotations

from collections.abc import Mapping
from functools import partial

import pytest

from tests.loops.observer import DEADLINE
from tests.loops.scripts import SCRIPTS, Script
from tests.loops.together import Outcomes, side_by_side
from tests.loops.world import world


async def acted(script: Script) -> Mapping[str, float]:
    """What is counted after a script."""
    async with world(script.options, script.grace) as stage:
        await script.act(stage)
        if script.grace < DEADLINE:
            stage.outbox.calm()
            await stage.observer.judged()
        return await stage.observer.losses()


@pytest.fixture(scope="module")
def outcomes() -> Outcomes[Mapping[str, float]]:
    """What was counted after each script."""
    return side_by_side({name: partial(acted, script) for name, script in SCRIPTS.items()})


@pytest.mark.parametrize("name", SCRIPTS)
def test_what_happens_to_announcements_is_what_is_counted(
    outcomes: Outcomes[Mapping[str, float]], name: str
) -> None:
    """Each counter exactly, and every other one at 0."""
    assert outcomes.of(name) == SCRIPTS[name].counted
