"""The status page's headline: the one thing to know about a node, why, and what to do."""

from collections import Counter
from dataclasses import replace
from typing import Any

import pytest

from exporter.node.state import Node, RuntimeInfo, StreamState
from exporter.pleg.findings import Cause, Finding, Verdict
from exporter.pleg.profiles import StreamKind
from exporter.settings.config import Config, EventStream
from exporter.web.status.headline import Headline, Mood, headline_of
from tests.support.facts import found
from tests.support.web_pages import CONFIG

pytestmark = pytest.mark.quick

NOW = 1000.0
MISSED = found(Verdict.MISSED, Cause.SILENT)
DOWN = found(Verdict.MISSED, Cause.STREAM_DOWN)
SEEN = found(Verdict.WITNESSED)
LATE = found(Verdict.LATE)
GAP = found(Verdict.GAP)
OUTAGE_GAP = found(Verdict.GAP, Cause.STREAM_DOWN)
LOSES = "The event stream loses events"
COMPLETE = "The event stream is complete"
INTERRUPTED = "The event stream was interrupted"
NONE_LOST = ("1 lifecycle event in the last 15 minutes, none lost.",)


def watched(*findings: Finding, stream: StreamState = StreamState.STREAMING) -> Node:
    """A node that was listed just now, and of which these findings are known."""
    node = Node(stream=stream, relist_succeeded=NOW, relist_turned=NOW)
    for finding in findings:
        node.tally.add(finding, 0.0)
    return node


def headline(node: Node, *recent: Finding, config: Config = CONFIG) -> Headline:
    """What is said of the node if these were found in the last 15 minutes."""
    return headline_of(node, config, NOW + 1, Counter((f.verdict, f.cause) for f in recent))


@pytest.mark.parametrize(
    ("recent", "text", "sentences"),
    [
        ([], "Watching, nothing has happened in the last 15 minutes", ()),
        ([SEEN], COMPLETE, NONE_LOST),
        (
            [SEEN] * 140 + [MISSED] * 7,
            LOSES,
            ("7 of 140 lifecycle events in the last 15 minutes never announced (5 %).",),
        ),
        ([GAP], LOSES, ("1 step was skipped by the stream in the last 15 minutes.",)),
        ([SEEN, OUTAGE_GAP], COMPLETE, NONE_LOST),
        ([SEEN, MISSED, LATE], COMPLETE, NONE_LOST),
        ([SEEN, found(Verdict.MISSED, Cause.BY_DESIGN)], COMPLETE, NONE_LOST),
        (
            [SEEN, DOWN, DOWN],
            INTERRUPTED,
            ("2 missed while the stream was down or stood still, in the last 15 minutes.",),
        ),
    ],
)
def test_the_headline_is_about_the_last_quarter_of_an_hour(
    recent: list[Finding], text: str, sentences: tuple[str, ...]
) -> None:
    """Losses first; what an outage explains is no loss."""
    said = headline(watched(*recent), *recent)
    assert (said.text, said.sentences) == (text, sentences)
    assert said.mood is {LOSES: Mood.BAD, INTERRUPTED: Mood.UNSURE}.get(text, Mood.GOOD)
    assert bool(said.runbook) is (said.mood is not Mood.GOOD)


def test_the_headline_heals() -> None:
    """What was lost before is a sentence of its own, with the time of the last one."""
    node = watched(SEEN)
    node.tally.add(MISSED, 7_200.0)
    node.tally.add(MISSED, 8_040.0)
    said = headline(node, SEEN)
    assert (said.mood, said.text) == (Mood.GOOD, COMPLETE)
    assert said.sentences[-1] == "Earlier: 2 lost, the last one at 02:14:00 UTC."


@pytest.mark.parametrize("hangs", [False, True])
def test_a_runtime_that_does_not_answer_is_bad_at_once(*, hangs: bool) -> None:
    """As soon as a relist fails, or is overdue; with when it answered last, and tries again."""
    node = watched(MISSED)
    node.relist_period, node.relist_succeeded_wall = 10.0, 3_600.0
    if hangs:
        node.relist_succeeded = NOW - 21
    else:
        node.relist_note = "ListPodSandbox: unavailable: connection refused"
    said = headline(node, MISSED)
    assert (said.mood, said.text) == (Mood.BAD, "The runtime does not answer")
    assert said.sentences == (
        "It answered last at 01:00:00 UTC: all below is from then.",
        "The exporter asks again, at least every 11 s.",
    )
    assert said.runbook.endswith("/ShadowPlegRelistStale.md")


def test_before_the_first_answer_nothing_is_known() -> None:
    """Waiting is no fault; a failed first relist is."""
    assert headline(Node()).mood is Mood.UNSURE
    said = headline(Node(relist_note="no runtime socket"))
    assert said.mood is Mood.BAD
    assert said.sentences[0] == "It has not answered since the exporter started."


def test_a_stream_that_is_down_says_why_and_when_it_is_tried_again() -> None:
    """In words; the runtime's own text is on its card."""
    node = watched(SEEN, stream=StreamState.BACKOFF)
    node.stream_note = "GetContainerEvents: unavailable: error reading from server: EOF"
    node.stream_reason, node.stream_retry_wall = "unavailable", 3_661.0
    said = headline(node, SEEN)
    assert said.text == "The event stream is down"
    assert said.sentences == (
        "The runtime closed the connection, or does not accept one.",
        "The next attempt is at 01:01:01 UTC.",
    )


@pytest.mark.parametrize(
    ("state", "changes", "number"),
    [
        (StreamState.REFUSED, {}, 2),
        (StreamState.REFUSED, {"event_stream": EventStream.NEVER}, 1),
        (StreamState.REFUSED, {"kubelet_metrics_url": "https://127.0.0.1:10250/metrics"}, 1),
        (StreamState.DISABLED, {}, 1),
        (StreamState.UNSUPPORTED, {}, 1),
    ],
)
def test_a_stream_that_is_not_watched_offers_the_safe_way(
    state: StreamState, changes: dict[str, Any], number: int
) -> None:
    """Where there is one that is not in use yet; never the one that could harm."""
    node = watched(SEEN, stream=state)
    node.runtime = RuntimeInfo("containerd", "1.7.24", "v1", StreamKind.EXCLUSIVE)
    said = headline(node, SEEN, config=replace(CONFIG, **changes))
    assert (said.mood, said.text) == (Mood.UNSURE, "Not watching the event stream")
    assert len(said.sentences) == number
    assert all("always" not in sentence for sentence in said.sentences)
    assert ("--kubelet-metrics-url" in " ".join(said.sentences)) is (number == 2)
