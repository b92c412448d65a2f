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


async def test_each_stale_status_is_found_and_nothing_else(tmp_path: Path) -> None:
    """Of some exits the kubelet learns only after two minutes; each is injected, then counted."""
    pods, options = tmp_path / "pods.sock", replace(NODE, stale=0.05)
    injected, found = [0], [0]
    async with (
        simulated_node(options, tmp_path / "cri.sock", pods=pods) as server,
        observing(server.socket, relist_period=2.0, kubelet_pods_endpoint=pods) as watch,
    ):
        for _ in range(300):
            await asyncio.sleep(1)
            injected.append(server.runtime.wrong[Verdict.STALE])
            found.append(watch.node.tally.total(Verdict.STALE))
        assert injected[-1] > 30
        assert all(map(le, found, injected))
        # Within two relists.
        assert all(map(le, injected, found[6:]))
        assert set(wrong(watch)) == {"stale"}
        assert await watch.value("shadow_pleg_stale_containers") > 3


async def test_each_wrong_exit_code_is_found_and_nothing_else(tmp_path: Path) -> None:
    """Of some exits the kubelet shows another exit code; the announcement has the runtime's."""
    pods, options = tmp_path / "pods.sock", replace(NODE, wrong=0.05)
    async with (
        simulated_node(options, tmp_path / "cri.sock", pods=pods) as server,
        observing(server.socket, relist_period=2.0, kubelet_pods_endpoint=pods) as watch,
    ):
        await until(lambda: watch.node.pods is KubeletPods.WATCHING, "it is watched")
        await asyncio.sleep(300)
        injected = server.runtime.wrong[Verdict.DISAGREES]
        assert injected > 20
        assert wrong(watch) == {Verdict.DISAGREES.value: injected}
        assert await watch.value("shadow_pleg_disagreeing_statuses_total") == injected


async def test_over_an_hour_with_restarts_of_either_side_no_status_is_accused(
    tmp_path: Path,
) -> None:
    """The runtime restarts every five minutes, the kubelet every seven; it takes up to 8 s."""
    pods, files = tmp_path / "pods.sock", CgroupFiles(tmp_path / "cgroup")
    options = replace(NODE, churn=2, kubelet_delay=8, restart_every=300, kubelet_restart_every=420)
    own = {"kubelet_pods_endpoint": pods, "cgroup_root": tmp_path / "cgroup"}
    async with (
        simulated_node(options, tmp_path / "cri.sock", files, pods) as server,
        observing(server.socket, relist_period=10.0, missed_grace=5.0, **own) as watch,
    ):
        await asyncio.sleep(3600)
        assert watch.node.tally.total(Verdict.EXIT_BELIEVED) > 4000
        assert watch.node.pods_ends.total() >= 8
        assert wrong(watch) == {}
