"""What is known of a node: inventory, health, and what is counted, once and in one place."""

import pytest
from structlog.testing import capture_logs

from exporter.model.events import EventType, Listed, ListedState, ObjectKind, Pod
from exporter.model.facts import ClockSet, StreamDown
from exporter.model.findings import NOTHING, Finding, Outcome, Untimed, Verdict
from exporter.model.labels import Call, StreamState
from exporter.node.chronicle import Counting
from exporter.node.state import Node, Tally, Witness, take_inventory, words_of
from tests.support.facts import found, stopped

pytestmark = pytest.mark.quick

RUNNING, EXITED = ListedState.RUNNING, ListedState.EXITED
CONTAINER, SANDBOX = ObjectKind.CONTAINER, ObjectKind.SANDBOX


def listed(name: str, kind: ObjectKind, state: ListedState, uid: str = "") -> Listed:
    return Listed(name, kind, state, pod=Pod("shop", "web-0", uid) if uid else None)


def test_a_pod_with_two_sandboxes_is_one_pod() -> None:
    """Sandboxes of one uid are attempts of one pod; one without a uid is a pod of its own."""
    items = (
        listed("s1", SANDBOX, EXITED, "u-1"),
        listed("s2", SANDBOX, RUNNING, "u-1"),
        listed("s3", SANDBOX, RUNNING),
        listed("c1", CONTAINER, RUNNING),
    )
    inventory = take_inventory(items)
    assert inventory.pods == 2
    assert (inventory.sandboxes[RUNNING], inventory.sandboxes[EXITED]) == (2, 1)
    assert (inventory.containers[RUNNING], inventory.containers[EXITED]) == (1, 0)


def test_the_inventory_is_counted_once_for_each_relist() -> None:
    node = Node()
    assert node.inventory.pods == 0
    items = listed("s1", SANDBOX, RUNNING), listed("c1", CONTAINER, EXITED)
    node.listed = {item.id: item for item in items}
    assert node.inventory == take_inventory(items)
    assert node.inventory is node.inventory


def test_an_item_has_a_name_in_words() -> None:
    pod, stray = listed("s1", SANDBOX, RUNNING, "u-1"), listed("c2", CONTAINER, RUNNING)
    named = listed("c1", CONTAINER, RUNNING, "u-1")._replace(name="app")
    assert [words_of(each) for each in (pod, named, stray)] == [
        "shop/web-0",
        "shop/web-0/app",
        "c2",
    ]


def test_calls_to_the_runtime_are_counted_and_timed() -> None:
    node = Node()
    for call, seconds in ((Call.CONTAINERS, 0.25), (Call.CONTAINERS, 0.5)):
        node.time_call(call, seconds)
    node.time_call(Call.STATUS, 2.0)
    assert node.calls == {Call.CONTAINERS: 2, Call.STATUS: 1}
    assert node.call_seconds == {Call.CONTAINERS: 0.75, Call.STATUS: 2.0}


def test_what_stood_before_the_start_is_found_and_not_counted() -> None:
    """A total that each restart raises again says nothing."""
    tally, ghost = Tally(), found(Verdict.GHOST)
    tally.add(ghost._replace(before=True), wall=1.0)
    assert tally.total(Verdict.GHOST) == 0
    tally.add(ghost, wall=2.0)
    assert tally.total(Verdict.GHOST) == 1
    assert tally.found == {(Verdict.GHOST, None): 2}


def test_delays_are_averaged() -> None:
    tally = Tally()
    assert tally.mean_seconds(Verdict.EXIT_LISTED) is None
    for seconds in (1.0, 4.0):
        tally.add(found(Verdict.EXIT_LISTED)._replace(seconds=seconds), 1.0)
    assert tally.mean_seconds(Verdict.EXIT_LISTED) == 2.5


def counting() -> tuple[Node, Counting, list[float], list[Finding]]:
    node, delivered, measured = Node(), list[float](), list[Finding]()
    return (
        node,
        Counting(node, lambda: 77.0, delivered.append, measured.append),
        delivered,
        measured,
    )


@pytest.mark.parametrize("verdict", Verdict)
def test_every_finding_is_counted(verdict: Verdict) -> None:
    node, counts, _, measured = counting()
    late = found(verdict)._replace(seconds=2.5)
    counts.hear(StreamDown(0.0), Outcome((found(verdict), late)))
    assert node.tally.total(verdict) == 2
    assert [*node.tally.newest.values()] == [(late, 77.0)] * (verdict is Verdict.MISSED)
    assert measured == [late]
    dropped = 2 * (verdict is Verdict.OVERFLOW)
    assert (node.discards, node.discards_unreconciled) == (dropped, dropped)


def test_an_event_is_counted_once_with_its_delay_or_why_it_has_none() -> None:
    node, counts, delivered, _ = counting()
    delays = (Outcome(delay=2.5), Outcome(delay=0.0), *[Outcome(untimed=Untimed.OUTAGE)] * 2)
    for outcome in (NOTHING, Outcome(copy=True), *delays):
        counts.hear(stopped("c1", 1), outcome)
    assert node.received == {(EventType.STOPPED, CONTAINER): 5}
    assert (delivered, node.untimed) == ([2.5, 0.0], {Untimed.OUTAGE: 2})
    for seconds in (40.0, -7200.0):
        counts.hear(ClockSet(1.0, seconds), NOTHING)
    assert node.clock_steps == 2


UP, DOWN, TRYING = StreamState.STREAMING, StreamState.BACKOFF, StreamState.CONNECTING


def test_what_is_tried_again_is_logged_once_until_it_works() -> None:
    """Two errors that alternate are two lines, whatever comes between; later ones are debug."""
    witness = Witness("event stream", TRYING, essential=True)
    with capture_logs() as log:
        for _ in range(2):
            for reason in ("eof", "aborted"):
                witness.become(DOWN, f"it said {reason}", reason)
                witness.state = TRYING
        witness.become(UP, lease_seconds=60)
        witness.become(UP)
        witness.become(DOWN, "it said eof", "eof")
    assert [(each["log_level"], each.get("reason")) for each in log] == [
        *(("warning", "eof"), ("warning", "aborted"), ("debug", "eof"), ("debug", "aborted")),
        *(("info", None), ("warning", "eof")),
    ]
    assert log[4]["event"] == "event stream streaming"
    assert (witness.works, witness.reason) == (False, "eof")


def test_what_never_worked_and_need_not_is_no_warning() -> None:
    """That it stopped is one, and so is that it works in part only."""
    witness = Witness("kernel witness", TRYING)
    with capture_logs() as log:
        witness.become(DOWN, "no such folder")
        witness.become(UP)
        witness.become(UP, "no notifications")
        witness.become(DOWN, "no such folder")
    levels = [each["log_level"] for each in log]
    assert levels == ["info", "info", "warning", "warning"]
