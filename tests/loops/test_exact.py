"""Whatever the runtime does to its announcements is counted, exactly."""

from __future__ import annotations

from collections.abc import Mapping

import pytest

from tests.support.observer import DEADLINE
from tests.support.scripts import SCRIPTS, Script
from tests.support.world import world

pytestmark = pytest.mark.virtual_time


async def acted(script: Script) -> Mapping[str, float]:
    """What is counted after a script."""
    async with world(script.options, script.grace) as stage:
        await script.act(stage)
        if script.grace < DEADLINE:
            stage.outbox.calm()
            await stage.observer.judged()
        return await stage.observer.losses()


@pytest.mark.parametrize("name", SCRIPTS)
async def test_what_happens_to_announcements_is_what_is_counted(name: str) -> None:
    """Each counter exactly, and every other one at 0."""
    assert await acted(SCRIPTS[name]) == SCRIPTS[name].counted
