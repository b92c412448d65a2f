"""Two conditions of the node, for what turns probes into node conditions.

A condition is True, False or unknown, and changes slowly: whoever taints nodes acts on it. It reads
the node's verdict each time that it is asked for, so that "for so long" means at each look in that
time.
"""

from dataclasses import dataclass, field
from enum import Enum
from typing import Final

from aiohttp import web

from exporter.account import NodeState
from exporter.node.judgement import Judge, Judgement
from exporter.node.state import KernelWitness
from exporter.pleg.findings import Cause
from exporter.settings.conditions import MOST_CHARACTERS, Condition


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


# Seconds for which an answer must be seen before it replaces another one. A lost connection comes
# back within that time, and a runtime that is slow to clean up is done.
_EVENTS_SECONDS: Final = {Holds.FALSE: 300.0, Holds.TRUE: 0.0, Holds.UNKNOWN: 300.0}
_STATE_SECONDS: Final = {Holds.FALSE: 300.0, Holds.TRUE: 600.0, Holds.UNKNOWN: 300.0}
_NEW: Final = Answer(Holds.UNKNOWN, "not known yet")
# An exporter whose own subscription ends again and again cannot say that the events are complete.
_UNKNOWN: Final = (
    *(NodeState.STARTING, NodeState.NOT_ANSWERING),
    *(NodeState.FLAPPING, NodeState.NOT_WATCHED),
)


@dataclass(slots=True)
class Held:
    """The answer that is given, and since when another one is seen."""

    seconds: dict[Holds, float]
    given: Answer = _NEW
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
    _held: dict[Condition, Held] = field(
        default_factory=lambda: {
            Condition.EVENTS_INCOMPLETE: Held(_EVENTS_SECONDS),
            Condition.STATE_STALE: Held(_STATE_SECONDS),
        }
    )

    def answer(self, condition: Condition, now: float) -> Answer:
        """Whether the condition holds, as far as that is known."""
        judgement = self.judge.at(now)
        look = _events if condition is Condition.EVENTS_INCOMPLETE else self._state
        return self._held[condition].look(now, look(judgement))

    def _state(self, judgement: Judgement) -> Answer:
        kernel, present = self.judge.node.kernel, judgement.present
        if present.answers is not True:
            return Answer(Holds.UNKNOWN, f"not known: {_words(judgement.state)}")
        if kernel is not KernelWitness.WATCHING:
            return Answer(
                Holds.UNKNOWN, f"not known: the kernel's view of containers is {kernel.value}"
            )
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


def response_of(answer: Answer) -> web.Response:
    """The answer as a page."""
    return web.Response(status=answer.holds.value, text=f"{answer.text}\n")
