"""The simulated kubelet under a whole exporter: late, stale, wrong, and never accused falsely."""

import asyncio
from dataclasses import replace
from pathlib import Path

import pytest

from exporter.model.findings import Verdict
from simulator.cgroups import CgroupFiles
from simulator.churn import simulated_node
from simulator.options import Listens, Options
from tests.support.observer import Observer, observing

pytestmark = pytest.mark.virtual_time

NODE = Options(pods=8, churn=4, failed_starts=0.05, kubelet_delay=0.5)
WRONG = (Verdict.STALE, Verdict.DISAGREES, Verdict.UNKNOWN_TO_KUBELET)


def wrong(watch: Observer) -> dict[str, int]:
    """How often the kubelet was found wrong."""
    totals = {each.value: watch.node.tally.total(each) for each in WRONG}
    return {name: number for name, number in totals.items() if number}


@pytest.mark.parametrize("listens", Listens)
async def test_over_an_hour_with_restarts_of_either_side_no_status_is_accused(
    listens: Listens, tmp_path: Path
) -> None:
    """The runtime restarts every five minutes, the kubelet every seven; it takes up to 8 s."""
    pods, files = tmp_path / "pods.sock", CgroupFiles(tmp_path / "cgroup")
    options = replace(NODE, churn=1, kubelet=listens, kubelet_delay=8, restart_every=300)
    options = replace(options, kubelet_restart_every=420)
    own = {"kubelet_pods_endpoint": pods, "cgroup_root": tmp_path / "cgroup"}
    async with (
        simulated_node(options, tmp_path / "cri.sock", files, pods) as server,
        observing(server.socket, relist_period=10.0, missed_grace=5.0, **own) as watch,
    ):
        await asyncio.sleep(3600)
        assert watch.node.tally.total(Verdict.EXIT_BELIEVED) > 2000
        assert watch.node.pods_ends.total() >= 8
        assert wrong(watch) == {}
