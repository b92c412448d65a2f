"""The status page's headline: the one thing to know about a node, why, and what to do."""

from collections import Counter

import pytest

from exporter.account import NodeState
from exporter.model.events import EventType, ObjectKind
from exporter.model.facts import StreamUp
from exporter.model.findings import Cause, Finding, Outcome, Verdict
from exporter.model.labels import StreamKind, StreamState
from exporter.node.history import History
from exporter.node.judgement import Judge
from exporter.node.state import Node, RuntimeInfo
from exporter.web.headline import Headline, Mood, headline_of
from tests.support.facts import found

pytestmark = pytest.mark.quick

NOW = 1000.0
MISSED = found(Verdict.MISSED, Cause.SILENT)
STALLED = found(Verdict.MISSED, Cause.STALLED)
DOWN = found(Verdict.MISSED, Cause.STREAM_DOWN)
SHARED = found(Verdict.MISSED, Cause.SHARED)
SEEN = found(Verdict.WITNESSED)
COMPLETE = NodeState.COMPLETE.value


class World:
    """A node that was listed just now; `recent` was found in the last 15 minutes."""

    def __init__(self, *recent: Finding, stream: StreamState = StreamState.STREAMING) -> None:
        self.node = Node(stream=stream, relist_succeeded=NOW, relist_turned=NOW)
        self.node.received[EventType.STARTED, ObjectKind.CONTAINER] += 5
        self.history = History(Node())
        self.mislisted: Counter[Verdict] = Counter()
        self.history.took(StreamUp(NOW, 0), Outcome(tuple(recent)))
        for finding in recent:
            self.node.tally.add(finding, 0.0)

    @property
    def headline(self) -> Headline:
        """What is said."""
        judge = Judge(self.node, self.history, self.mislisted.__getitem__)
        return headline_of(self.node, judge.at(NOW + 1))


@pytest.mark.parametrize(
    ("recent", "state", "sentences"),
    [
        ([], NodeState.IDLE, ()),
        ([SEEN], NodeState.COMPLETE, ("1 lifecycle event in the last 15 minutes, none lost.",)),
        (
            [SEEN] * 140 + [MISSED] * 7,
            NodeState.LOSING,
            (
                (
                    "7 of 140 lifecycle events in the last 15 minutes were never announced, though"
                    " later ones were (5 %), 7 of 140 exits among them."
                ),
            ),
        ),
        (
            [SEEN] * 9 + [STALLED] * 9,
            NodeState.STREAM_SILENT,
            (
                "Not one event came in the last 15 minutes, although the subscription is open.",
                (
                    "9 of 9 lifecycle events in the last 15 minutes were not delivered in time; by"
                    " whose fault is not known (100 %), 9 of 9 exits among them."
                ),
            ),
        ),
        (
            [found(Verdict.GAP), SEEN],
            NodeState.FEW_LOST,
            ("1 step was skipped by the stream in the last 15 minutes.",),
        ),
        (
            [SEEN, SEEN, DOWN, DOWN],
            NodeState.INTERRUPTED,
            ("2 lifecycle events lost while the stream was down, in the last 15 minutes.",),
        ),
    ],
)
def test_the_headline_is_about_the_last_quarter_of_an_hour(
    recent: list[Finding], state: NodeState, sentences: tuple[str, ...]
) -> None:
    """The state's own words, and why."""
    said = World(*recent).headline
    assert (said.text, said.sentences) == (state.value, sentences)
    fine = state in (NodeState.IDLE, NodeState.COMPLETE)
    assert (said.mood is Mood.GOOD) is fine
    assert bool(said.runbook) is not fine


def test_the_headline_heals() -> None:
    """What was lost before is a sentence of its own, with the time of the last one."""
    world = World(SEEN)
    world.node.tally.add(MISSED, 7_200.0)
    world.node.tally.add(STALLED, 8_040.0)
    said = world.headline
    assert (said.mood, said.text) == (Mood.GOOD, COMPLETE)
    assert said.sentences[-1] == "Earlier: 2 lost, the last one at 02:14:00 UTC."


@pytest.mark.parametrize("hangs", [False, True])
def test_a_runtime_that_does_not_answer_is_bad_at_once(*, hangs: bool) -> None:
    """As soon as a relist fails, or is overdue; with when it answered last, and tries again."""
    world = World()
    node = world.node
    node.relist_period, node.relist_succeeded_wall = 10.0, 3_600.0
    if hangs:
        node.relist_succeeded = NOW - 21
    else:
        node.relist_note = "ListPodSandbox: unavailable: connection refused"
    said = world.headline
    assert (said.mood, said.text) == (Mood.BAD, "The runtime does not answer")
    assert said.sentences == (
        "It answered last at 01:00:00 UTC: all below is from then.",
        "The exporter asks again, at least every 11 s.",
    )
    assert said.runbook.endswith("/ShadowPlegRelistStale.md")


def test_before_the_first_answer_nothing_is_known() -> None:
    """Waiting is no fault; a failed first relist is."""
    world = World()
    world.node.relist_succeeded = None
    assert world.headline.mood is Mood.UNSURE
    world.node.relist_note = "no runtime socket"
    said = world.headline
    assert said.mood is Mood.BAD
    assert said.sentences[0] == "It has not answered since the exporter started."


def test_a_stream_that_is_down_says_why_and_when_it_is_tried_again() -> None:
    """In words; the runtime's own text is on its card."""
    world = World(SEEN, stream=StreamState.BACKOFF)
    world.node.stream_note = "GetContainerEvents: unavailable: error reading from server: EOF"
    world.node.stream_reason, world.node.stream_retry_wall = "unavailable", 3_661.0
    said = world.headline
    assert said.text == "The event stream is down"
    assert said.sentences == (
        "The runtime closed the connection, or does not accept one.",
        "The next attempt is at 01:01:01 UTC.",
    )


@pytest.mark.parametrize(
    "state", [StreamState.REFUSED, StreamState.DISABLED, StreamState.UNSUPPORTED]
)
def test_a_stream_that_is_not_watched_says_why(state: StreamState) -> None:
    """One sentence, and never the way that could harm."""
    said = World(SEEN, stream=state).headline
    assert (said.mood, said.text) == (Mood.UNSURE, "Not watching the event stream")
    assert len(said.sentences) == 1
    assert "always" not in said.sentences[0]


def test_an_exclusive_stream_cannot_be_judged() -> None:
    """It is never green, though nothing was lost."""
    world = World(SEEN, SHARED)
    world.node.runtime = RuntimeInfo("containerd", "1.7.24", "v1", StreamKind.EXCLUSIVE)
    said = world.headline
    assert said.mood is Mood.UNSURE
    assert said.sentences[-1].startswith("1 lifecycle event in the last 15 minutes may have gone")


def test_lists_that_are_wrong_are_named_in_both_ways() -> None:
    """A green headline would hide them."""
    world = World(SEEN)
    world.mislisted.update({Verdict.GHOST: 1, Verdict.STRAY: 2})
    said = world.headline
    assert said.mood is Mood.BAD
    assert said.sentences == (
        "1 container is listed as running, but their last process has ended.",
        "2 containers are running, but not listed as running.",
    )
