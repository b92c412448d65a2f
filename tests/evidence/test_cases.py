"""The flight recorder: which facts it holds, which verdicts get a record, and what is in it."""

import json
import time
import tracemalloc
from collections.abc import Callable, Iterable
from dataclasses import replace
from typing import Any

import pytest

from exporter.evidence.cases import CAPACITY, KEPT_BYTES, Ring
from exporter.model.events import Announcement, EventType, Flawed, Listed, ObjectKind, Pod
from exporter.model.facts import Fact, Relist, StreamDown, StreamUnproven
from exporter.model.labels import Flaw, StreamKind
from exporter.node.state import RuntimeInfo
from exporter.runtimes.kubelets import BEHAVIOURS
from tests import ROOT, assert_golden
from tests.support.facts import (
    CREATED,
    EXITED,
    NOTREADY,
    READY,
    RUNNING,
    Given,
    Shown,
    created,
    deleted,
    emptied,
    looked,
    populated,
    relist,
    started,
    stopped,
    taking,
    up,
    wall_ns,
)
from tests.support.stage import Stage
from tests.support.stories import told
from tests.support.tape import POD

pytestmark = pytest.mark.quick

GOLDEN = ROOT / "tests" / "golden" / "record.json"

LOST = (relist(1), relist(2, c1=RUNNING), relist(20, c1=RUNNING))


def record_of(*facts: Given) -> dict[str, Any]:
    """The one record of that story."""
    stage = Stage.watching()
    stage.take(*facts)
    (record,) = stage.records
    return record


@pytest.mark.parametrize(
    ("facts", "expected"),
    [
        ("LOST; list 20 c1=RUNNING", "c1 ContainerStarted missed silent"),
        ("LOST; down 3; up 4; list 20 c1=RUNNING", "c1 ContainerStarted missed stream_down"),
        ("LOST; discarded 3; list 20 c1=RUNNING", "c1 ContainerStarted missed discarded"),
        ("list 1; created c1 2; stopped c1 3; deleted c1 4; list 20", "c1 ContainerStarted gap"),
        ("list 1 c1=RUNNING; stopped c1 2; list 3 4 c1=RUNNING", "c1 ContainerDied contradicted"),
        # What is as it should be gets none.
        ("list 1; created c1 1.4; started c1 1.5; list 2 20 c1=RUNNING", ""),
        ("list 1; list 2 c1=EXITED; answer c1 3 NEVER_STARTED; list 20 c1=EXITED", ""),
        ("list 1; started c1 2; started c1 3; list 4 c1=RUNNING", ""),
    ],
)
def test_what_should_have_come_and_did_not_gets_a_record(facts: str, expected: str) -> None:
    stage = Stage.watching()
    stage.take(*told(facts, {"LOST": "list 1; list 2 c1=RUNNING"}))
    found = [(r["container"]["id"], r["event"], r["verdict"], r["cause"]) for r in stage.records]
    assert [" ".join(filter(None, each)) for each in found] == [each for each in [expected] if each]


def test_an_outage_is_one_moment_however_often_it_was_tried_again() -> None:
    """Two minutes of attempts left no room for what happened to the container before them."""
    tries = [StreamDown(at) for at in range(3, 123)]
    record = record_of(*LOST[:2], *tries, up(124), relist(140, c1=RUNNING))
    told = [each["text"] for each in record["timeline"] if each["witness"] == "watch"]
    assert told.count("there is no subscription") == 1
    assert record["earlier_moments"] == 0


def test_a_record_says_which_witness_proved_what() -> None:
    stage = Stage.watching()
    life = (created("c1", 2), started("c1", 2), populated("c1", 2), emptied("c1", 4))
    stage.take(*looked(1, p1=READY), *life, deleted("c1", 4), *looked(12, p1=READY))
    (record,) = stage.records
    assert record["event"] == "ContainerDied"
    said = [each["text"] for each in record["timeline"] if each["witness"] == "kernel"]
    assert said == ["has processes", "no longer has a process"]
    stray = populated("x", 13, "u2")
    stage.take(populated("c2", 13), stray, started("c2", 13), emptied("c2", 15.5))
    for at in (21, 23, 374, 375):
        stage.take(*looked(at, p1=READY, p2=READY, c2=RUNNING.inside("p1")))
    haunted = {(r["container"]["id"], r["verdict"]) for r in stage.records[1:]}
    assert {("c2", "ghost"), ("x", "stray")} <= haunted


