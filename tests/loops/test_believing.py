"""The watch of the kubelet's pods: its states, how it comes back, and what it costs others."""

import asyncio
import time
from collections.abc import AsyncIterator, Callable
from contextlib import asynccontextmanager
from dataclasses import dataclass, replace
from pathlib import Path

import grpc
import pytest
import pytest_asyncio

from exporter.kubelet import kubelet_pods_pb2 as pb
from exporter.model.facts import BeliefsLost, BeliefsShown, Believed
from exporter.model.findings import Verdict
from exporter.model.labels import KubeletPods, PodsEnd
from exporter.node.state import Node
from simulator.churn import simulated_node
from simulator.kubelet import LAG, SYNCED, PodsServer, event
from simulator.options import Listens, Options
from simulator.runtime import CgroupFiles, SimulatedRuntime
from simulator.service import Context, listening
from testbed.waiting import until
from tests.kubelet.test_pods import RUNS, container, ended, pod
from tests.support.observer import observing, tasks
from tests.support.runtimes import ScriptedServer
from tests.support.tape import Tape

pytestmark = pytest.mark.virtual_time

SHOWN = pod(container("app", "c1", state=RUNS))


def shown(tape: Tape) -> list[str]:
    kinds = Believed | BeliefsShown | BeliefsLost
    return [type(fact).__name__ for fact in tape.facts if isinstance(fact, kinds)]


@pytest_asyncio.fixture
async def kubelet(tmp_path: Path) -> AsyncIterator[PodsServer]:
    async with PodsServer(tmp_path / "pods.sock") as served:
        served.update(SHOWN)
        yield served


async def test_all_pods_come_first_then_what_changes(
    server: ScriptedServer, kubelet: PodsServer
) -> None:
    tape = Tape()
    async with observing(server.socket, tape, kubelet_pods_endpoint=kubelet.path) as watch:
        await watch.reaches(KubeletPods.WATCHING)
        kubelet.remove("u1")
        await until(lambda: len(shown(tape)) == 3, "it is dropped")
        # More than a watch may lag.
        for number in range(2 * LAG):
            kubelet.update(pod(uid=f"u{number}"))
        await until(lambda: "BeliefsLost" in shown(tape), "the watch ends")
        ended = time.monotonic()
        await until(lambda: shown(tape)[-1] == "BeliefsShown", "it is back")
        assert time.monotonic() - ended < 1.3
        assert watch.node.pods.ends == {PodsEnd.LAGGED.value: 1}
    assert shown(tape)[:3] == ["Believed", "BeliefsShown", "Believed"]


async def test_an_absent_kubelet_is_a_state_and_no_fact(
    server: ScriptedServer, tmp_path: Path
) -> None:
    tape, path = Tape(), tmp_path / "pods.sock"
    async with observing(server.socket, tape, kubelet_pods_endpoint=path) as watch:
        await asyncio.sleep(30)
        await watch.reaches(KubeletPods.UNAVAILABLE)
        assert "No such file" in watch.node.pods.note
        assert (shown(tape), watch.node.pods.ends) == ([], {})
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
    kubelet.refusal = refusal
    async with observing(server.socket, kubelet_pods_endpoint=kubelet.path) as watch:
        await until(lambda: kubelet.watches > 0, "it is asked")
        await asyncio.sleep(60)
        assert 0.9 * a_minute <= kubelet.watches - 1 <= a_minute
        denied = end is PodsEnd.DENIED
        assert watch.node.pods.state is (KubeletPods.DENIED if denied else KubeletPods.UNAVAILABLE)
        assert set(watch.node.pods.ends) == {end.value}
        kubelet.refusal = None
        await watch.reaches(KubeletPods.WATCHING)


@pytest.mark.parametrize("raw", [b"\xff", b"\x12\xff\xff\xff\x0f"])
async def test_nonsense_costs_one_attempt_a_minute(
    raw: bytes, server: ScriptedServer, tmp_path: Path
) -> None:
    """What it showed before is void; whatever serves there is no kubelet."""
    tape, path, watches = Tape(), tmp_path / "pods.sock", list[float]()

    async def nonsense(_request: bytes, context: Context) -> None:
        watches.append(time.monotonic())
        for message in (event(pb.ADDED, SHOWN).SerializeToString(), SYNCED, raw):
            await context.write(message)

    watch = {"WatchPods": grpc.unary_stream_rpc_method_handler(nonsense)}
    stranger = await listening(path, "v1alpha1.Pods", watch)
    async with observing(server.socket, tape, kubelet_pods_endpoint=path) as observer:
        await until(lambda: len(watches) == 2, "it is watched again", seconds=90)
        assert watches[1] - watches[0] == pytest.approx(60, abs=1)
        assert set(observer.node.pods.ends) == {PodsEnd.MALFORMED.value}
    await stranger.stop(0)
    assert shown(tape)[:3] == ["Believed", "BeliefsShown", "BeliefsLost"]


