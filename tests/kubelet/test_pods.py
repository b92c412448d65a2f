"""What is read of the kubelet's messages, and what is refused."""

from pathlib import Path

import pytest
from google.protobuf.message import DecodeError

from crifilter.calls import PODS_ALLOWED, UNDECODABLE
from exporter.errors import KubeletError
from exporter.kubelet import kubelet_pods_pb2 as pb
from exporter.kubelet.pods import GET, WATCH, Pods, PodsClient
from exporter.model.events import ListedState, Pod, Status
from exporter.model.facts import Believed
from exporter.model.labels import PodsEnd
from simulator.kubelet import PodsServer, event

pytestmark = pytest.mark.quick

RUNNING, EXITED = ListedState.RUNNING, ListedState.EXITED
CART = Pod("shop", "cart", "u1")
Group = list[pb.ContainerStatus]


def container(name: str, own: str = "", **states: pb.ContainerState) -> pb.ContainerStatus:
    return pb.ContainerStatus(name=name, container_id=own and f"containerd://{own}", **states)


def ended(own: str, code: int = 1, reason: str = "Error") -> pb.ContainerState:
    end = pb.ContainerStateTerminated(exit_code=code, reason=reason)
    end.container_id = own and f"containerd://{own}"
    return pb.ContainerState(terminated=end)


RUNS = pb.ContainerState(running=pb.ContainerStateRunning())


def pod(
    *containers: pb.ContainerStatus, uid: str = "u1", version: str = "", **groups: Group
) -> pb.Pod:
    """A pod of the name `cart` that shows these; a static one, but for its version."""
    status = pb.PodStatus(container_statuses=containers, **groups)
    metadata = pb.ObjectMeta(name="cart", namespace="shop", uid=uid, resource_version=version)
    spec = pb.PodSpec(termination_grace_period_seconds=30)
    return pb.Pod(metadata=metadata, spec=spec, status=status.SerializeToString())


def message(shown: pb.Pod, kind: pb.EventType = pb.MODIFIED) -> bytes:
    return event(kind, shown).SerializeToString()


def test_only_what_changes_is_a_fact() -> None:
    """Of a restart: the successor runs, and the last state has the end of its predecessor."""
    pods, of_an_unknown_kind = Pods(), b"\x08\x09"
    assert pods.apply(of_an_unknown_kind, 0.5) is None
    first = pods.apply(message(pod(container("app", "c1", state=RUNS))), 1.0)
    assert first == Believed(1.0, CART, (Status("c1", RUNNING, "app"),), ())
    assert pods.apply(message(pod(container("app", "c1", state=RUNS))), 2.0) is None
    waiting = container("app", "c1", last_state=ended("c1"))
    second = pods.apply(message(pod(waiting)), 3.0)
    end = Status("c1", EXITED, "app", 1, "Error")
    assert second == Believed(3.0, CART, (end,), ())
    both = container("app", "c2", state=RUNS, last_state=ended("c1"))
    third = pods.apply(message(pod(both)), 4.0)
    assert third == Believed(4.0, CART, (Status("c2", RUNNING, "app"),), ())
    alone = pods.apply(message(pod(container("app", "c2", state=RUNS))), 5.0)
    assert alone == Believed(5.0, CART, (), ("c1",))


def test_all_kinds_of_containers_are_read() -> None:
    shown = pod(
        container("app", "c1", state=RUNS),
        container("soon"),
        init_container_statuses=[container("init", "c2", state=ended("c2", 0, "Completed"))],
        ephemeral_container_statuses=[container("debug", "c3", state=RUNS)],
    )
    fact = Pods().apply(message(shown, pb.ADDED), 1.0)
    assert isinstance(fact, Believed)
    assert {status.id: status.state for status in fact.changed} == {
        "c1": RUNNING,
        "c2": EXITED,
        "c3": RUNNING,
    }


def test_where_the_kubelet_does_not_know_the_end_the_container_is_its_own() -> None:
    """ContainerStatusUnknown has no id; as a last state it could be any predecessor's."""
    unknown = ended("", 137, "ContainerStatusUnknown")
    fact = Pods().apply(message(pod(container("app", "c1", state=unknown))), 1.0)
    assert isinstance(fact, Believed)
    assert fact.changed == (Status("c1", EXITED, "app", 137, "ContainerStatusUnknown"),)
    shown = pod(container("app", "c2", state=RUNS, last_state=unknown))
    fact = Pods().apply(message(shown), 1.0)
    assert isinstance(fact, Believed)
    assert fact.changed == (Status("c2", RUNNING, "app"),)


@pytest.mark.parametrize(("deletion", "grace"), [(0, 30), (7200, 7200), (5, 5)])
def test_a_dropped_pods_containers_may_take_as_long_as_its_last_update_said(
    deletion: int, grace: int
) -> None:
    """The pod's own grace, or what its deletion asked for: a DELETED says neither."""
    pods, shown = Pods(), pod(container("app", "c1", state=RUNS))
    pods.apply(message(shown, pb.ADDED), 1.0)
    shown.metadata.deletion_grace_period_seconds = deletion
    assert pods.apply(message(shown), 1.5) is None
    fact = pods.apply(message(shown, pb.DELETED), 2.0)
    assert fact == Believed(2.0, CART, (), ("c1",), removed=True, patience=grace)
    assert pods.apply(message(shown, pb.DELETED), 3.0) is None


