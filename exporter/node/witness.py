"""A source of what is observed: the event stream, the kernel, OOM kills, the kubelet's pods."""

from collections import Counter
from dataclasses import dataclass, field
from enum import Enum
from typing import Final, Generic, TypeVar

import structlog

_log = structlog.get_logger()

State = TypeVar("State", bound=Enum)
# The states in which a source observes, at least in part.
_OBSERVING: Final = {"streaming", "watching", "polling", "counting", "partly"}


@dataclass(slots=True)
class Witness(Generic[State]):
    """The state of one source, and why; each change is logged once."""

    # As in the log.
    name: str
    state: State
    # Why it is in this state, in words, and the label of that; may be empty.
    note: str = ""
    reason: str = ""
    # How often it ended, by reason.
    ends: Counter[str] = field(default_factory=Counter)
    # Warn also if it never worked.
    essential: bool = False
    # Failures since it last worked: each is logged once, however often it is retried.
    _said: set[tuple[State, str]] = field(default_factory=set)

    @property
    def works(self) -> bool:
        """Whether it observes."""
        return self.state.value in _OBSERVING

    def become(self, state: State, note: str = "", reason: str = "", **fields: object) -> None:
        """Enter this state; `fields` are for the log."""
        worked, is_news = self.works, (state, note) != (self.state, self.note)
        self.state, self.note, self.reason = state, note, reason
        if not is_news:
            return
        write = _log.warning if note and (self.works or worked or self.essential) else _log.info
        if self.works:
            self._said.clear()
        elif (state, reason or note) in self._said:
            write = _log.debug
        else:
            self._said.add((state, reason or note))
        why = {"reason": reason, "note": note}
        fields = {name: text for name, text in why.items() if text} | fields
        write(f"{self.name} {state.value}", **fields)