async def test_a_flood_ends_the_watch_before_it_takes_a_second(
    server: ScriptedServer, kubelet: PodsServer
) -> None:
    """So many changes as no node has: they are dropped, counted, and tried again in a minute."""
    large = pod(container("app", "c1", state=RUNS))
    large.metadata.MergeFromString(b"\x7a\x80\x80\x04" + bytes(1 << 16))
    async with observing(server.socket, kubelet_pods_endpoint=kubelet.path) as watch:
        await watch.reaches(KubeletPods.WATCHING)
        async with tasks(_flood(kubelet, large)):
            await watch.reaches(KubeletPods.UNAVAILABLE)
        assert watch.node.pods.ends == {PodsEnd.OVERFLOW.value: 1}


async def _flood(kubelet: PodsServer, large: pb.Pod) -> None:
    while True:
        kubelet.update(large)
        await asyncio.sleep(0.001)


WRONG = (Verdict.STALE, Verdict.DISAGREES, Verdict.UNKNOWN_TO_KUBELET)


@dataclass
class Scene:
    """A runtime with one running container, and a kubelet that shows it."""

    runtime: SimulatedRuntime
    kubelet: PodsServer
    node: Node
    container_id: str
    uid: str

    def shows(self, *statuses: pb.ContainerStatus, version: str = "") -> pb.Pod:
        return pod(*statuses, uid=self.uid, version=version)

    @property
    def runs(self) -> pb.ContainerStatus:
        return container("app", self.container_id, state=RUNS)

    def ended(self, code: int) -> pb.ContainerStatus:
        reason = "Error" if code else "Completed"
        return container("app", self.container_id, state=ended(self.container_id, code, reason))

    @property
    def wrong(self) -> list[str]:
        return [each.value for each in WRONG if self.node.tally.total(each)]


@asynccontextmanager
async def scene(server: ScriptedServer, kubelet: PodsServer) -> AsyncIterator[Scene]:
    runtime = server.runtime
    sandbox = runtime.run_pod("cart", "shop")
    container_id = runtime.create(sandbox, "app")
    runtime.start(container_id)
    uid = runtime.sandboxes[sandbox].metadata.uid
    kubelet.pods.clear()
    kubelet.statuses.clear()
    settings = {"relist_period": 10.0, "missed_grace": 5.0, "kubelet_pods_endpoint": kubelet.path}
    kubelet.update(pod(container("app", container_id, state=RUNS), uid=uid))
    async with observing(server.socket, **settings) as watch:
        await watch.reaches(KubeletPods.WATCHING)
        await watch.streaming()
        yield Scene(runtime, kubelet, watch.node, container_id, uid)


async def test_a_status_that_stays_is_found_stale_after_one_question(
    server: ScriptedServer, kubelet: PodsServer
) -> None:
    async with scene(server, kubelet) as its:
        its.runtime.exit(its.container_id)
        await asyncio.sleep(30)
        assert (its.wrong, kubelet.questions) == ([], 0)
        await asyncio.sleep(25)
        assert (its.wrong, kubelet.questions) == (["stale"], 1)


def drops_an_update(its: Scene) -> None:
    its.kubelet.statuses[its.uid] = its.shows(its.ended(0)).status


def drops_the_pod(its: Scene) -> None:
    its.runtime.remove(its.container_id)
    del its.kubelet.pods[its.uid], its.kubelet.statuses[its.uid]


def sends_an_older_update_last(its: Scene) -> None:
    """It waited in the buffer while a newer status was sent among the first pods."""
    its.kubelet.update(its.shows(its.ended(0), version="12"))
    its.kubelet.update(its.shows(its.runs, version="11"))
    drops_an_update(its)


