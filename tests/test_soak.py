"""A long watch of a troubled node, whose cost must stay flat: SOAK_MINUTES, of `make soak`."""

import asyncio
import os
import statistics
import time
from pathlib import Path
from typing import Final

import pytest

from simulator.churn import simulated_node
from simulator.options import Options
from tests.support.commands import Exporter
from tests.support.measured import rss_mib

SECONDS: Final = 60 * float(os.environ.get("SOAK_MINUTES", "10"))
NODE: Final = Options(
    pods=110,
    containers_per_pod=3,
    churn=20,
    drop=0.01,
    duplicate=0.01,
    failed_starts=0.01,
    disconnect_every=17,
    restart_every=61,
)
FLAGS: Final = ("--relist-period=1s", "--stream-lease=5s")


def cost(pid: int) -> tuple[float, int]:
    return rss_mib(pid), len(list(Path(f"/proc/{pid}/fd").iterdir()))


@pytest.mark.soak
@pytest.mark.timeout(SECONDS + 300)
async def test_memory_and_open_files_stay_flat_on_a_troubled_node(folder: Path) -> None:
    """Its runtime loses events, ends its streams and restarts, and leases are short.

    What is remembered of gone containers grows for ten minutes, or until it is full: the first half
    is a warm-up. A connection that is being remade has two sockets for a moment.
    """
    costs = []
    async with (
        simulated_node(NODE, folder / "cri.sock") as server,
        Exporter(server.socket, *FLAGS, grace=1.0) as exporter,
    ):
        ends = time.monotonic() + SECONDS
        while time.monotonic() < ends:
            await exporter.metrics()
            costs.append(cost(exporter.pid))
            # As often as a sample is wanted.
            await asyncio.sleep(1)
        seen = await exporter.metrics()
        for name in ("lifecycle_events", "stream_connections", "verdicts"):
            assert seen.value(f"shadow_pleg_{name}_total") > 0, name
    half, last = len(costs) // 2, 3 * len(costs) // 4
    (memory, files), (memory_then, files_then) = (
        map(statistics.median, zip(*part, strict=True)) for part in (costs[half:last], costs[last:])
    )
    assert memory_then <= memory * 1.03
    assert files_then <= files + 2
