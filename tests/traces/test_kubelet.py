"""A real kubelet's statuses beside its runtime's events: what is measured, and none is wrong."""

from collections.abc import Iterator
from typing import Any

import pytest

from crifilter.calls import PODS_ALLOWED
from exporter.cri import runtime_v1_pb2 as cri
from exporter.cri.decode import CONTAINER_STATES, Decoder
from exporter.kubelet import kubelet_pods_pb2 as pb
from exporter.kubelet.pods import WATCH, Pods
from exporter.model.events import Announcement, Listed, ListedState, ObjectKind
from exporter.model.facts import Fact, StreamUp
from exporter.model.findings import Verdict
from exporter.pleg.ledger import Ledger
from tests.support.facts import CONTAINERD_2, GRACE, Whole, facts_of
from tests.traces.replaying import KINDS, rows

pytestmark = pytest.mark.quick

# In each recorded pod's specification.
SPEC = b"busybox"
WRONG = {Verdict.STALE, Verdict.DISAGREES, Verdict.UNKNOWN_TO_KUBELET}
SANDBOX_STATES = (ListedState.RUNNING, ListedState.EXITED)


def learnt(kind: str) -> Iterator[Fact | Whole]:
    """The facts of a recording, as real decoders make them; lists show what was announced."""
    decoder, pods, named = Decoder(), Pods(), dict[str, Announcement]()
    for row in rows(kind):
        at, wall_ns = row["t"], int(row["t"] * 1e9)
        if "event" in row:
            decoded = decoder.event(bytes.fromhex(row["event"]), at, wall_ns, 0)
            assert isinstance(decoded, tuple)
            named.setdefault(decoded[0].container_id, decoded[0])
            yield decoded[0]
        elif "pod" in row:
            fact = pods.apply(bytes.fromhex(row["pod"]), at)
            yield from [fact] if fact else []
        else:
            shown = [(named[name], n) for name, n in row["listed"].items() if name in named]
            items = tuple(_listed(event, number) for event, number in shown)
            yield Whole(row["requested"], at, items)


def _listed(event: Announcement, number: int) -> Listed:
    assert event.kind is not None
    states: Any = SANDBOX_STATES if event.kind is ObjectKind.SANDBOX else CONTAINER_STATES
    return Listed(event.container_id, event.kind, states[number], event.sandbox_id, "", event.pod)


def delays(kind: str) -> dict[Verdict, list[float]]:
    """From exit, and from announcement, to status: sorted, by a plain script."""
    announced: dict[str, float] = {}
    ended: dict[str, float] = {}
    shown: dict[str, float] = {}
    for row in rows(kind):
        if "event" in row:
            event = cri.ContainerEventResponse.FromString(bytes.fromhex(row["event"]))
            for own in event.containers_statuses:
                if own.id == event.container_id and event.container_event_type == 2:
                    announced[own.id], ended[own.id] = row["t"], own.finished_at / 1e9
        elif "pod" in row:
            pod = pb.Pod.FromString(pb.WatchPodsEvent.FromString(bytes.fromhex(row["pod"])).pod)
            status = pb.PodStatus.FromString(pod.status)
            for each in (*status.container_statuses, *status.init_container_statuses):
                for state in (each.state, each.last_state):
                    shown.setdefault(state.terminated.container_id[13:], row["t"])
    both = [each for each in announced if each in shown]
    return {
        verdict: sorted(max(0.0, shown[each] - since[each]) for each in both)
        for verdict, since in ((Verdict.EXIT_BELIEVED, ended), (Verdict.EVENT_BELIEVED, announced))
    }


@pytest.mark.parametrize("kind", KINDS)
def test_what_the_filter_leaves_of_a_recorded_update_says_the_same(kind: str) -> None:
    straight, filtered = Pods(), Pods()
    updates = [bytes.fromhex(row["pod"]) for row in rows(kind) if "pod" in row]
    assert updates
    for raw in updates:
        left = PODS_ALLOWED[WATCH].trim(raw)
        assert filtered.apply(left, 1.0) == straight.apply(raw, 1.0)
        assert PODS_ALLOWED[WATCH].trim(left) == left
        assert SPEC not in left
    assert sum(map(len, updates)) > sum(len(PODS_ALLOWED[WATCH].trim(raw)) for raw in updates)


@pytest.mark.parametrize("kind", KINDS)
def test_a_recorded_kubelet_is_measured_as_a_plain_script_does(kind: str) -> None:
    """Each of 133 exits, to a microsecond; nothing is stale, disagrees or is unknown."""
    ledger = Ledger(CONTAINERD_2, GRACE)
    facts = facts_of(learnt(kind))
    began = rows(kind)[0]["t"]
    facts.insert(0, StreamUp(began, began))
    findings = [found for fact in facts for found in ledger.judge(fact).findings]
    assert not [each for each in findings if each.verdict in WRONG]
    for verdict, expected in delays(kind).items():
        found = sorted(each.seconds or 0.0 for each in findings if each.verdict is verdict)
        assert found == pytest.approx(expected, abs=1e-5)
        assert len(found) == 133