def test_a_record_is_the_golden_one(monkeypatch: pytest.MonkeyPatch) -> None:
    """Of a container with a pod whose STOPPED never came."""
    monkeypatch.setattr(time, "monotonic", lambda: 1000.0)
    monkeypatch.setattr(time, "time_ns", lambda: wall_ns(1000.0))
    stage = Stage.watching()
    stage.take(up(970.0))

    def shown(at: float, sandbox: Shown, container: Shown) -> None:
        listed = relist(at, p1=sandbox, c1=container.inside("p1"))
        items = tuple(item._replace(pod=POD, name=item.id * 2) for item in listed.items)
        stage.take(replace(listed, items=items))

    shown(971, READY, CREATED)
    stage.take(started("c1", 972))
    shown(973, READY, RUNNING)
    shown(983, READY, RUNNING)
    shown(984, NOTREADY, EXITED)
    stage.take(stopped("p1", 984.5))
    shown(995, NOTREADY, EXITED)
    (record,) = stage.records
    del record["reasons"][-len(BEHAVIOURS) :]
    assert_golden(json.dumps(record, indent=1) + "\n", GOLDEN)


@pytest.mark.parametrize(
    ("facts", "said"),
    [
        (LOST, True),
        ((*LOST[:2], StreamUnproven(3), LOST[2]), True),
        ((*LOST[:2], StreamDown(3), up(4), LOST[2]), False),
    ],
)
def test_what_the_runtime_lost_says_what_it_costs_kubelets_that_use_events(
    facts: tuple[Fact, ...], said: bool
) -> None:
    """What an outage of our own subscription lost may have reached the kubelet."""
    record = record_of(*facts)
    for each in BEHAVIOURS:
        assert (each.loss(EventType.STARTED) in record["reasons"]) is said


LYING = stopped("c1", 5)._replace(
    flawed=Flawed((Flaw.WRONG_STATE,), 2, RUNNING.state, wall_ns(3)), pod=POD, sandbox_id="p1"
)


def test_a_flawed_event_is_shown_field_by_field() -> None:
    record = record_of(created("c1", 2), started("c1", 3), LYING)
    assert (record["verdict"], record["cause"]) == ("flawed", "wrong_state")
    assert record["reasons"][0].startswith(
        "this STOPPED shows its container in another state: created"
    )
    said = [each.flawed(EventType.STOPPED, Flaw.WRONG_STATE) for each in BEHAVIOURS]
    assert record["reasons"][1:] == said
    assert ["no harm" in each for each in said] == [False, True]
    assert record["said"] == {
        "type": "STOPPED",
        "created_at": "2023-11-14T22:13:25.000000Z",
        "received": "2023-11-14T22:13:25.000000Z",
        "subscription": 0,
        "sandbox_id": "p1",
        "uid": POD.uid,
        "statuses": 2,
        "state": "running",
        "started_at": "2023-11-14T22:13:23.000000Z",
        "finished_at": None,
    }
    assert record["timeline"][-1]["text"].endswith(", flawed: wrong_state")
    # By itself, nothing is wrong with one that comes too late.
    late = record_of(created("c1", 2), stopped("c1", 3), started("c1", 4))
    assert (late["cause"], late["said"]["statuses"]) == ("out_of_order", None)


def test_what_a_runtime_is_known_for_makes_no_record() -> None:
    stage = Stage.watching()
    stage.node.runtime = RuntimeInfo("cri-o", "1.36.3", "v1", StreamKind.BROADCAST)
    stage.take(created("c1", 2), stopped("c1", 3), started("c1", 4), LYING)
    assert [each["cause"] for each in stage.records] == ["wrong_state"]


def test_a_storm_of_losses_makes_few_records_and_counts_the_rest() -> None:
    """A runtime that loses everything must not cost the node its memory or its disk."""
    stage = Stage.watching()
    stage.lose(3000)
    made, left_out = stage.node.evidence_records, stage.node.evidence_dropped
    assert made == len(stage.records) == 20
    assert left_out == 2980


def test_what_an_outage_lost_does_not_keep_out_what_was_lost_silently() -> None:
    stage = Stage.watching()
    missing = {f"down{n}": RUNNING for n in range(100)}
    stage.take(relist(1), StreamDown(2), relist(3, **missing), up(4), relist(20, **missing))
    stage.take(relist(21, **missing, c1=RUNNING), relist(40, **missing, c1=RUNNING))
    causes = [record["cause"] for record in stage.records]
    assert causes == ["stream_down"] * 20 + ["silent"]
    assert stage.node.evidence_dropped == 80