@pytest.mark.parametrize(
    ("kubelet_does", "questions"),
    [(drops_an_update, 1), (drops_the_pod, 1), (sends_an_older_update_last, 0)],
)
async def test_a_message_that_is_lost_or_old_leaves_no_stale_status(
    server: ScriptedServer,
    kubelet: PodsServer,
    kubelet_does: Callable[[Scene], None],
    questions: int,
) -> None:
    async with scene(server, kubelet) as its:
        its.runtime.exit(its.container_id)
        kubelet_does(its)
        await asyncio.sleep(300)
        assert (its.wrong, kubelet.questions) == ([], questions)


@pytest.mark.parametrize("is_back", [True, False], ids=["it has one soon", "it never has one"])
async def test_after_a_kubelets_restart_the_api_servers_status_is_no_stale_one(
    is_back: bool, server: ScriptedServer, kubelet: PodsServer
) -> None:
    """Until it has a status of its own; for two minutes it has the benefit of the doubt."""
    async with scene(server, kubelet) as its:
        await kubelet.stop()
        its.runtime.exit(its.container_id)
        kubelet.statuses.clear()
        kubelet.ready = False
        await kubelet.start()
        await asyncio.sleep(5)
        kubelet.ready = True
        await asyncio.sleep(110)
        assert (its.wrong, kubelet.questions) == ([], 0)
        if is_back:
            kubelet.update(its.shows(its.ended(0)))
        await asyncio.sleep(60)
        assert its.wrong == ([] if is_back else ["stale"])


@pytest.mark.parametrize("successor", [False, True], ids=["removed", "replaced"])
async def test_a_static_pods_container_has_all_of_its_grace(
    successor: bool, server: ScriptedServer, kubelet: PodsServer
) -> None:
    """The kubelet drops such a pod at once, another of the same name or not; then it has to end."""
    async with scene(server, kubelet) as its:
        static = its.shows(its.runs)
        static.spec.termination_grace_period_seconds = 600
        kubelet.update(static)
        await asyncio.sleep(5)
        if successor:
            kubelet.update(pod(container("app", "c2", state=RUNS), uid="u2"))
        kubelet.remove(its.uid)
        await asyncio.sleep(625)
        assert (its.wrong, kubelet.questions) == ([], 0)
        await asyncio.sleep(35)
        assert (its.wrong, kubelet.questions) == (["unknown_to_kubelet"], 1)


async def test_a_kubelet_that_does_not_answer_is_not_accused_and_that_is_said(
    server: ScriptedServer, kubelet: PodsServer
) -> None:
    async with scene(server, kubelet) as its:
        its.runtime.exit(its.container_id)
        kubelet.refusal = grpc.StatusCode.UNIMPLEMENTED
        await asyncio.sleep(200)
        assert its.wrong == []
        assert 2 <= kubelet.questions <= 4
        assert its.node.pods.state is KubeletPods.WATCHING
        assert "cannot be confirmed: GetPod: unimplemented" in its.node.pods.note
        kubelet.refusal = None
        await asyncio.sleep(65)
        assert (its.wrong, its.node.pods.note) == (["stale"], "")


@pytest.mark.parametrize("listens", Listens)
async def test_over_ten_minutes_with_restarts_of_either_side_no_status_is_accused(
    listens: Listens, tmp_path: Path, cgroups: Path
) -> None:
    """The runtime restarts every 200 seconds, the kubelet every 280; it takes up to 8 s."""
    pods = tmp_path / "pods.sock"
    options = Options(pods=8, churn=1, failed_starts=0.05, kubelet=listens, kubelet_delay=8)
    options = replace(options, restart_every=200, kubelet_restart_every=280)
    own = {"kubelet_pods_endpoint": pods, "cgroup_root": cgroups}
    async with (
        simulated_node(options, tmp_path / "cri.sock", CgroupFiles(cgroups), pods) as server,
        observing(server.socket, relist_period=10.0, missed_grace=5.0, **own) as watch,
    ):
        await asyncio.sleep(600)
        tally = watch.node.tally
        assert tally.total(Verdict.EXIT_BELIEVED) > 333
        assert watch.node.pods.ends.total() >= 2
        # Half of the delay, and one that polls up to a second later.
        assert 3.5 < (tally.mean_seconds(Verdict.EVENT_BELIEVED) or 0.0) < 5.1
        assert not any(map(tally.total, WRONG))
