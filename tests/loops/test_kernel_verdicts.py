"""Ghosts, strays and short lives at the default period: all are found, and nothing else is."""

import asyncio
import os
import random
import tempfile
import time
from collections import Counter
from collections.abc import Iterator
from dataclasses import dataclass, field
from pathlib import Path
from typing import Final

import pytest

from exporter.model.facts import Fact, Relist
from exporter.model.findings import Outcome, Verdict
from exporter.pleg.kernel import LASTING
from simulator.cgroups import CgroupFiles
from simulator.runtime import SimulatedRuntime
from tests.support.observer import observing
from tests.support.runtimes import simulated

pytestmark = pytest.mark.virtual_time

PERIOD: Final = 10.0
GRACE: Final = 5.0
# A second; and pods that they are spread over.
LIVES: Final = 20
PODS: Final = 50
# Until two lists that were requested later than the grace have been answered, and some more.
_LIE_SECONDS: Final = GRACE + 3.5 * PERIOD
_LIES: Final = (Verdict.GHOST, Verdict.STRAY)


@dataclass
class Witness:
    """Listens to what is found, and after how many lists.

    `began`: when each lie began; `lists`: how many that were requested later than the grace after
    that the ledger needed. `missed`: how many events were.
    """

    began: dict[tuple[Verdict, str], float] = field(default_factory=dict)
    lists: Counter[tuple[Verdict, int]] = field(default_factory=Counter)
    false: set[str] = field(default_factory=set)
    missed: int = 0
    _requested: list[float] = field(default_factory=list)

    def hear(self, fact: Fact, outcome: Outcome) -> None:
        if isinstance(fact, Relist):
            self._requested.append(fact.requested)
            del self._requested[:-8]
        for each in outcome.findings:
            if each.verdict in _LIES:
                began = self.began.pop((each.verdict, each.container_id), None)
                if began is None:
                    self.false.add(each.container_id)
                else:
                    needed = sum(requested > began + GRACE for requested in self._requested)
                    self.lists[each.verdict, needed] += 1
            self.missed += each.verdict is Verdict.MISSED


async def lead(
    runtime: SimulatedRuntime, sandbox: str, rng: random.Random, lie: Verdict | None, seen: Witness
) -> None:
    """One container's life of 0.1 to 10 s; what its runtime gets wrong it gets right at last."""
    container = runtime.create(sandbox, "app")
    await asyncio.sleep(rng.uniform(0.01, 0.5))
    runtime.start(container)
    await asyncio.sleep(10 ** rng.uniform(-1, 1))
    if lie is Verdict.GHOST:
        await asyncio.sleep(LASTING + 2 * PERIOD)
    if lie is Verdict.STRAY:
        runtime.take_for_ended(container)
    else:
        runtime.end_process(container)
    if lie is Verdict.GHOST:
        seen.began[lie, container] = time.monotonic()
        await asyncio.sleep(_LIE_SECONDS)
    # A clean-up that is slow, and ends within the grace.
    await asyncio.sleep(rng.uniform(0, 0.8 * GRACE))
    runtime.exit(container)
    await asyncio.sleep(10 ** rng.uniform(-2, 1))
    runtime.remove(container)
    if lie is Verdict.STRAY:
        seen.began[lie, container] = time.monotonic()
        await asyncio.sleep(_LIE_SECONDS)
        runtime.end_stray(sandbox, container)


async def churn(cgroups: Path, lives: int, lying: float, seed: int) -> Witness:
    """Watch so many lives until all is judged. `lying`: the share of ghosts, and that of strays."""
    rng, seen = random.Random(seed), Witness()
    setting = {"cgroup_root": cgroups, "relist_period": PERIOD, "missed_grace": GRACE}
    async with (
        simulated(cgroups=CgroupFiles(cgroups)) as server,
        observing(server.socket, seen, **setting) as observer,
        asyncio.TaskGroup() as group,
    ):
        runtime = server.runtime
        sandboxes = [runtime.run_pod(f"pod-{number}") for number in range(PODS)]
        await observer.connected()
        for _ in range(lives):
            dice = rng.random()
            lie = Verdict.GHOST if dice < lying else Verdict.STRAY if dice < 2 * lying else None
            # A stray whose pod has a ghost may be that one's process, until that is proven.
            some = {Verdict.GHOST: sandboxes[::2], Verdict.STRAY: sandboxes[1::2]}
            sandbox = rng.choice(some.get(lie, sandboxes) if lie else sandboxes)
            group.create_task(lead(runtime, sandbox, rng, lie, seen))
            await asyncio.sleep(rng.expovariate(LIVES))
        await asyncio.sleep(30 + 2 * _LIE_SECONDS)
        await observer.judged()
    return seen


@pytest.fixture
def cgroups() -> Iterator[Path]:
    """A folder in memory, as cgroups are: on a disk its files cost more than all else."""
    memory = "/dev/shm"  # noqa: S108 - the folder's own name is made up
    with tempfile.TemporaryDirectory(dir=memory if os.access(memory, os.W_OK) else None) as folder:
        yield Path(folder)


# Lives, and what is drawn of them; a million in all.
LONG = [
    pytest.param(100_000, seed, marks=[pytest.mark.soak, pytest.mark.timeout(3600)])
    for seed in range(10)
]


@pytest.mark.parametrize(("lives", "seed"), [(1_500, 1), *LONG])
async def test_ghosts_and_strays_are_found_by_the_second_list_and_nothing_else_is(
    lives: int, seed: int, cgroups: Path
) -> None:
    """Those that there are, and none among lives whose clean-ups take almost the grace."""
    seen = await churn(cgroups, lives, 0.04, seed)
    assert not seen.false
    assert not seen.began, "these were not found"
    # One that has just begun in its pod, and has not been seen to, holds a stray up for a list; so
    # may the next one.
    most = {Verdict.GHOST: 2, Verdict.STRAY: 4}
    assert all(1 <= needed <= most[lie] for lie, needed in seen.lists), seen.lists
    for lie in _LIES:
        assert sum(n for (found, _), n in seen.lists.items() if found is lie) > 0.03 * lives
    assert not seen.missed
