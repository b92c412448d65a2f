"""Which verdicts get an evidence record, what it contains, and how many there are at most."""

from __future__ import annotations

import json
import pickle
import tracemalloc
from dataclasses import replace

import pytest

from exporter.evidence.case import written
from exporter.evidence.cases import Limits
from exporter.node.state import Dropped, StreamState
from exporter.pleg.events import Inquiry, ListedState
from exporter.pleg.facts import Discarded, Fact, Inquired, StreamDown, StreamUp
from tests.support.facts import (
    EXITED,
    NOTREADY,
    READY,
    RUNNING,
    Shown,
    created,
    deleted,
    relist,
    started,
    stopped,
    up,
)
from tests.support.recorded_node import POD, VERSIONS, Stage

pytestmark = pytest.mark.quick

LOST = (relist(1), relist(2, c1=RUNNING), relist(20, c1=RUNNING))


def verdicts(*facts: Fact) -> list[str]:
    """What got a record in that story."""
    stage = Stage()
    stage.tell(*facts)
    return [
        " ".join(filter(None, (r["container"]["id"], r["event"], r["verdict"], r["cause"])))
        for r in stage.records
    ]


@pytest.mark.parametrize(
    ("facts", "expected"),
    [
        (LOST, "c1 ContainerStarted missed silent"),
        ((*LOST[:2], StreamDown(3), up(4), LOST[2]), "c1 ContainerStarted missed stream_down"),
        ((*LOST[:2], Discarded(3), LOST[2]), "c1 ContainerStarted missed discarded"),
        (
            (relist(1), created("c1", 2), stopped("c1", 3), deleted("c1", 4), relist(20)),
            "c1 ContainerStarted gap",
        ),
        (
            (relist(1, c1=RUNNING), stopped("c1", 2), relist(3, c1=RUNNING), relist(4, c1=RUNNING)),
            "c1 ContainerDied contradicted",
        ),
    ],
)
def test_what_should_have_come_and_did_not_gets_a_record(
    facts: tuple[Fact, ...], expected: str
) -> None:
    """Every cause but one, every gap, every contradiction."""
    assert verdicts(*facts) == [expected]


@pytest.mark.parametrize(
    "facts",
    [
        (
            *(relist(1), created("c1", 1.4), started("c1", 1.5)),
            *(relist(2, c1=RUNNING), relist(20, c1=RUNNING)),
        ),
        (
            *(relist(1), relist(2, c1=EXITED), Inquired(3, "c1", Inquiry.NEVER_STARTED)),
            relist(20, c1=EXITED),
        ),
        (relist(1), started("c1", 2), started("c1", 3), relist(4, c1=RUNNING)),
    ],
)
def test_what_is_as_it_should_be_gets_none(facts: tuple[Fact, ...]) -> None:
    """Nor what the runtime never announces: that is a property of it, not a case."""
    assert verdicts(*facts) == []


def story() -> Stage:
    """A container with a pod whose STOPPED never came, while the queue is not empty."""
    stage = Stage()
    stage.node.stream, stage.node.connections = StreamState.STREAMING, 2
    stage.node.disconnects["eof"] = 1
    stage.node.discards = 7
    begin = stage.began - 30
    stage.chronicle.take(StreamUp(begin, 0))

    def shown(at: float, sandbox: Shown, state: ListedState) -> None:
        lists = relist(begin + at, p1=sandbox, c1=Shown(state).inside("p1"))
        items = tuple(item._replace(pod=POD, name=item.id * 2) for item in lists.items)
        stage.tell(replace(lists, items=items))

    shown(1, READY, ListedState.CREATED)
    stage.tell(started("c1", begin + 2))
    shown(3, READY, ListedState.RUNNING)
    shown(13, READY, ListedState.RUNNING)
    shown(14, NOTREADY, ListedState.EXITED)
    stage.tell(stopped("p1", begin + 14.5))
    shown(25, NOTREADY, ListedState.EXITED)
    return stage


def test_a_record_has_all_that_the_verdict_rests_on() -> None:
    """Both witnesses, the rule applied, the observer's own state, and who and what was watched."""
    (record,) = story().records
    assert (record["schema"], record["number"]) == (1, 1)
    assert (record["verdict"], record["cause"]) == ("missed", "silent")
    assert (record["event"], record["object"]) == ("ContainerDied", "container")
    assert record["container"] == {
        "id": "c1",
        "name": "c1c1",
        "sandbox_id": "p1",
        "namespace": "shop",
        "pod": "cart-7d9f8",
        "uid": "uid-1",
    }
    assert record["stream"] == {
        "state": "streaming",
        "note": "",
        "connections": 2,
        "disconnects": {"eof": 1},
    }
    assert record["queue"] == {"length": 3, "capacity": 1000, "discards": 7}
    assert record["versions"] == {**VERSIONS, "runtime": "containerd 2.1.9"}
    assert record["profile"]["stream"] == "broadcast"
    assert len(record["profile"]["never_announced"]) == 2
    assert record["grace_seconds"] == 5.0
    assert record["reasons"][-1].startswith("silent: ")


def test_a_record_shows_both_witnesses_side_by_side() -> None:
    """Who said what when of each step, and who did not."""
    (record,) = story().records
    rows = {row["event"]: row for row in record["witnesses"]}
    assert rows["ContainerStarted"]["stream"]
    assert rows["ContainerStarted"]["relist"]
    died = rows["ContainerDied"]
    assert (died["announcement"], died["stream"], died["notes"]) == ("STOPPED", None, ["missed"])
    assert died["relist"].endswith("Z")
    assert rows["ContainerChanged"]["notes"] == ["before our time"]


