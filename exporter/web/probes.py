"""What is asked by machines: whether the process works, and two conditions of the node.

A condition is True, False or unknown, and changes slowly: controllers that taint nodes act on it.
It reads the node's verdict each time that it is asked for, so that "for so long" means at each look
in that time.
"""

from dataclasses import dataclass, field
from enum import Enum
from typing import Final

from aiohttp import web

from exporter.account import NodeState
from exporter.model.findings import Cause
from exporter.model.labels import KernelWitness
from exporter.node.judgement import KUBELETS_TIMEOUT, Judge, Judgement, longest_pause
from exporter.node.state import Node
from exporter.settings.config import Config
from exporter.settings.routes import MOST_CHARACTERS, Condition


def not_alive(node: Node, config: Config, now: float) -> str:
    """Why this process does not work at monotonic time `now`; empty if it does."""
    rest = max(config.relist_period, node.relist_period)
    patience = max(config.relist_timeout, KUBELETS_TIMEOUT) + longest_pause(rest)
    # Whether relists succeed is not asked: restarting the exporter does not fix a runtime.
    stands_still = node.relist_turned is not None and now - node.relist_turned >= patience
    return f"no relist was begun for {patience:g} s" if stands_still else ""


def not_ready(node: Node, config: Config, now: float) -> str:
    """Why the last successful relist is too old to trust the metrics; empty if it is not."""
    last = node.relist_succeeded
    if last is not None and now - last < config.relist_threshold:
        return ""
    # What the runtime says may name pods, and this needs no login: the page and the log have it.
    why = node.relist_reason
    return f"the last relist failed: {why}" if why else "no relist has succeeded recently"


def answer_of(problem: str) -> web.Response:
    """A probe's answer: `ok`, or what is wrong."""
    return web.Response(status=503 if problem else 200, text=f"{problem or 'ok'}\n")


class Holds(Enum):
    """Whether a condition holds; the value is the HTTP status of the answer."""

    FALSE = 200
    TRUE = 503
    UNKNOWN = 500


@dataclass(frozen=True, slots=True)
class Answer:
    """`text`: one line of at most 80 ASCII characters."""

    holds: Holds
    text: str

    @property
    def response(self) -> web.Response:
        """The answer as a page."""
        return web.Response(status=self.holds.value, text=f"{self.text}\n")


# Seconds for which an answer must be seen before it replaces another one. A lost connection comes
# back within that time, and a runtime that is slow to clean up is done.
_SECONDS: Final = {
    Condition.EVENTS_INCOMPLETE: {Holds.FALSE: 300.0, Holds.TRUE: 0.0, Holds.UNKNOWN: 300.0},
    Condition.STATE_STALE: {Holds.FALSE: 300.0, Holds.TRUE: 600.0, Holds.UNKNOWN: 300.0},
}
# An exporter whose own subscription ends again and again cannot say that the events are complete.
_UNKNOWN: Final = (
    *(NodeState.STARTING, NodeState.NOT_ANSWERING),
    *(NodeState.FLAPPING, NodeState.NOT_WATCHED),
)


@dataclass(slots=True)
class _Held:
    """The answer that is given, and since when another one is seen."""

    seconds: dict[Holds, float]
    given: Answer = Answer(Holds.UNKNOWN, "not known yet")
    _seen: Holds = Holds.UNKNOWN
    _since: float = 0.0

    def look(self, now: float, seen: Answer) -> Answer:
        """Take what is seen at monotonic time `now`; returns what is to be said."""
        if seen.holds is not self._seen:
            self._seen, self._since = seen.holds, now
        known = self.given.holds is not Holds.UNKNOWN
        wait = self.seconds[seen.holds] if known or seen.holds is Holds.TRUE else 0.0
        if seen.holds is self.given.holds or now - self._since >= wait:
            self.given = seen
        return self.given


@dataclass(slots=True)
class Conditions:
    """Both conditions of a node."""

    judge: Judge
    _held: dict[Condition, _Held] = field(
        default_factory=lambda: {each: _Held(_SECONDS[each]) for each in Condition}
    )

    def answer(self, condition: Condition, now: float) -> Answer:
        """Whether the condition holds, if that is known."""
        judgement = self.judge.at(now)
        look = _events if condition is Condition.EVENTS_INCOMPLETE else self._state
        return self._held[condition].look(now, look(judgement))

    def _state(self, judgement: Judgement) -> Answer:
        kernel, present = self.judge.node.kernel, judgement.present
        if present.answers is not True:
            return Answer(Holds.UNKNOWN, f"not known: {_words(judgement.state)}")
        if present.stale:
            text = f"the kubelet shows {present.stale} ended containers running"
            return Answer(Holds.TRUE, text)
        if kernel is not KernelWitness.WATCHING:
            text = f"not known: the kernel's view of containers is {kernel.value}"
            return Answer(Holds.UNKNOWN, text)
        if present.ghosts:
            text = f"{present.ghosts} containers are listed as running but have ended"
            return Answer(Holds.TRUE, text)
        if present.strays:
            return Answer(Holds.TRUE, f"{present.strays} containers run but are not listed so")
        return Answer(Holds.FALSE, "the runtime lists as running only what runs")


def _events(judgement: Judgement) -> Answer:
    account = judgement.account
    for state, cause in (
        (NodeState.STREAM_SILENT, Cause.STALLED),
        (NodeState.LOSING, Cause.SILENT),
    ):
        if state in judgement.states and judgement.present.answers:
            lost = f"{account.lost(cause)} of {account.owed()} lost"
            return Answer(Holds.TRUE, f"{_words(state)}: {lost}"[:MOST_CHARACTERS])
    unknown = next((state for state in judgement.states if state in _UNKNOWN), None)
    if unknown is not None or not judgement.present.streaming:
        return Answer(Holds.UNKNOWN, f"not known: {_words(unknown or judgement.state)}")
    return Answer(Holds.FALSE, _words(judgement.state))


def _words(state: NodeState) -> str:
    """The headline within a sentence."""
    return state.value[0].lower() + state.value[1:]
