"""The simulated kubelet under a whole exporter: late, stale, wrong, and never accused falsely."""

import asyncio
from dataclasses import replace
from operator import le
from pathlib import Path

import pytest

from exporter.model.findings import Verdict
from exporter.model.labels import KubeletPods
from simulator.cgroups import CgroupFiles
from simulator.churn import simulated_node
from simulator.options import Listens, Options
from testbed.waiting import until
from tests.support.observer import Observer, observing

pytestmark = pytest.mark.virtual_time

NODE = Options(pods=8, churn=4, failed_starts=0.05, kubelet_delay=0.5)
WRONG = (Verdict.STALE, Verdict.DISAGREES, Verdict.UNKNOWN_TO_KUBELET)


def wrong(watch: Observer) -> dict[str, int]:
    """How often the kubelet was found wrong."""
    totals = {each.value: watch.node.tally.total(each) for each in WRONG}
    return {name: number for name, number in totals.items() if number}


@pytest.mark.parametrize("listens", Listens)
async def test_a_kubelet_is_as_late_as_it_notices(listens: Listens, tmp_path: Path) -> None:
    """One that polls shows an exit half a second later; both take up to `kubelet_delay`."""
    pods, options = tmp_path / "pods.sock", replace(NODE, kubelet=listens)
    async with (
        simulated_node(options, tmp_path / "cri.sock", pods=pods) as server,
        observing(server.socket, relist_period=2.0, kubelet_pods_endpoint=pods) as watch,
    ):
        await until(lambda: watch.node.pods is KubeletPods.WATCHING, "it is watched")
        await asyncio.sleep(300)
        tally = watch.node.tally
        late = tally.mean_seconds(Verdict.EVENT_BELIEVED) or 0.0
        # Half of the delay, and half of the period of the kubelet's lists.
        expected = {Listens.EVENTED: 0.25, Listens.POLLED: 0.75}[listens]
        assert expected - 0.1 < late < expected + 0.1
        exits = tally.total(Verdict.EXIT_ANNOUNCED)
        assert exits > 800
        assert exits - tally.total(Verdict.EXIT_BELIEVED) < 8
        assert wrong(watch) == {}


@pytest.mark.parametrize(
    ("options", "verdict"),
    [(replace(NODE, stale=0.05), Verdict.STALE), (replace(NODE, wrong=0.05), Verdict.DISAGREES)],
    ids=["stale", "wrong"],
)
async def test_each_status_that_is_wrong_is_injected_then_found_and_nothing_else(
    options: Options, verdict: Verdict, tmp_path: Path
) -> None:
    """Some exits are shown only after two minutes, others with another exit code."""
    pods, injected, found = tmp_path / "pods.sock", [0], [0]
    async with (
        simulated_node(options, tmp_path / "cri.sock", pods=pods) as server,
        observing(server.socket, relist_period=2.0, kubelet_pods_endpoint=pods) as watch,
    ):
        await until(lambda: watch.node.pods is KubeletPods.WATCHING, "it is watched")
        for _ in range(300):
            await asyncio.sleep(1)
            injected.append(server.runtime.wrong[verdict])
            found.append(watch.node.tally.total(verdict))
        assert injected[-1] > 20
        assert all(map(le, found, injected))
        # Within two relists.
        assert all(map(le, injected, found[6:]))
        assert set(wrong(watch)) == {verdict.value}
        present = "stale_containers" if options.stale else "disagreeing_statuses_total"
        assert await watch.value(f"shadow_pleg_{present}") > 3


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