def test_a_record_has_the_whole_timeline() -> None:
    """Of the container, its sandbox and the watch; in order, in seconds before the verdict."""
    (record,) = story().records
    moments = record["timeline"]
    assert [(moment["witness"], moment["text"].split(",")[0]) for moment in moments[2:]] == [
        ("watch", "the subscription carries events"),
        ("relist", "its sandbox is listed running"),
        ("relist", "listed created"),
        ("stream", "announced STARTED on subscription 0"),
        ("relist", "listed running (was created)"),
        ("relist", "1 relist shows no change: still running"),
        ("relist", "its sandbox is listed exited"),
        ("relist", "listed exited (was running)"),
        ("stream", "its sandbox announced STOPPED on subscription 0"),
        ("relist", "1 relist shows no change: still exited"),
    ]
    seconds = [moment["seconds"] for moment in moments]
    assert seconds == sorted(seconds)
    assert seconds[-1] == pytest.approx(-5, abs=1)
    assert record["earlier_moments"] == 0


def test_a_container_that_is_gone_is_still_not_listed() -> None:
    """The relists between its removal and the verdict say so, as one moment."""
    stage = Stage()
    stage.tell(relist(1, c1=EXITED), relist(2), relist(3), relist(4), relist(20))
    texts = [moment["text"] for moment in stage.records[-1]["timeline"]]
    assert texts[-2:] == [
        "no longer listed (was exited)",
        "3 relists show no change: still not listed",
    ]


def test_a_storm_of_losses_makes_few_records_and_counts_the_rest() -> None:
    """A runtime that loses everything must not cost the node its memory or its disk."""
    stage = Stage()
    stage.lose(3000)
    made, left_out = stage.node.evidence_records, stage.node.evidence_dropped
    assert made == len(stage.shelf.lines) == len(stage.records) == 20
    assert left_out == {Dropped.RATE: 2980}


def test_what_an_outage_lost_does_not_keep_out_what_was_lost_silently() -> None:
    """Each kind of case has an allowance of its own."""
    stage = Stage()
    missing = {f"down{n}": RUNNING for n in range(100)}
    stage.tell(relist(1), StreamDown(2), relist(3, **missing), up(4), relist(20, **missing))
    stage.tell(relist(21, **missing, c1=RUNNING), relist(40, **missing, c1=RUNNING))
    causes = [record["cause"] for record in stage.records]
    assert causes == ["stream_down"] * 20 + ["silent"]
    assert stage.node.evidence_dropped == {Dropped.RATE: 80}


def test_records_in_memory_are_bounded_in_bytes() -> None:
    """However long the names, and however many the moments; the newest stay."""
    stage = Stage()
    name = "ü" * 100_000
    # A container about which there is much to say, of which only the last is said.
    events = [created(name, 1 + n / 1000, made=n) for n in range(200)]
    stage.tell(relist(0.5), *events)
    stage.lose(19, name)
    lines = [written(case) for case in stage.cases.newest]
    assert sum(map(len, lines)) <= Limits().kept_bytes
    assert max(map(len, lines)) < 64 * 1024
    newest = json.loads(lines[0])
    assert newest["number"] == stage.node.evidence_records
    assert len(newest["container"]["id"]) == 256


def test_no_record_takes_more_than_it_is_counted_for() -> None:
    """Neither in Python's memory nor as JSON, whatever its container is called."""
    stage = Stage(limits=Limits(burst=1000.0, kept_bytes=2**20))
    for name in ("c", "c" * 200, "ü" * 100, "\N{SNOWMAN}" * 100, "\N{PILE OF POO}" * 100):
        stage.lose(20, name)
    cases = stage.cases.newest
    assert all(len(written(case)) <= case.size for case in cases)
    pickled = pickle.dumps(cases)
    tracemalloc.start()
    again = pickle.loads(pickled)  # noqa: S301 - just pickled; nothing but the cases holds it
    taken, _ = tracemalloc.get_traced_memory()
    tracemalloc.stop()
    counted = sum(case.size for case in again)
    assert len(again) >= 100
    assert 0.5 * counted < taken <= counted


def test_a_timeline_is_cut_at_its_beginning() -> None:
    """What was last is what matters, and how much was left out is said."""
    stage = Stage()
    events = [started("c0", 1 + n / 1000, made=n) for n in range(200)]
    stage.tell(relist(0.5), *events, relist(2, c0=RUNNING))
    stage.tell(relist(3, c0=EXITED), relist(20, c0=EXITED))
    (record,) = stage.records
    assert len(record["timeline"]) == 60
    assert record["earlier_moments"] > 100
    assert record["timeline"][-2]["text"] == "listed exited (was running)"


def test_what_the_recorder_no_longer_holds_the_ledger_still_knows() -> None:
    """A node so busy that the facts of a case are gone when it is judged."""
    stage = Stage()
    begin = stage.began - 30
    stage.tell(relist(begin), created("c1", begin + 1), relist(begin + 2, c1=RUNNING))
    stage.tell(*(created(f"other-{n}", begin + 3) for n in range(5000)))
    stage.tell(relist(begin + 20, c1=RUNNING))
    record = next(each for each in stage.records if each["container"]["id"] == "c1")
    assert record["event"] == "ContainerStarted"
    assert [(moment["witness"], moment["text"]) for moment in record["timeline"]] == [
        ("stream", "announced CREATED on subscription 0"),
        ("relist", "a list proved ContainerStarted"),
    ]
