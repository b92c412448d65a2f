"""A runtime that lives and loses by chance, and knows what it lost: the counters agree with it."""

from __future__ import annotations

import time
from pathlib import Path

import pytest

from exporter.node.state import Tally
from exporter.pleg.chronicle import Chronicle
from exporter.pleg.events import Lifecycle, ObjectKind
from exporter.pleg.facts import Fact, StreamAsked
from exporter.pleg.findings import Cause, Taken, Verdict
from exporter.simulator import node as simulated_node
from exporter.simulator.channel import Channel, Subscriber
from exporter.simulator.options import Options
from exporter.simulator.truth import Row, Summary
from tests.support.observer import observing
from tests.support.waiting import until

pytestmark = pytest.mark.virtual_time

BUSY = Options(
    pods=12,
    containers_per_pod=3,
    churn=15.0,
    drop=0.05,
    duplicate=0.05,
    reorder=0.05,
    delay=0.2,
    failed_starts=0.05,
    disconnect_every=3.0,
)
CHURNING = 7.0
SUMS = ("missed", "by design", "gaps", "unseen", "witnessed")


def true_sums(row: Row) -> tuple[int, ...]:
    """What the runtime itself knows of one event of one kind of object."""
    return (row.missed, row.by_design, row.gaps, row.unseen, row.witnessed)


def counted_sums(tally: Tally, event: Lifecycle, kind: ObjectKind) -> tuple[int, ...]:
    """The same, as it was counted; what came late was no loss."""
    plain = {
        verdict: tally.counts[verdict, event, kind, None]
        for verdict in (Verdict.LATE, Verdict.GAP, Verdict.UNSEEN, Verdict.WITNESSED)
    }
    missed = {cause: tally.counts[Verdict.MISSED, event, kind, cause] for cause in Cause}
    by_design = missed.pop(Cause.BY_DESIGN)
    lost = sum(missed.values()) - plain[Verdict.LATE]
    return (lost, by_design, *(plain[v] for v in plain if v is not Verdict.LATE))


def disagreements(summary: Summary, tally: Tally) -> list[str]:
    """Where the truth and the counters differ."""
    return [
        f"{row.event.label} {row.object.value}, {what}: {true} in truth, {counted} counted"
        for row in summary.rows
        for what, true, counted in zip(
            SUMS, true_sums(row), counted_sums(tally, row.event, row.object), strict=True
        )
        if true != counted
    ]


def in_step(patch: pytest.MonkeyPatch) -> None:
    """The runtime takes a subscription to begin when the observer asked for it.

    What happens before it is heard of is news to one of them and backlog to the other: on a busy
    machine that is long enough for something to happen.
    """
    asked: list[int] = []
    take, subscribe = Chronicle.take, Channel.subscribe

    def taking(chronicle: Chronicle, fact: Fact) -> Taken:
        if isinstance(fact, StreamAsked):
            asked.append(fact.began_ns)
        return take(chronicle, fact)

    def subscribing(channel: Channel, _now_ns: int) -> Subscriber:
        return subscribe(channel, asked[-1])

    patch.setattr(Chronicle, "take", taking)
    patch.setattr(Channel, "subscribe", subscribing)


async def test_under_churn_and_losses_by_chance_the_counters_are_the_truth(
    folder: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Losses, copies, delays, failed starts and broken streams: all sums agree at the end."""
    in_step(monkeypatch)
    async with (
        simulated_node.run(BUSY, folder / "cri.sock") as node,
        observing(node.server.socket, relist_period=0.3, missed_grace=1.0) as observer,
    ):
        await observer.connected()
        end = time.monotonic() + CHURNING
        await until(lambda: time.monotonic() > end, "it lives", seconds=2 * CHURNING)
        await node.quiesce()
        await observer.connected(times=observer.node.disconnects.total() + 1)
        await observer.judged()
        await observer.judged()
        summary, tally = node.summary(), observer.node.tally
        assert disagreements(summary, tally) == []
        assert sum(row.lost for row in summary.rows) > 10
        assert sum(row.happened for row in summary.rows) > 200
        assert observer.node.connections > 1