def test_a_pod_that_is_to_be_removed_is_due_after_its_grace() -> None:
    """By the clock of its first sight, once; while a finalizer keeps it, nobody is late."""
    pods, shown = Pods(), pod(container("app", "c1", state=RUNS))
    pods.apply(message(shown, pb.ADDED), 1.0)
    shown.metadata.deletion_timestamp.seconds = 1
    shown.metadata.deletion_grace_period_seconds = 5
    assert pods.apply(message(shown), 2.0) == Believed(2.0, CART, (), (), due=7.0)
    assert pods.apply(message(shown), 3.0) is None
    answer = pb.GetPodResponse(pod=shown.SerializeToString())
    asked = pods.answered(CART, answer.SerializeToString(), 4)
    assert asked == Believed(4, CART, (), (), asked=True, due=7.0)
    shown.metadata.deletion_grace_period_seconds = 1
    assert pods.apply(message(shown), 5.0) == Believed(5.0, CART, (), (), due=6.0)
    shown.metadata.finalizers.append("shop.example/keep")
    assert pods.apply(message(shown), 5.5) == Believed(5.5, CART, (), ())


@pytest.mark.parametrize(
    ("first", "then", "is_taken"),
    [
        ("9", "10", True),
        ("10", "9", False),
        ("10", "10", True),
        ("", "", True),
        ("10", "1e9", False),
        ("x" * 21, "1", True),
    ],
)
def test_an_update_of_an_older_resource_version_is_ignored(
    first: str, then: str, is_taken: bool
) -> None:
    """What waited while the first pods were sent may be older than they are."""
    pods = Pods()
    ends = container("app", "c1", state=ended("c1"))
    pods.apply(message(pod(ends, version=first), pb.ADDED), 1.0)
    runs = pod(container("app", "c1", state=RUNS), version=then)
    assert (pods.apply(message(runs), 2.0) is not None) is is_taken


def answer(shown: pb.Pod) -> bytes:
    return pb.GetPodResponse(pod=shown.SerializeToString()).SerializeToString()


def test_an_answer_is_a_fact_even_if_nothing_has_changed() -> None:
    """It corrects what an update that was dropped had left wrong; an older one is none."""
    pods, runs = Pods(), container("app", "c1", state=RUNS)
    pods.apply(message(pod(runs, version="5"), pb.ADDED), 1.0)
    same = pods.answered(CART, answer(pod(runs, version="5")), 2.0)
    assert same == Believed(2.0, CART, (), (), asked=True)
    assert pods.answered(CART, answer(pod(version="4")), 3.0) is None
    over = pods.answered(CART, answer(pod(version="6")), 4.0)
    assert over == Believed(4.0, CART, (), ("c1",), asked=True)


def test_that_it_has_no_such_pod_is_an_answer_whether_it_was_known_or_not() -> None:
    pods = Pods()
    pods.apply(message(pod(container("app", "c1", state=RUNS)), pb.ADDED), 1.0)
    known = pods.answered(CART, None, 2.0)
    assert known == Believed(2.0, CART, (), ("c1",), removed=True, patience=30.0, asked=True)
    assert pods.answered(CART, None, 3.0) == Believed(3.0, CART, (), (), removed=True, asked=True)


BIG = pod()
BIG.metadata.name = "x" * (4 << 20)
CROWD = pod(*[container("a")] * 30_000)


@pytest.mark.parametrize(
    ("raw", "end"),
    [
        (b"\xff", PodsEnd.MALFORMED),
        (b"\x08\x01\x12\x01\xff", PodsEnd.MALFORMED),
        (message(pod(container("app", "c" * 257, state=RUNS))), PodsEnd.MALFORMED),
        (message(pod(container("ä", "c1", state=RUNS))), PodsEnd.MALFORMED),
        (message(BIG), PodsEnd.OVERFLOW),
        (message(CROWD), PodsEnd.OVERFLOW),
    ],
    ids=["no message", "no pod", "a long id", "no ASCII", "a large pod", "a crowded pod"],
)
def test_what_no_kubelet_sends_ends_the_watch(raw: bytes, end: PodsEnd) -> None:
    with pytest.raises(KubeletError) as raised:
        Pods().apply(raw, 1.0)
    assert raised.value.reason == end.value


# A field that `proto/` does not describe.
NOTE = b"\xa2\x06\x10PASSWORD=hunter2"


def test_the_filter_leaves_nothing_in_a_pod_that_is_not_read() -> None:
    shown = pod(container("a" * 70_000, "c1", state=RUNS))
    noted = pb.Pod.FromString(shown.SerializeToString() + NOTE)
    noted.status += NOTE
    for path, of in ((WATCH, message), (GET, answer)):
        assert PODS_ALLOWED[path].trim(of(noted) + NOTE) == of(shown)


def test_the_filter_decodes_no_crowded_pod() -> None:
    """Of the watch the exporter learns that; a question fails."""
    assert PODS_ALLOWED[WATCH].trim(message(CROWD)) == UNDECODABLE
    with pytest.raises(DecodeError):
        PODS_ALLOWED[GET].trim(answer(CROWD))


async def test_a_message_that_no_pod_fills_is_not_received(tmp_path: Path) -> None:
    """While gRPC receives one, it holds it three times."""
    async with PodsServer(tmp_path / "pods.sock") as kubelet:
        for size, said in ((5 << 20, "a pod larger than 4 MiB"), (9 << 20, "larger than max")):
            kubelet.pods["u1"] = pb.Pod(metadata=pb.ObjectMeta(uid="u1", name="x" * size))
            client = PodsClient(kubelet.path)
            with pytest.raises(KubeletError, match=said) as raised:
                await client.watch(lambda _: None)
            await client.close()
            assert raised.value.reason == PodsEnd.OVERFLOW.value


def test_more_pods_than_a_node_has_end_the_watch() -> None:
    pods = Pods()
    for n in range(4096):
        pods.apply(message(pod(container("app", f"c{n}", state=RUNS), uid=f"u{n}")), 1.0)
    with pytest.raises(KubeletError, match="more pods than a node can have"):
        pods.apply(message(pod(uid="one more")), 1.0)
