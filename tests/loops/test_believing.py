"""The watch of the kubelet's pods: its states, how it comes back, and what it costs others."""

import asyncio
import time
from collections.abc import AsyncIterator
from dataclasses import replace
from pathlib import Path

import grpc
import pytest
import pytest_asyncio

from exporter.model.facts import BeliefsLost, BeliefsShown, Believed
from exporter.model.findings import Verdict
from exporter.model.labels import KubeletPods, PodsEnd
from simulator.cgroups import CgroupFiles
from simulator.churn import simulated_node
from simulator.options import Listens, Options
from simulator.pods import PodsServer
from testbed.waiting import until
from tests.kubelet.test_pods import RUNS, container, pod
from tests.support.observer import observing, tasks
from tests.support.scripted_runtime import ScriptedServer
from tests.support.tape import Tape

pytestmark = pytest.mark.virtual_time

SHOWN = pod(container("app", "c1", state=RUNS)).SerializeToString()


def shown(tape: Tape) -> list[str]:
    """What the kubelet is said to show, in order."""
    kinds = Believed | BeliefsShown | BeliefsLost
    return [type(fact).__name__ for fact in tape.facts if isinstance(fact, kinds)]


@pytest_asyncio.fixture
async def kubelet(tmp_path: Path) -> AsyncIterator[PodsServer]:
    """A kubelet with one pod."""
    async with PodsServer(tmp_path / "pods.sock") as served:
        served.pods["u1"] = SHOWN
        yield served


async def test_all_pods_come_first_then_what_changes(
    server: ScriptedServer, kubelet: PodsServer
) -> None:
    """And where it ends, all is void; it is back within a second."""
    tape = Tape()
    async with observing(server.socket, tape, kubelet_pods_endpoint=kubelet.path) as watch:
        await watch.reaches(KubeletPods.WATCHING)
        kubelet.drop("u1")
        await until(lambda: len(shown(tape)) == 3, "it is dropped")
        kubelet.end()
        await until(lambda: len(shown(tape)) == 4, "the watch ends")
        ended = time.monotonic()
        await until(lambda: len(shown(tape)) == 5, "it is back")
        assert time.monotonic() - ended < 1.1
        assert watch.node.pods_ends == {PodsEnd.LAGGED: 1}
    again = ["BeliefsLost", "BeliefsShown"]
    assert shown(tape) == ["Believed", "BeliefsShown", "Believed", *again]


async def test_an_absent_kubelet_is_a_state_and_no_fact(
    server: ScriptedServer, tmp_path: Path
) -> None:
    """It may come at any time: its socket is looked for each second."""
    tape, path = Tape(), tmp_path / "pods.sock"
    async with observing(server.socket, tape, kubelet_pods_endpoint=path) as watch:
        await asyncio.sleep(30)
        await watch.reaches(KubeletPods.UNAVAILABLE)
        assert "No such file" in watch.node.pods_note
        assert (shown(tape), watch.node.pods_ends) == ([], {})
        async with PodsServer(path) as kubelet:
            await watch.reaches(KubeletPods.WATCHING)
            assert kubelet.watches == 1
        await watch.reaches(KubeletPods.UNAVAILABLE)


