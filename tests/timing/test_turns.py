"""Long work in slices: other tasks do not wait for all of it."""

import asyncio
from collections.abc import Iterator

import pytest

from exporter.timing.turns import taking_turns
from tests.support.virtual_time import work


async def test_every_step_is_taken_in_order() -> None:
    """And what came of each is given back."""
    assert await taking_turns(iter(range(10_000))) == list(range(10_000))
    assert await taking_turns([]) == []
    assert await taking_turns([None, 1, None, 2]) == [1, 2]


@pytest.mark.virtual_time
async def test_others_have_their_turn_meanwhile() -> None:
    """After each millisecond, not at the end."""
    turns = 0

    async def other() -> None:
        nonlocal turns
        while True:
            await asyncio.sleep(0)
            turns += 1

    def busy() -> Iterator[None]:
        for _ in range(50):
            work(0.001)
            yield

    task = asyncio.create_task(other())
    await taking_turns(busy())
    task.cancel()
    # The first turn starts it.
    assert turns == 49


async def test_short_work_is_done_in_one_go() -> None:
    """There is nothing to be gained from going round for a few items."""
    turns = 0

    async def other() -> None:
        nonlocal turns
        await asyncio.sleep(0)
        turns += 1

    task = asyncio.create_task(other())
    await taking_turns(range(3))
    assert turns == 0
    task.cancel()
