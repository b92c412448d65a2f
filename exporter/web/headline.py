"""The node's verdict in words: the headline, why, and what to do about it."""

from collections.abc import Callable, Iterator
from dataclasses import dataclass
from datetime import UTC, datetime
from enum import Enum
from typing import Final

from exporter import RUNBOOKS
from exporter.account import LATE_SECONDS, LOST, WINDOW_SECONDS, Account, NodeState
from exporter.model.events import Lifecycle
from exporter.model.findings import Cause
from exporter.model.labels import StreamState
from exporter.node.judgement import JITTER, KUBELETS_TIMEOUT, Judgement
from exporter.node.state import Node

_WINDOW: Final = f"in the last {WINDOW_SECONDS / 60:.0f} minutes"
# Why a subscription ended or failed; the runtime's own text is shown with the stream's state.
_REASONS: Final = {
    "unavailable": "The runtime closed the connection, or does not accept one.",
    "eof": "The runtime ended the stream.",
    "overflow": "Events came faster than the exporter could take them.",
    "deadline_exceeded": "The exporter stalled for longer than its lease, or got no answer.",
    "permission_denied": "The exporter may not open the runtime's socket.",
    "internal": "The runtime could not send an event, or sent what is none.",
    "resource_exhausted": "The runtime sent one event that is too large.",
}
_UNWATCHED: Final = {
    StreamState.REFUSED: "Only the relist runs: a second subscriber could harm the kubelet, or"
    " --event-stream=never is set.",
    StreamState.DISABLED: "The runtime has its events switched off.",
    StreamState.UNSUPPORTED: "This runtime has no event stream.",
}
_TOO_LARGE, _TOO_LATE = "resource_exhausted", "deadline_exceeded"
_EXITS: Final = (Lifecycle.DIED,)


class Mood(Enum):
    """The tone of the headline."""

    GOOD = "good"
    UNSURE = "unsure"
    BAD = "bad"


@dataclass(frozen=True, slots=True)
class Headline:
    """`alert`: whose runbook says what to do next; empty if there is nothing to do."""

    mood: Mood
    text: str
    sentences: tuple[str, ...]
    alert: str = ""

    @property
    def runbook(self) -> str:
        """Its address, or nothing."""
        return self.alert and f"{RUNBOOKS}/{self.alert}.md"


def headline_of(node: Node, judgement: Judgement) -> Headline:
    """The verdict, and a sentence or two for each state that holds."""
    mood, alert, _ = _STATES[judgement.state]
    sentences = [said for state in judgement.states for said in _STATES[state][2](node, judgement)]
    text = judgement.state.value
    if judgement.state is NodeState.INTERRUPTED and not judgement.present.streaming:
        text = "The event stream is down"
    if judgement.state is NodeState.NOT_ANSWERING and node.relist_reason == _TOO_LARGE:
        text = "The runtime's lists are too large"
    sentences += _earlier(node, judgement.account)
    return Headline(mood, text, tuple(dict.fromkeys(sentences)), alert and f"ShadowPleg{alert}")


def _nothing(_node: Node, _judgement: Judgement) -> Iterator[str]:
    return iter(())


def _not_answering(node: Node, _judgement: Judgement) -> Iterator[str]:
    if node.relist_reason == _TOO_LARGE:
        yield "It answers, and cannot send what it has, or sends more than is taken here."
        yield "A kubelet takes 16 MiB: beyond that it neither lists nor removes what has exited."
    elif node.relist_reason == _TOO_LATE:
        yield f"Its lists did not come in time; a kubelet waits for {KUBELETS_TIMEOUT:.0f} s."
    if node.relist_succeeded is None:
        yield "It has not answered since the exporter started."
    else:
        yield f"It answered last at {_clock(node.relist_succeeded_wall)}: all below is from then."
    yield f"The exporter asks again, at least every {node.relist_period * JITTER:.0f} s."


def _lost(_node: Node, judgement: Judgement) -> Iterator[str]:
    """How many events were lost, exits by themselves."""
    account = judgement.account
    for cause, what in (
        (Cause.STALLED, "were not delivered in time, and by whose fault is unknown"),
        (Cause.SILENT, "were never announced, though later ones were"),
    ):
        exits, all_ = account.lost(cause, events=_EXITS), account.lost(cause)
        if all_:
            share = _share(all_, account.owed())
            which = f"; among them {exits} of {account.owed(_EXITS)} exits" if exits else ""
            yield f"{all_} of {_events(account.owed())}{share} {_WINDOW} {what}{which}."
    if gaps := account.gaps:
        yield f"{_events(gaps)} {_WINDOW} never came, though a later one of the same container did."


