"""Lists that are too large or too slow, and runtimes that come and go."""

import asyncio
import time
from collections import Counter
from collections.abc import AsyncIterator
from contextlib import asynccontextmanager
from pathlib import Path

import grpc
import pytest
from structlog.typing import EventDict

from exporter.conditions.sentences import UNSENDABLE
from exporter.cri import runtime_v1_pb2 as pb
from exporter.cri.lists import ListDecoder
from exporter.daemon import Daemon
from exporter.model.findings import Verdict
from exporter.model.labels import Call, StreamState
from exporter.web.status_page import headline_of
from simulator.service import Method
from testbed.containerd import Containerd
from testbed.waiting import until
from tests.support.cri_messages import container, lists, sandbox
from tests.support.facts import EXITED, RUNNING, UNKNOWN, Play, Whole, beat, deleted, relist, up
from tests.support.observer import observing, parts, patiently
from tests.support.runtimes import ScriptedServer, simulated

SANDBOXES, CONTAINERS = Method.LIST_POD_SANDBOX, Method.LIST_CONTAINERS
ERRORS = "shadow_pleg_relist_errors_total"


def headline(those: Daemon) -> str:
    return headline_of(those.judge.at(time.monotonic()))[0].text


@asynccontextmanager
async def crowded(running: int, exited: int) -> AsyncIterator[tuple[ScriptedServer, Daemon]]:
    async with simulated() as server, parts(server.socket) as those:
        runtime = server.runtime
        for number in range(running + exited):
            pod = runtime.run_pod(f"cron-{number}", "jobs")
            app = runtime.create(pod, "job")
            runtime.start(app)
            if number >= running:
                runtime.stop(app)
                runtime.stop_pod(pod)
        yield server, those


@pytest.mark.quick
@pytest.mark.virtual_time
async def test_a_list_of_exited_ones_that_is_too_large_to_send_is_named() -> None:
    """https://github.com/kubernetes/kubernetes/issues/134750

    Some 18 500 exited containers: no list of them can be sent, so the kubelet removes none either.
    The runtime answers all else, and is not said to be silent.
    """
    async with crowded(running=2, exited=40) as (server, those):
        server.faults.sendable = 2_000
        await those.relisting._relist()
        node = those.node
        assert headline(those) == "The runtime's lists are too large"
        assert node.relist_errors == {"resource_exhausted": 1}
        assert "of SANDBOX_NOTREADY alone: remove exited pods and containers" in node.relist_note
        assert server.faults.calls[0][0] is SANDBOXES


@pytest.mark.quick
@pytest.mark.virtual_time
async def test_a_list_that_is_too_large_as_a_whole_is_asked_for_state_by_state() -> None:
    """https://github.com/siderolabs/talos/issues/10801

    100 CronJobs a minute, and 16 791 221 bytes of sandboxes. What is listed is the same; once the
    list is small again, it is asked for as a whole.
    """
    async with crowded(running=20, exited=20) as (server, those):
        await those.relisting._relist()
        whole = dict(those.node.listed)
        small = those.node.list_bytes[Call.SANDBOXES]
        server.faults.sendable = small - 1
        for relist_number in (1, 2):
            before = server.faults.count(SANDBOXES)
            await those.relisting._relist()
            assert those.node.relist_note == ""
            assert dict(those.node.listed) == whole
            # The refused one once, and one for each state; small ones are whole the next time.
            assert server.faults.count(SANDBOXES) - before == 3, relist_number
        assert those.node.relist_errors.total() == 0


@pytest.mark.quick
@pytest.mark.virtual_time
async def test_what_exits_between_the_lists_of_two_states_is_in_one_of_them() -> None:
    """https://github.com/neuvector/neuvector/issues/739

    Lists by state are asked for in the order in which a container goes through its states, and of
    two items the later state counts: a container in neither would seem to be removed.
    """
    async with simulated() as server, parts(server.socket) as those:
        pod = server.runtime.run_pod("web")
        ids = [server.runtime.create(pod, f"app-{number}") for number in range(10)]
        begun = ids[:5]
        for each in begun:
            server.runtime.start(each)
        server.faults.sendable, server.faults.list_seconds = 1_500, 1.0
        asked = asyncio.create_task(those.relisting._relist())
        # The sandboxes, all containers in vain, then by state: those that run were just looked up.
        await until(lambda: server.faults.count(CONTAINERS) == 4, "it is asked for those that run")
        await asyncio.sleep(0.5)
        server.runtime.stop(ids[0])
        await asked
        listed = {each: those.node.listed[each].state for each in begun}
    assert listed == dict.fromkeys(begun, RUNNING.state) | {begun[0]: EXITED.state}


