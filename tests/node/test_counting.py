"""What a ledger took and found is counted once, in one place."""

import pytest

from exporter.model.events import EventType, ObjectKind
from exporter.model.facts import StreamDown
from exporter.model.findings import NOTHING, Finding, Outcome, Verdict
from exporter.node.counting import Counting
from exporter.node.state import Node
from tests.support.facts import found, started

pytestmark = pytest.mark.quick


def counting() -> tuple[Node, Counting, list[float], list[Finding]]:
    """A node, and what was delivered and measured."""
    node, delivered, measured = Node(), list[float](), list[Finding]()
    return node, Counting(node, delivered.append, measured.append), delivered, measured


@pytest.mark.parametrize("verdict", Verdict)
def test_every_finding_is_counted(verdict: Verdict) -> None:
    """One that has seconds is passed on, to be observed; an overflow is a discard, too."""
    node, counts, _, measured = counting()
    late = found(verdict)._replace(seconds=2.5)
    counts.took(StreamDown(0.0), Outcome((found(verdict), late)))
    assert node.tally.total(verdict) == 2
    assert measured == [late]
    dropped = 2 * (verdict is Verdict.OVERFLOW)
    assert (node.discards, node.discards_unreconciled) == (dropped, dropped)


def test_an_event_is_counted_once_with_its_delay() -> None:
    """A copy of another subscription is none, and the delay of an old event says nothing."""
    node, counts, delivered, _ = counting()
    event = started("c1", 5.0, made=3.0)._replace(received_wall_ns=started("c1", 5.0).created_at_ns)
    for outcome in (NOTHING, Outcome(copy=True), Outcome(backlog=True)):
        counts.took(event, outcome)
    assert node.received == {(EventType.STARTED, ObjectKind.CONTAINER): 2}
    assert delivered == [2.0]