def test_records_in_memory_are_bounded_in_bytes() -> None:
    stage = Stage.watching()
    stage.lose(19, "ü" * 4000)
    lines = stage.cases.newest
    assert KEPT_BYTES // 2 < sum(map(len, lines)) <= KEPT_BYTES
    assert json.loads(lines[0])["number"] == stage.node.evidence_records == 19


def test_a_timeline_is_cut_at_its_beginning() -> None:
    stage = Stage.watching()
    events = [started("c0", 1 + n / 1000, made=n) for n in range(200)]
    stage.take(relist(0.5), *events, relist(2, c0=RUNNING))
    stage.take(relist(3, c0=EXITED), relist(20, c0=EXITED))
    (record,) = stage.records
    assert len(record["timeline"]) == 60
    assert record["earlier_moments"] > 100
    assert record["timeline"][-2]["text"] == "listed exited (was running)"


def test_a_timeline_is_in_order_of_time_whatever_was_judged_first() -> None:
    """An event may overtake the answer to a list, which is taken first."""
    stage = Stage.watching()
    stage.take(relist(1), taking(1.0, relist(2, c1=RUNNING)), started("c1", 2.5))
    stage.take(relist(3, c1=EXITED), started("c2", 19), relist(20, c1=EXITED))
    times = [each["seconds"] for each in stage.records[0]["timeline"]]
    assert times == sorted(times)
    assert len(times) >= 4


def test_lists_that_showed_a_container_unchanged_are_in_its_timeline() -> None:
    """Of a large baseline the recorder keeps no more than the first changes."""
    stage = Stage.watching()
    node = {f"n{number}": READY for number in range(300)} | {"c1": RUNNING}
    stage.take(populated("c1", 0.5), *looked(1, **node), emptied("c1", 3))
    stage.take(*looked(20, **node), *looked(22, **node))
    (record,) = stage.records
    assert record["verdict"] == "ghost"
    said = [each["text"] for each in record["timeline"] if each["witness"] == "relist"]
    assert said == [
        "1 relist shows no change: still running",
        "2 relists show no change: still running",
    ]


def event(number: int) -> Announcement:
    """An event with strings of its own, as a decoder makes it."""
    word = f"{number:064d}"
    pod = Pod(f"shop-{number}", f"cart-{word}", f"uid-{word}")
    kind = ObjectKind.CONTAINER
    return Announcement(word, EventType.STARTED, 1.5 * number, number, kind, word[:-1], pod)


def nameless(fact: Fact) -> Fact:
    """As it is kept: the ledger knows who that is."""
    return fact._replace(sandbox_id="", pod=None) if isinstance(fact, Announcement) else fact


def whole(ring: Ring, facts: Iterable[Fact]) -> list[Fact]:
    return ring.about({fact.container_id for fact in facts if isinstance(fact, Announcement)})


def showing(number: int, items: int) -> Relist:
    changed = tuple(
        Listed(f"{number}-{item:064d}", ObjectKind.CONTAINER, RUNNING.state, f"{item:064d}")
        for item in range(items)
    )
    gone = tuple(f"gone-{number}-{item:064d}" for item in range(items))
    return Relist(float(number), float(number), items, changed, gone)


# Made where they are looked at: every process of the tests reads this file.
STORMS: dict[str, Callable[[], list[Fact]]] = {
    "events": lambda: [event(number) for number in range(20_000)],
    "relists": lambda: [showing(number, 40) for number in range(200)],
    "baselines": lambda: [showing(number, 4000) for number in range(8)],
    "outages": lambda: [StreamDown(float(number)) for number in range(20_000)],
}


@pytest.mark.parametrize("storm", STORMS)
def test_a_storm_of_anything_stays_within_the_bound(storm: str) -> None:
    ring, facts = Ring(), STORMS[storm]()
    for fact in facts:
        ring.add(fact)
        assert ring.size <= CAPACITY
    kept = whole(ring, facts)
    assert 0 < len(kept) < len(facts)
    if storm != "baselines":
        assert kept == [nameless(fact) for fact in facts[-len(kept) :]]
    else:
        # Of a relist that changed everything the first changes are kept: it must not push out more.
        assert isinstance(last := kept[-1], Relist)
        assert (len(last.changed), len(last.gone), last.listed) == (256, 256, 4000)


def test_usual_events_take_less_than_a_megabyte() -> None:
    tracemalloc.start()
    ring = Ring()
    before, _ = tracemalloc.get_traced_memory()
    for number in range(5000):
        ring.add(event(number))
    after, _ = tracemalloc.get_traced_memory()
    tracemalloc.stop()
    assert len(whole(ring, map(event, range(5000)))) == CAPACITY
    assert after - before < 2**20