@pytest.mark.quick
@pytest.mark.virtual_time
async def test_a_list_near_to_the_limit_is_told_before_the_node_dies_of_it() -> None:
    """https://github.com/kubernetes/kubernetes/issues/131407

    Containers piled up for days before the first list failed. From 12 MiB on the page says so.
    """
    async with simulated() as server, parts(server.socket) as those:
        server.faults.containers += [
            container(id=f"c{n}", pod_sandbox_id="n" * 900_000) for n in range(14)
        ]
        await those.relisting._relist()
        assert those.node.list_bytes[Call.CONTAINERS] > 12 << 20
        sizes = those.registry.get_sample_value(
            "shadow_pleg_list_bytes", {"call": Call.CONTAINERS.value}
        )
        assert sizes == those.node.list_bytes[Call.CONTAINERS]
        said = headline_of(those.judge.at(time.monotonic()))
        assert any(f"A list has 12.0 MiB; {UNSENDABLE}." in each.sentences for each in said)


@pytest.mark.quick
@pytest.mark.virtual_time
async def test_lists_of_83_seconds_are_lists() -> None:
    """https://github.com/kubernetes/kubernetes/issues/93886

    360 pods and 765 containers took that long, and the kubelet went on: it waits for two minutes.
    """
    async with (
        simulated() as server,
        observing(server.socket, relist_timeout=30.0, relist_period=10.0) as observer,
    ):
        server.faults.list_seconds = 83 / 2
        await patiently(lambda: observer.node.relist_seconds > 80, "such a list came")
        await patiently(lambda: observer.node.relist_seconds > 80, "and the next one")
        assert observer.node.relist_note == ""
        assert not observer.not_alive
        assert not observer.not_ready


@pytest.mark.quick
def test_18_500_containers_that_go_at_once_are_no_loss() -> None:
    """https://github.com/kubernetes/kubernetes/issues/134750

    What an administrator does about it: all exited ones are removed, each with its DELETED but one.
    """
    ids = [f"{number:064x}" for number in range(18_500)]
    play = Play(up(), beat(0.5), relist(1, **dict.fromkeys(ids, EXITED)), quiet=True)
    play.then(relist(2, **dict.fromkeys(ids, EXITED)))
    play.then(*(deleted(each, 3 + number / 1e4) for number, each in enumerate(ids[1:])))
    play.then(relist(6), beat(20), relist(21))
    assert [each for each in play.judged if "missed" in each] == [
        f"{ids[0]} ContainerRemoved missed silent"
    ]


@pytest.mark.quick
def test_a_container_that_enters_and_leaves_unknown_is_accused_of_nothing() -> None:
    """https://github.com/containerd/containerd/issues/8647

    Containers went from running to unknown and back all the time. An exit while it is unknown is
    owed all the same.
    """
    play = Play(up(), beat(0.5), relist(1, c1=RUNNING))
    for number in range(20):
        play.then(relist(2 + number, c1=UNKNOWN if number % 2 else RUNNING))
    assert play.judged == []
    play.then(relist(40, c1=UNKNOWN), relist(41, c1=EXITED), beat(60), relist(61, c1=EXITED))
    assert play.judged == ["c1 ContainerDied missed silent"]


@pytest.mark.quick
def test_a_container_that_comes_back_beside_its_successor_is_a_twin() -> None:
    """https://github.com/containerd/containerd/issues/3873

    One was unknown after a restart, with createdAt 0; the kubelet started a second of its name, and
    then the first one ran again.
    """
    decoder = ListDecoder()

    def whole(at: float, *shown: pb.Container) -> Whole:
        raws = [[raw] for raw in lists(sandbox(), *shown)]
        return Whole(at, at, tuple(decoder.items(*raws)))

    first, second = container(), container(id="c2")
    lost = container(state=pb.CONTAINER_UNKNOWN, created_at=0)
    shown = ((first,), (lost,), (lost, second), (first, second), (first, second), (first, second))
    play = Play(up(), beat(0.5), *(whole(10.0 * n, *each) for n, each in enumerate(shown, start=1)))
    assert play.ledger.number(Verdict.TWIN) == 1
    assert decoder.flaws == Counter()


