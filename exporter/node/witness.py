"""A source of what is observed: the event stream, the kernel, OOM kills, the kubelet's pods."""

from collections import Counter
from dataclasses import dataclass, field
from enum import Enum
from typing import Generic, TypeVar

import structlog

_log = structlog.get_logger()

State = TypeVar("State", bound=Enum)


@dataclass(slots=True)
class Witness(Generic[State]):
    """The state of one source, and why; each change is logged once.

    `name`: what the log calls it.
    `observing`: the states in which it observes, some of them in part only.
    `note`: why it is in this state, in words; empty if there is nothing to say.
    `reason`: the label of `note`, where it has one.
    `ends`: how often it ended, by reason.
    `essential`: it is a warning that it never worked, too.
    """

    name: str
    observing: tuple[State, ...]
    state: State
    note: str = ""
    reason: str = ""
    ends: Counter[str] = field(default_factory=Counter)
    essential: bool = False
    # How it failed since it last worked: what is tried again and again is said once.
    _said: set[tuple[State, str]] = field(default_factory=set)

    @property
    def works(self) -> bool:
        """Whether it observes."""
        return self.state in self.observing

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