def _silent(node: Node, judgement: Judgement) -> Iterator[str]:
    if not judgement.account.received:
        yield f"Not one event came {_WINDOW}, although the subscription is open."
    yield from _lost(node, judgement)


def _mislisted(_node: Node, judgement: Judgement) -> Iterator[str]:
    yield from _containers(judgement.present.ghosts, "listed as running without a process")
    yield from _containers(judgement.present.strays, "running, but not listed as running")


def _misbelieved(_node: Node, judgement: Judgement) -> Iterator[str]:
    present = judgement.present
    yield from _containers(present.stale, "shown running by the kubelet, but ended long ago")
    yield from _containers(present.unknown, "running, but the kubelet has dropped their pods")


def _containers(number: int, what: str) -> Iterator[str]:
    if number:
        yield f"{number} {'container is' if number == 1 else 'containers are'} {what}."


def _flapping(_node: Node, judgement: Judgement) -> Iterator[str]:
    yield f"It ended {judgement.account.ends} times {_WINDOW}."


def _exits_late(_node: Node, judgement: Judgement) -> Iterator[str]:
    slow, timed = judgement.account.slow, judgement.account.timed
    yield f"{slow} of {timed} exits {_WINDOW} were announced more than {LATE_SECONDS:g} s later."


def _interrupted(node: Node, judgement: Judgement) -> Iterator[str]:
    if not judgement.present.streaming:
        if node.stream_reason:
            yield _REASONS.get(node.stream_reason, f"Its error is {node.stream_reason}.")
        if node.stream_retry_wall:
            yield f"The next attempt is at {_clock(node.stream_retry_wall)}."
    if down := judgement.account.lost(Cause.STREAM_DOWN):
        yield f"{_events(down)} lost while the stream was down, {_WINDOW}."
    if discarded := judgement.account.lost(Cause.DISCARDED):
        yield f"{_events(discarded)} dropped here {_WINDOW}: no room in the queue, or unreadable."


def _not_watched(node: Node, judgement: Judgement) -> Iterator[str]:
    if node.stream in _UNWATCHED:
        yield _UNWATCHED[node.stream]
    else:
        shared = judgement.account.lost(Cause.SHARED)
        yield "It is exclusive: this exporter and the kubelet take events from each other."
        yield f"{_events(shared)} {_WINDOW} may have gone to another subscriber."


def _complete(_node: Node, judgement: Judgement) -> Iterator[str]:
    yield f"{_events(judgement.account.owed())} {_WINDOW}, none lost."


# The tone of each state, the alert whose runbook says what to do, and what is said.
_STATES: Final[dict[NodeState, tuple[Mood, str, Callable[[Node, Judgement], Iterator[str]]]]] = {
    NodeState.STARTING: (Mood.UNSURE, "", _nothing),
    NodeState.NOT_ANSWERING: (Mood.BAD, "RelistStale", _not_answering),
    NodeState.STREAM_SILENT: (Mood.BAD, "StreamStalled", _silent),
    NodeState.LOSING: (Mood.BAD, "MissedEvents", _lost),
    NodeState.MISLISTED: (Mood.BAD, "GhostContainers", _mislisted),
    NodeState.MISBELIEVED: (Mood.BAD, "StaleStatuses", _misbelieved),
    NodeState.FLAPPING: (Mood.BAD, "StreamDown", _flapping),
    NodeState.EXITS_LATE: (Mood.UNSURE, "ExitsAnnouncedLate", _exits_late),
    NodeState.FEW_LOST: (Mood.UNSURE, "MissedEvents", _lost),
    NodeState.INTERRUPTED: (Mood.UNSURE, "StreamDown", _interrupted),
    NodeState.NOT_WATCHED: (Mood.UNSURE, "", _not_watched),
    NodeState.IDLE: (Mood.GOOD, "", _nothing),
    NodeState.COMPLETE: (Mood.GOOD, "", _complete),
}


def _earlier(node: Node, account: Account) -> Iterator[str]:
    """What was lost before the window."""
    before = node.tally.lost(*LOST) - account.lost(*LOST)
    if before > 0:
        newest = node.tally.newest.items()
        last = max(wall for (_, _, cause), (_, wall) in newest if cause in LOST)
        yield f"Earlier: {before} lost, the last one at {_clock(last)}."


def _share(lost: int, owed: int) -> str:
    return f" ({100 * lost / owed:.3g} %)" if owed >= lost else ""


def _events(number: int) -> str:
    return "1 lifecycle event" if number == 1 else f"{number} lifecycle events"


def _clock(wall: float) -> str:
    return f"{datetime.fromtimestamp(wall, UTC):%H:%M:%S} UTC"
