"""The one thing to know about this node now, why, and what to do about it.

It judges the last 15 minutes, so it heals; what was lost before is a sentence of its own. Times are
those of the clock, not ages: a page is rendered again only if its words change.
"""

from collections.abc import Iterator, Mapping
from dataclasses import dataclass
from datetime import UTC, datetime
from enum import Enum
from typing import Final

from exporter import RUNBOOKS
from exporter.node.state import Node, StreamState
from exporter.pleg.findings import Cause, Verdict
from exporter.pleg.profiles import StreamKind
from exporter.settings.config import Config, EventStream

WINDOW: Final = "in the last 15 minutes"
# A relist that is later than this and the jitter hangs.
_SLACK_SECONDS: Final = 10.0
_JITTER: Final = 1.1
# Why a subscription ended or failed; the runtime's own text is shown with the stream's state.
_REASONS: Final = {
    "unavailable": "The runtime closed the connection, or does not accept one.",
    "eof": "The runtime ended the stream.",
    "overflow": "Events came faster than the exporter could take them.",
    "deadline_exceeded": "The exporter stood still for longer than its lease, or got no answer.",
    "permission_denied": "The exporter may not open the runtime's socket.",
    "resource_exhausted": "The runtime sent one event that is too large.",
}
UNWATCHED: Final = {
    StreamState.REFUSED: "Only the relist runs: a second subscriber could harm the kubelet.",
    StreamState.DISABLED: "The runtime has its events switched off.",
    StreamState.UNSUPPORTED: "This runtime has no event stream.",
}
_SAFE_WAY: Final = (
    "--kubelet-metrics-url lets the exporter subscribe while the kubelet does not use the stream."
)

_SILENT: Final = (Verdict.MISSED, Cause.SILENT)
# Of the window, by verdict and cause.
Found = Mapping[tuple[Verdict, Cause | None], int]


class Mood(Enum):
    """The tone of the headline."""

    GOOD = "good"
    UNSURE = "unsure"
    BAD = "bad"


@dataclass(frozen=True, slots=True)
class Headline:
    """`runbook`: the address of what to do next; empty if there is nothing to do."""

    mood: Mood
    text: str
    sentences: tuple[str, ...]
    runbook: str = ""


def longest_pause(period: float) -> float:
    """Seconds after one relist by which the next one must have begun."""
    return _JITTER * period + _SLACK_SECONDS


def headline_of(node: Node, config: Config, now: float, recent: Found) -> Headline:
    """Judge a node at monotonic time `now`; `recent`: what was found in the window."""
    if (headline := _unanswered(node, now)) is not None:
        return headline
    lost = max(0, recent.get(_SILENT, 0) - recent.get((Verdict.LATE, None), 0))
    gaps = recent.get((Verdict.GAP, None), 0)
    past = tuple(_past(node, recent))
    if lost or gaps:
        sentences = (*_losses(lost, gaps, recent), *past)
        return _headline(Mood.BAD, "The event stream loses events", sentences, "MissedEvents")
    if node.stream is not StreamState.STREAMING:
        return _unwatched(node, config, past)
    seen = recent.get((Verdict.WITNESSED, None), 0)
    if recent.get((Verdict.MISSED, Cause.STREAM_DOWN), 0):
        text = "The event stream was interrupted"
        return _headline(Mood.UNSURE, text, past, "StreamDown")
    if not seen:
        return _headline(Mood.GOOD, f"Watching, nothing has happened {WINDOW}", past)
    sentences = (f"{_events(seen)} {WINDOW}, none lost.", *past)
    return _headline(Mood.GOOD, "The event stream is complete", sentences)


def _unanswered(node: Node, now: float) -> Headline | None:
    """The runtime does not answer, or has not yet."""
    last, period = node.relist_succeeded, node.relist_period
    hangs = last is not None and now - last > longest_pause(period)
    if last is None and not node.relist_note:
        return _headline(Mood.UNSURE, "Waiting for the runtime's first answer", ())
    if not node.relist_note and not hangs:
        return None
    if last is None:
        since = "It has not answered since the exporter started."
    else:
        since = f"It answered last at {_clock(node.relist_succeeded_wall)}: all below is from then."
    again = f"The exporter asks again, at least every {period * _JITTER:.0f} s."
    return _headline(Mood.BAD, "The runtime does not answer", (since, again), "RelistStale")


def _losses(lost: int, gaps: int, recent: Found) -> Iterator[str]:
    seen = recent.get((Verdict.WITNESSED, None), 0)
    if lost:
        share = f" ({100 * lost / seen:.2g} %)" if seen >= lost else ""
        yield f"{lost} of {_events(seen)} {WINDOW} never announced{share}."
    if gaps:
        yield f"{gaps} {'step was' if gaps == 1 else 'steps were'} skipped by the stream {WINDOW}."


def _past(node: Node, recent: Found) -> Iterator[str]:
    """What the window's losses leave to say."""
    down = recent.get((Verdict.MISSED, Cause.STREAM_DOWN), 0)
    if down:
        yield f"{down} missed while the stream was down or stood still, {WINDOW}."
    before = node.tally.total(*_SILENT) - recent.get(_SILENT, 0)
    if before > 0:
        newest = node.tally.newest.items()
        last = max(wall for (_, _, cause), (_, wall) in newest if cause is Cause.SILENT)
        yield f"Earlier: {before} lost, the last one at {_clock(last)}."


def _unwatched(node: Node, config: Config, past: tuple[str, ...]) -> Headline:
    sentences = list(past)
    if node.stream in UNWATCHED:
        sentences.insert(0, UNWATCHED[node.stream])
        exclusive = node.runtime is not None and node.runtime.stream is StreamKind.EXCLUSIVE
        unasked = config.event_stream is EventStream.AUTO and not config.kubelet_metrics_url
        if node.stream is StreamState.REFUSED and exclusive and unasked:
            sentences.insert(1, _SAFE_WAY)
        return _headline(
            Mood.UNSURE, "Not watching the event stream", tuple(sentences), "NodesNotWatched"
        )
    if node.stream_reason:
        reason = _REASONS.get(node.stream_reason, f"Its error is {node.stream_reason}.")
        sentences.insert(0, reason)
    if node.stream_retry_wall:
        sentences.insert(1, f"The next attempt is at {_clock(node.stream_retry_wall)}.")
    return _headline(Mood.UNSURE, "The event stream is down", tuple(sentences), "StreamDown")


def _headline(mood: Mood, text: str, sentences: tuple[str, ...], runbook: str = "") -> Headline:
    link = f"{RUNBOOKS}/ShadowPleg{runbook}.md" if runbook else ""
    return Headline(mood, text, sentences, link)


def _events(number: int) -> str:
    return "1 lifecycle event" if number == 1 else f"{number} lifecycle events"


def _clock(wall: float) -> str:
    return f"{datetime.fromtimestamp(wall, UTC):%H:%M:%S} UTC"
