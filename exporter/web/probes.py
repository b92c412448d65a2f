"""Answers for machines: whether the process works, and two conditions of the Node object.

Controllers that taint nodes act on a condition, so its answer changes slowly. It is judged only
when somebody asks: "for five minutes" means at every request in five minutes.
"""

from dataclasses import dataclass, field
from enum import Enum
from typing import Final

from aiohttp import web

from exporter.conditions.catalogue import IDLE
from exporter.conditions.condition import Condition, NodeCondition
from exporter.model.labels import KernelWitness
from exporter.node.judgement import Judge, Judgement
from exporter.settings.routes import MOST_CHARACTERS


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


# Seconds for which an answer must be seen before it replaces another one: long enough for a lost
# connection to come back, and for a slow runtime to clean up.
_SECONDS: Final = {
    NodeCondition.EVENTS_INCOMPLETE: {Holds.FALSE: 300.0, Holds.TRUE: 0.0, Holds.UNKNOWN: 300.0},
    NodeCondition.STATE_STALE: {Holds.FALSE: 300.0, Holds.TRUE: 600.0, Holds.UNKNOWN: 300.0},
}
_HEALTHY: Final = {
    NodeCondition.EVENTS_INCOMPLETE: "no more events are lost than the objective allows",
    NodeCondition.STATE_STALE: "the runtime lists as running only what runs",
}


@dataclass(slots=True)
class _Held:
    """The answer that one condition gives, and since when another answer is seen."""

    seconds: dict[Holds, float]
    given: Answer = Answer(Holds.UNKNOWN, "not known yet")
    _seen: Holds = Holds.UNKNOWN
    _since: float = 0.0

    def look(self, now: float, seen: Answer) -> Answer:
        """The answer to give at monotonic time `now`, when the judgement is `seen`."""
        if seen.holds is not self._seen:
            self._seen, self._since = seen.holds, now
        known = self.given.holds is not Holds.UNKNOWN
        wait = self.seconds[seen.holds] if known or seen.holds is Holds.TRUE else 0.0
        if seen.holds is self.given.holds or now - self._since >= wait:
            self.given = seen
        return self.given


@dataclass(slots=True)
class NodeConditions:
    """Answers for both conditions."""

    judge: Judge
    _held: dict[NodeCondition, _Held] = field(
        default_factory=lambda: {each: _Held(_SECONDS[each]) for each in NodeCondition}
    )

    def answer(self, asked: NodeCondition, now: float) -> Answer:
        """The answer at monotonic time `now`."""
        return self._held[asked].look(now, seen(asked, self.judge.at(now)))


def seen(asked: NodeCondition, judgement: Judgement) -> Answer:
    """What the judgement says about that condition of the Node object."""
    account, present = judgement.account, judgement.present
    unknown = [each for each in judgement.conditions if asked in each.unknown]
    found = [each for each in judgement.conditions if each.node_condition is asked]
    if present.answers is True and found:
        # A condition that holds now comes before one whose state is over.
        first = next((each for each in found if each.holds(account, present)), found[0])
        said = next(first.sentences(account, present), first.headline)
        return Answer(Holds.TRUE, said.rstrip(".")[:MOST_CHARACTERS])
    if asked is NodeCondition.STATE_STALE and present.kernel is KernelWitness.OFF:
        return Answer(Holds.UNKNOWN, "not known: the kernel witness is off")
    if unknown:
        return Answer(Holds.UNKNOWN, f"not known: {_words(unknown[0])}"[:MOST_CHARACTERS])
    idle = judgement.verdict is IDLE and asked is NodeCondition.EVENTS_INCOMPLETE
    return Answer(Holds.FALSE, _words(IDLE) if idle else _HEALTHY[asked])


def _words(condition: Condition) -> str:
    return condition.headline[0].lower() + condition.headline[1:]
