"""The status page in words and numbers."""

import pytest

from exporter.kubelet.state import Gate, Kubelet, KubeletReading
from exporter.node.state import Node, RuntimeInfo, StreamState
from exporter.pleg.findings import Cause, Finding, Verdict
from exporter.pleg.profiles import StreamKind
from exporter.web.status.view import status_of
from tests.support.facts import found
from tests.support.web_pages import CONFIG, judging

pytestmark = pytest.mark.quick

NOW = 1000.0


def watched(*findings: Finding, stream: StreamState = StreamState.STREAMING) -> Node:
    """A node that was listed just now, and of which these findings are known."""
    node = Node(stream=stream, relist_succeeded=NOW, relist_turned=NOW)
    for finding in findings:
        node.tally.add(finding, 0.0)
    return node


MISSED = found(Verdict.MISSED, Cause.SILENT)
SEEN = found(Verdict.WITNESSED)


def test_what_is_not_known_yet_is_said_so() -> None:
    """No empty card."""
    status = status_of(judging(Node()), CONFIG, NOW)
    assert (status.runtime, status.relist) == ("not reached yet", "none succeeded yet")
    assert status.inventory == "0 pods, 0 sandboxes, 0 containers"


def test_how_late_exits_are_noticed_is_said() -> None:
    """On average; and of how many that is known."""
    status = status_of(judging(watched()), CONFIG, NOW)
    assert (status.exits, status.exits_notes) == (
        "none announced yet",
        ("on average of 0 announced exits",),
    )
    late = found(Verdict.EXIT_ANNOUNCED)
    delays = [late._replace(seconds=seconds) for seconds in (0.5, 1.5)]
    listed = found(Verdict.EXIT_LISTED)._replace(seconds=4.0)
    status = status_of(judging(watched(*delays, listed)), CONFIG, NOW)
    assert status.exits == "announced after 1.000 s"
    assert status.exits_notes == (
        "listed after 4.000 s, by the shadow relist",
        "on average of 2 announced exits",
    )


def test_every_cause_and_every_verdict_of_note_has_its_row() -> None:
    """Numbers come from the tally; the total of a verdict is over all events and objects."""
    status = status_of(judging(watched(MISSED, SEEN, SEEN)), CONFIG, NOW)
    assert {row.label: row.number for row in status.missed} == {
        "silent": 1,
        **{cause.value: 0 for cause in Cause if cause is not Cause.SILENT},
    }
    counted = {row.label: row.number for row in status.verdicts}
    elsewhere = {Verdict.MISSED.value, Verdict.OVERFLOW.value}
    assert set(counted) == {verdict.value for verdict in Verdict} - elsewhere
    assert (counted["witnessed"], counted["late"]) == (2, 0)


def test_known_issues_of_this_runtime_are_named() -> None:
    """The kubelet's only where its version is known; none of other versions."""
    node = watched()
    node.runtime = RuntimeInfo("containerd", "2.0.1", "v1", StreamKind.BROADCAST)
    assert [row.id for row in status_of(judging(node), CONFIG, NOW).issues] == []
    node.kubelet = Kubelet(30.0)
    node.kubelet.record(KubeletReading(NOW, Gate.ON, version="v1.31.0"), 1.0)
    named = {row.id for row in status_of(judging(node), CONFIG, NOW).issues}
    assert {"k/k#123087", "containerd#10740"} <= named