BUT_VERSION = [method for method in Method if method is not Method.VERSION]


@pytest.mark.quick
@pytest.mark.virtual_time
@pytest.mark.parametrize("replaced", [True, False], ids=["another socket", "the same socket"])
async def test_a_runtime_that_is_half_there_is_looked_at_again_once_it_is_whole(
    folder: Path, log: list[EventDict], replaced: bool
) -> None:
    """https://github.com/k3s-io/k3s/issues/11973

    containerd answers while its CRI plugin fails to load, and is restarted. That it has no events
    is then not true, nor is it a reason to upgrade it.
    """
    path = folder / "cri.sock"
    async with observing(path, relist_period=5.0) as observer:
        async with simulated(at=path) as server:
            server.faults.refuse_next(1000, *BUT_VERSION, code=grpc.StatusCode.UNIMPLEMENTED)
            await observer.reaches(StreamState.UNSUPPORTED)
            await asyncio.sleep(5)
            if not replaced:
                server.faults.relent()
                whole = time.monotonic()
                await patiently(lambda: observer.node.connections == 1, "it is subscribed")
        if replaced:
            async with simulated(at=path):
                whole = time.monotonic()
                await patiently(lambda: observer.node.connections == 1, "it is subscribed")
        # The relist comes first where nothing else shows it, and may be five seconds away.
        assert time.monotonic() - whole < (1.5 if replaced else 7.5)
    said = [line["note"] for line in log if line["event"] == "event stream unsupported"]
    assert said
    assert not any("upgrade" in each for each in said)


@pytest.mark.quick
@pytest.mark.virtual_time
async def test_a_socket_that_comes_and_goes_for_minutes_is_one_outage(
    folder: Path, log: list[EventDict]
) -> None:
    """https://github.com/containerd/containerd/issues/10848

    It serves, fails to recover its state, and is restarted every five seconds. It lost nothing, and
    the log does not repeat itself.
    """
    path = folder / "cri.sock"
    async with observing(path, relist_period=5.0) as observer:
        for _ in range(60):
            async with simulated(at=path) as server:
                server.faults.refuse_next(1000, *BUT_VERSION)
                await asyncio.sleep(0.05)
            await asyncio.sleep(5)
        async with simulated(at=path):
            await observer.connected()
            await observer.relisted()
        assert observer.losses == {}
        assert observer.node.connections == 1
    warnings = [line for line in log if line["log_level"] in {"warning", "error"}]
    assert len(warnings) < 60 / 2


async def test_a_real_containerd_whose_list_is_too_large_is_watched_state_by_state(
    containerd_21: Containerd,
) -> None:
    """https://github.com/kubernetes/kubernetes/issues/134750

    Two pods of 12 containers with annotations of 750 KB: 18 MB as a whole, and half of it for each
    state; so are the events, which hold all of their pod.
    """
    large = {10: {1: "note", 2: "a" * 750 * 1024}}
    async with (
        observing(containerd_21.socket, relist_period=1.0) as exporter,
        containerd_21.pods() as cri,
    ):
        await exporter.streaming()
        ids: list[str] = []
        for name in ("started", "created"):
            pod = await cri.run_pod(name)
            mine = [await cri.create(pod, f"app-{n}", more=large) for n in range(12)]
            for each in mine if name == "started" else ():
                await cri.start(each)
            ids += mine
        await exporter.relisted()
        seen = await exporter.settled()
        assert len(exporter.node.listed) == len(ids) + 2
        assert exporter.node.list_bytes[Call.CONTAINERS] > 16 << 20
        assert seen.counts(ERRORS) == {}
        assert seen.missed == {}
        assert seen.counts("shadow_pleg_stream_disconnects_total") == {}
        assert seen.value("shadow_pleg_events_received_total", event="CREATED") == len(ids) + 2
