"""The status page. Its dynamic part is rendered at most once a second for all viewers.

Law: not rendered while there are no viewers, nor if nothing changed.
"""

import time
from collections.abc import Callable
from dataclasses import dataclass
from datetime import UTC, datetime
from typing import Final

from aiohttp import web

from exporter import __version__
from exporter.evidence.case import Case, summary_of
from exporter.settings.config import Config
from exporter.web.access.guard import PROBES
from exporter.web.pages import Page, Pages
from exporter.web.rendering import html_page, templates
from exporter.web.status.timeline import Timeline
from exporter.web.status.view import Status

LOOK_SECONDS: Final = 1.0
# More viewers than one node normally has at a time.
MOST_VIEWERS: Final = 4
# Between reloads of a page that gets no live updates.
_RELOAD_SECONDS: Final = 10
_RELOAD_SECONDS_WHERE_FULL: Final = 30


# Everything on it, with the newest losses; two equal views look the same.
View = tuple[Status, Timeline, tuple[Case, ...]]


@dataclass(frozen=True, slots=True)
class Frame:
    """One rendering. `number` changes with the content; `event` is the same for an EventSource."""

    number: int
    html: str
    event: bytes


class Board:
    """The dynamic part. `look` gives the view as of a monotonic time."""

    def __init__(self, look: Callable[[float], View]) -> None:
        self._look = look
        self._looked = self._made = float("-inf")
        self._view: View | None = None
        self._frame = Frame(0, "", b"")

    def frame(self, now: float) -> Frame:
        """The frame as of now or up to a second ago; the same one if nothing changed."""
        if now - self._looked < LOOK_SECONDS:
            return self._frame
        self._looked = now
        # Keep the new view even if equal: ages are not compared.
        before, self._view = self._view, self._look(now)
        if self._view != before:
            self._make(self._view, now, self._frame.number + 1)
        return self._frame

    def html(self, now: float) -> str:
        """The same for a single page load: ages are current, too."""
        frame = self.frame(now)
        if self._view is not None and now - self._made >= LOOK_SECONDS:
            self._make(self._view, now, frame.number)
        return self._frame.html

    def _make(self, view: View, now: float, number: int) -> None:
        template = templates().get_template("board.html")
        status, timeline, cases = view
        losses = [summary_of(case) for case in cases]
        html = template.render(status=status, timeline=timeline, losses=losses)
        self._made = now
        self._frame = Frame(number, html, event_of("board", html))


class StatusPage:
    """`/`: the board in its frame, live if there is room for one more viewer."""

    def __init__(
        self, config: Config, board: Board, pages: Pages, is_full: Callable[[], bool]
    ) -> None:
        self._config = config
        self._board = board
        self._pages = pages
        self._is_full = is_full
        # By whether it is live; fresh until that monotonic time.
        self._made: dict[bool, tuple[Page, float]] = {}

    async def page(self, request: web.Request) -> web.Response:
        """The page; it is complete without scripts, which only keep it up to date."""
        live = not self._is_full()

        def fresh() -> Page | None:
            page, until = self._made.get(live, (None, 0.0))
            return page if time.monotonic() < until else None

        async def render() -> Page:
            page = self._render(live=live)
            self._made[live] = page, time.monotonic() + LOOK_SECONDS
            return page

        return await self._pages.answer(request, fresh, render)

    def _render(self, *, live: bool) -> Page:
        page = templates().get_template("index.html")
        html = page.render(
            **_frame(self._config),
            board=self._board.html(time.monotonic()),
            as_of=datetime.fromtimestamp(time.time(), UTC),
            live=live,
            most=MOST_VIEWERS,
            reload=_RELOAD_SECONDS if live else _RELOAD_SECONDS_WHERE_FULL,
        )
        return html_page(html)


class LandingPage:
    """`/` where no page may name a pod: links to the other pages."""

    def __init__(self, config: Config) -> None:
        self._config = config
        self._made: Page | None = None

    async def page(self, request: web.Request) -> web.Response:
        """The page, which never changes."""
        if self._made is None:
            page = templates().get_template("landing.html")
            self._made = html_page(page.render(**_frame(self._config)))
        return self._made.response(request)


def _frame(config: Config) -> dict[str, object]:
    """What the head and the links of either page show."""
    return {
        "version": __version__,
        "node_name": config.node_name,
        "metrics_path": config.web_telemetry_path,
        "probes": PROBES if config.web_probe_address is None else (),
    }


def event_of(name: str, text: str) -> bytes:
    """A message of `text/event-stream`; a name's lone surrogates are shown escaped."""
    lines = "".join(f"data: {line}\n" for line in text.splitlines())
    return f"event: {name}\n{lines}\n".encode("utf-8", "backslashreplace")
