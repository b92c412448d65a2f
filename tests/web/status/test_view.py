"""The status page: the one thing to know about a node, and why."""

from dataclasses import replace

import pytest

from exporter.node.state import Node, StreamState
from exporter.pleg.findings import Cause, Finding, Verdict
from exporter.web.status.view import Mood, status_of
from tests.support.facts import found
from tests.support.web_pages import CONFIG

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
GAP = found(Verdict.GAP)
LOSES = "The event stream loses events"


@pytest.mark.parametrize(
    ("node", "headline", "explanation"),
    [
        (Node(), "Cannot tell", "No recent relist: the runtime does not answer its lists."),
        (watched(MISSED), LOSES, "Since the start: 1 missed silently."),
        (watched(MISSED, GAP, GAP), LOSES, "Since the start: 1 missed silently, 2 gaps."),
        (watched(GAP), LOSES, "Since the start: 0 missed silently, 1 gap."),
        (watched(SEEN, stream=StreamState.BACKOFF), "Not watching the event stream", "backoff"),
        (watched(), "Watching, nothing has happened yet", "No container has come or gone."),
        (
            watched(SEEN, found(Verdict.MISSED, Cause.BY_DESIGN)),
            "The event stream is complete",
            "1 lifecycle events, none lost silently.",
        ),
    ],
)
def test_the_headline_is_the_one_thing_to_know(node: Node, headline: str, explanation: str) -> None:
    """Not knowing comes first, losses before everything that is merely odd."""
    status = status_of(node, CONFIG, NOW + 1)
    assert (status.headline, status.explanation) == (headline, explanation)
    not_known = ("Cannot tell", "Not watching the event stream")
    moods = {LOSES: Mood.BAD, **dict.fromkeys(not_known, Mood.UNSURE)}
    assert status.mood is moods.get(headline, Mood.GOOD)


@pytest.mark.parametrize("state", [s for s in StreamState if s is not StreamState.STREAMING])
def test_a_stream_that_is_not_up_says_why(state: StreamState) -> None:
    """The note is what an operator can act on."""
    node = replace(watched(SEEN, stream=state), stream_note="because")
    assert status_of(node, CONFIG, NOW).explanation == "because"


def test_an_old_relist_outweighs_everything() -> None:
    """What was counted long ago says nothing about now."""
    status = status_of(watched(MISSED), CONFIG, NOW + CONFIG.relist_threshold)
    assert (status.mood, status.relist) == (Mood.UNSURE, "180 s ago")


def test_what_is_not_known_yet_is_said_so() -> None:
    """No empty card."""
    status = status_of(Node(), CONFIG, NOW)
    assert (status.runtime, status.relist) == ("not reached yet", "none succeeded yet")
    assert status.inventory == "0 pods, 0 sandboxes, 0 containers"


def test_every_cause_and_every_verdict_of_note_has_its_row() -> None:
    """Numbers come from the tally; the total of a verdict is over all events and objects."""
    status = status_of(watched(MISSED, SEEN, SEEN), CONFIG, NOW)
    assert {row.label: row.number for row in status.missed} == {
        "silent": 1,
        "stream_down": 0,
        "discarded": 0,
        "by_design": 0,
    }
    counted = {row.label: row.number for row in status.verdicts}
    elsewhere = {Verdict.MISSED.value, Verdict.OVERFLOW.value}
    assert set(counted) == {verdict.value for verdict in Verdict} - elsewhere
    assert (counted["witnessed"], counted["late"]) == (2, 0)
