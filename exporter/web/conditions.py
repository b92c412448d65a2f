"""Two conditions of the node, for what turns probes into node conditions.

A condition is True, False or unknown, and changes slowly: whoever taints nodes acts on it. It is
judged each time that it is asked for, so that "for so long" means at each look in that time.
"""

from collections.abc import Callable
from dataclasses import dataclass, field
from enum import Enum
from typing import Final

from aiohttp import web

from exporter.node.history import History
from exporter.node.state import KernelWitness, Node, StreamState
from exporter.pleg.findings import Cause, Verdict
from exporter.settings.conditions import Condition

# As the alerts of the same names: fewer losses are no reason to act.
_FEW_LOSSES: Final = 3
_MINUTES_LOST: Final = 15


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
_EVENTS_SECONDS: Final = {Holds.FALSE: 0.0, Holds.TRUE: 0.0, Holds.UNKNOWN: 300.0}
_STATE_SECONDS: Final = {Holds.FALSE: 300.0, Holds.TRUE: 600.0, Holds.UNKNOWN: 300.0}
_NEW: Final = Answer(Holds.UNKNOWN, "not known yet")


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
    """Both conditions of a node. `ghosts`: how many there are now; `threshold`: of `/readyz`."""

    node: Node
    history: History
    ghosts: Callable[[], int]
    threshold: float
    _held: dict[Condition, Held] = field(
        default_factory=lambda: {
            Condition.EVENTS_INCOMPLETE: Held(_EVENTS_SECONDS),
            Condition.STATE_STALE: Held(_STATE_SECONDS),
        }
    )

    def answer(self, condition: Condition, now: float) -> Answer:
        """Whether the condition holds, as far as that is known."""
        held = self._held[condition]
        if not self.node.is_ready(now, self.threshold):
            seen = Answer(Holds.UNKNOWN, "not known: no relist has succeeded recently")
        elif condition is Condition.EVENTS_INCOMPLETE:
            seen = self._events(now, held.given.holds)
        else:
            seen = self._state()
        return held.look(now, seen)

    def _events(self, now: float, given: Holds) -> Answer:
        if self.node.stream is not StreamState.STREAMING:
            text = f"not known: the event stream is {self.node.stream.value}"
            return Answer(Holds.UNKNOWN, text)
        recent = self.history.recent(now)
        late = recent[Verdict.LATE, None]
        lost = max(0, recent[Verdict.MISSED, Cause.SILENT] - late)
        # Once there were many, none may be left.
        if lost > (0 if given is Holds.TRUE else _FEW_LOSSES):
            text = f"{lost} container events were never announced within {_MINUTES_LOST} minutes"
            return Answer(Holds.TRUE, text)
        return Answer(Holds.FALSE, "the runtime announces container events")

    def _state(self) -> Answer:
        if self.node.kernel is not KernelWitness.WATCHING:
            text = f"not known: the kernel's view of containers is {self.node.kernel.value}"
            return Answer(Holds.UNKNOWN, text)
        if ghosts := self.ghosts():
            return Answer(Holds.TRUE, f"{ghosts} containers are listed as running but have ended")
        return Answer(Holds.FALSE, "the runtime lists as running only what runs")


def response_of(answer: Answer) -> web.Response:
    """The answer as a page."""
    return web.Response(status=answer.holds.value, text=f"{answer.text}\n")