@pytest.mark.parametrize(
    ("refusal", "end", "a_minute"),
    [
        (grpc.StatusCode.FAILED_PRECONDITION, PodsEnd.NOT_SYNCHRONIZED, 60),
        (grpc.StatusCode.RESOURCE_EXHAUSTED, PodsEnd.LAGGED, 60),
        (grpc.StatusCode.PERMISSION_DENIED, PodsEnd.DENIED, 60),
        (grpc.StatusCode.UNIMPLEMENTED, PodsEnd.UNSUPPORTED, 1),
        (grpc.StatusCode.INTERNAL, PodsEnd.OTHER, 60),
    ],
)
async def test_a_kubelet_that_refuses_is_asked_once_a_second_at_most(
    refusal: grpc.StatusCode,
    end: PodsEnd,
    a_minute: int,
    server: ScriptedServer,
    kubelet: PodsServer,
) -> None:
    """What only another kubelet can change, once a minute."""
    kubelet.refusal = refusal
    async with observing(server.socket, kubelet_pods_endpoint=kubelet.path) as watch:
        await until(lambda: kubelet.watches > 0, "it is asked")
        await asyncio.sleep(60)
        assert 0.9 * a_minute <= kubelet.watches - 1 <= a_minute
        denied = end is PodsEnd.DENIED
        assert watch.node.pods is (KubeletPods.DENIED if denied else KubeletPods.UNAVAILABLE)
        assert set(watch.node.pods_ends) == {end}
        kubelet.refusal = None
        await watch.reaches(KubeletPods.WATCHING)


@pytest.mark.parametrize("raw", [b"\xff", b"\x12\xff\xff\xff\x0f"])
async def test_nonsense_costs_one_attempt_a_minute(
    raw: bytes, server: ScriptedServer, kubelet: PodsServer
) -> None:
    """What it showed before is void."""
    tape = Tape()
    async with observing(server.socket, tape, kubelet_pods_endpoint=kubelet.path) as watch:
        await watch.reaches(KubeletPods.WATCHING)
        kubelet.send(raw)
        await watch.reaches(KubeletPods.UNAVAILABLE)
        await asyncio.sleep(55)
        assert (kubelet.watches, watch.node.pods_ends) == (1, {PodsEnd.MALFORMED: 1})
        await watch.reaches(KubeletPods.WATCHING)
    assert shown(tape)[:3] == ["Believed", "BeliefsShown", "BeliefsLost"]


async def test_a_flood_ends_the_watch_before_it_takes_a_second(
    server: ScriptedServer, kubelet: PodsServer
) -> None:
    """So many changes as no node has: they are dropped, counted, and tried again in a minute."""
    volumes = b"\x7a\x80\x80\x04" + bytes(1 << 16)
    async with observing(server.socket, kubelet_pods_endpoint=kubelet.path) as watch:
        await watch.reaches(KubeletPods.WATCHING)
        async with tasks(_flood(kubelet, SHOWN + volumes)):
            await watch.reaches(KubeletPods.UNAVAILABLE)
        assert watch.node.pods_ends == {PodsEnd.OVERFLOW: 1}


async def _flood(kubelet: PodsServer, large: bytes) -> None:
    while True:
        kubelet.show("u1", large)
        await asyncio.sleep(0.001)


@pytest.mark.parametrize("listens", Listens)
async def test_over_an_hour_with_restarts_of_either_side_no_status_is_accused(
    listens: Listens, tmp_path: Path
) -> None:
    """The runtime restarts every five minutes, the kubelet every seven; it takes up to 8 s."""
    pods, cgroups = tmp_path / "pods.sock", tmp_path / "cgroup"
    options = Options(pods=8, churn=1, failed_starts=0.05, kubelet=listens, kubelet_delay=8)
    options = replace(options, restart_every=300, kubelet_restart_every=420)
    own = {"kubelet_pods_endpoint": pods, "cgroup_root": cgroups}
    async with (
        simulated_node(options, tmp_path / "cri.sock", CgroupFiles(cgroups), pods) as server,
        observing(server.socket, relist_period=10.0, missed_grace=5.0, **own) as watch,
    ):
        await asyncio.sleep(3600)
        tally = watch.node.tally
        assert tally.total(Verdict.EXIT_BELIEVED) > 2000
        assert watch.node.pods_ends.total() >= 8
        # Half of the delay, and one that polls up to a second later.
        assert 3.5 < (tally.mean_seconds(Verdict.EVENT_BELIEVED) or 0.0) < 5.1
        wrong = (Verdict.STALE, Verdict.DISAGREES, Verdict.UNKNOWN_TO_KUBELET)
        assert not any(map(tally.total, wrong))
