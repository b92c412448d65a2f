"""The dynamic part of the status page, rendered at most once a second for all viewers.

Law: not rendered while there are no viewers, nor if nothing changed.
"""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass
from typing import Final

from exporter.evidence.case import Case, summary_of
from exporter.web.rendering import templates
from exporter.web.status.timeline import Timeline
from exporter.web.status.view import Status

EVERY: Final = 1.0


@dataclass(frozen=True, slots=True)
class View:
    """Everything on it; two equal views look the same."""

    status: Status
    timeline: Timeline
    cases: tuple[Case, ...]


@dataclass(frozen=True, slots=True)
class Frame:
    """One rendering. `number` changes with the content; `event` is the same for an EventSource."""

    number: int
    html: str
    event: bytes


class Board:
    """`look` gives the view as of a monotonic time."""

    def __init__(self, look: Callable[[float], View]) -> None:
        self._look = look
        self._looked = self._made = float("-inf")
        self._view: View | None = None
        self._frame = Frame(0, "", b"")

    def frame(self, now: float) -> Frame:
        """The frame as of now or up to a second ago; the same one if nothing changed."""
        if now - self._looked < EVERY:
            return self._frame
        self._looked = now
        # Keep the new view even if equal: ages are not compared.
        before, self._view = self._view, self._look(now)
        if self._view != before:
            self._make(self._view, now, self._frame.number + 1)
        return self._frame

    def page(self, now: float) -> str:
        """The same for a single page load: ages are current, too."""
        frame = self.frame(now)
        if self._view is not None and now - self._made >= EVERY:
            self._make(self._view, now, frame.number)
        return self._frame.html

    def _make(self, view: View, now: float, number: int) -> None:
        html = (
            templates()
            .get_template("board.html")
            .render(
                status=view.status,
                timeline=view.timeline,
                losses=[summary_of(case) for case in view.cases],
            )
        )
        self._made = now
        self._frame = Frame(number, html, event_of("board", html))


def event_of(name: str, text: str) -> bytes:
    """A message of `text/event-stream`; a name's lone surrogates are shown escaped."""
    lines = "".join(f"data: {line}\n" for line in text.splitlines())
    return f"event: {name}\n{lines}\n".encode("utf-8", "backslashreplace")
