"""A real kubelet's statuses beside its runtime's events: what is measured, and none is wrong."""

import asyncio
from bisect import bisect_left
from itertools import pairwise
from pathlib import Path
from statistics import median

import pytest

from exporter import metrics
from exporter.model.labels import KubeletPods
from testbed.waiting import until
from tests.support.observer import Observer, observing
from tests.support.recorded_kubelet import KINDS, delays, played

pytestmark = pytest.mark.virtual_time

STATUS = ("exit_to_status", "event_to_status")
WRONG = (metrics.STALE, metrics.DISAGREES, metrics.UNKNOWN)


async def buckets(watch: Observer, name: str) -> dict[float, float]:
    """The histogram's cumulative counts by bound."""
    samples = (await watch.metrics()).samples
    found = {s.labels["le"]: s.value for s in samples if s.name == f"{name}_bucket"}
    return {float(le): value for le, value in found.items()}


def bucket_of(counts: dict[float, float], share: float) -> int:
    """The number of the bucket that holds that share of all."""
    return bisect_left(list(counts.values()), share * list(counts.values())[-1])


@pytest.mark.parametrize("kind", KINDS)
async def test_a_recorded_kubelet_is_measured_as_a_plain_script_does(
    kind: str, tmp_path: Path
) -> None:
    """All 133 exits, the same median to a bucket; nothing is stale, disagrees or is unknown."""
    async with (
        played(kind, tmp_path) as (player, runtime, kubelet),
        observing(runtime, relist_period=1.0, kubelet_pods_endpoint=kubelet) as watch,
    ):
        await watch.connected()
        await until(lambda: watch.node.pods is KubeletPods.WATCHING, "it watches")
        playing = asyncio.create_task(player.run())
        await player.over.wait()
        await playing
        await watch.relisted()
        for name, expected in zip(STATUS, delays(kind), strict=True):
            counts = await buckets(watch, f"shadow_pleg_{name}_seconds")
            assert list(counts.values())[-1] == len(expected) == 133
            bounds = [0.0, *counts]
            low, high = list(pairwise(bounds))[bucket_of(counts, 0.5)]
            assert low <= median(expected) <= high
        for spec in WRONG:
            assert await watch.value(f"{spec.name}_total") == 0
