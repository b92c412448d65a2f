"""The live page over HTTP: who gets what when, and what it may cost the node."""

from __future__ import annotations

import asyncio
import contextlib
import re
import time
from typing import Any

import pytest
from aiohttp import web

from exporter.node.state import StreamState
from exporter.web.status import board, live
from exporter.web.status.board import Board, View
from exporter.web.status.live import MOST
from exporter.web.status.view import Status, status_of
from tests.support.commands import ANYWHERE, fetch, running
from tests.support.runtimes import simulated
from tests.support.secured import TLS, Papers, knock, metrics, refused, users
from tests.support.viewers import a_node, has_room, staring, viewing
from tests.support.waiting import until
from tests.support.web_pages import face_of

pytestmark = pytest.mark.usefixtures("second")

ENDS_WITHIN = 2.0
BROAD = "x" * 400


@pytest.fixture
def second(monkeypatch: pytest.MonkeyPatch) -> float:
    """What lasts a second in earnest lasts so long: how often a page is looked at."""
    assert board.EVERY == 1.0
    for module in (board, live):
        monkeypatch.setattr(module, "EVERY", 0.1)
    return 0.1


async def counted(url: str, reason: str) -> float:
    """Refusals of that kind."""
    return refused((await fetch(metrics(url))).text, reason)


async def test_a_viewer_gets_the_page_at_once_and_each_change_after_that() -> None:
    """The same markup as the page has."""
    node = a_node()
    async with face_of(node) as url, viewing(url) as viewer:
        assert viewer.status == 200
        assert viewer.response.headers["Content-Type"] == "text/event-stream; charset=utf-8"
        assert viewer.response.headers["Cache-Control"] == "no-store"
        first = await viewer.message("board")
        assert "<b>streaming</b>" in first.data
        assert first.data in re.sub(r"\d+ s ago", "0 s ago", (await fetch(url)).text)
        node.stream, node.stream_note = StreamState.BACKOFF, "the runtime\rleft\u2028us"
        second = (await viewer.message("board")).data
        assert "<b>backoff</b><small>the runtime\nleft\nus</small>" in second


async def test_a_beat_tells_the_time_of_the_node_before_each_page() -> None:
    """Ages are counted by the clock of the node, whatever the viewer's says."""
    async with face_of(a_node()) as url, viewing(url) as viewer:
        assert abs(float((await viewer.message("beat")).data) - time.time()) < 15.0


async def test_where_nothing_changes_only_beats_come(monkeypatch: pytest.MonkeyPatch) -> None:
    """Often enough to know that the page is live, and without a page."""
    monkeypatch.setattr(live, "_BEAT", 0.01)
    monkeypatch.setattr(live, "EVERY", 0.02)
    async with face_of(a_node()) as url, viewing(url) as viewer:
        page = len((await viewer.message("board")).data)
        began = viewer.response.content.total_bytes
        for _ in range(5):
            await viewer.message("beat")
        # A slot of the timeline may have ended.
        assert viewer.response.content.total_bytes - began < 2 * page


class Looks:
    """Counts how often a page looks at its node, and how often it is made anew."""

    def __init__(self, monkeypatch: pytest.MonkeyPatch) -> None:
        self.looks = self.made = 0
        look, make = status_of, Board._make

        def looking(*arguments: Any) -> Status:  # noqa: ANN401 -- handed on
            self.looks += 1
            return look(*arguments)

        def making(made: Board, view: View, now: float, number: int) -> None:
            self.made += 1
            make(made, view, now, number)

        monkeypatch.setattr("exporter.web.app.status_of", looking)
        monkeypatch.setattr(Board, "_make", making)


async def test_many_viewers_cost_what_one_costs(
    monkeypatch: pytest.MonkeyPatch, second: float
) -> None:
    """At most one look and one rendering a second for all of them, and all who load the page."""
    looks, node = Looks(monkeypatch), a_node()
    async with face_of(node) as url, contextlib.AsyncExitStack() as stack:
        viewers = [await stack.enter_async_context(viewing(url)) for _ in range(MOST)]
        began = time.monotonic()
        for number in range(3):
            node.stream_note = f"note {number}"
            for viewer in viewers:
                await viewer.message("board")
                await fetch(url)
        seconds = (time.monotonic() - began) / second
    assert 3 <= looks.made <= seconds + 2
    assert looks.looks <= seconds + 2


async def test_nobody_looks_nothing_is_made(monkeypatch: pytest.MonkeyPatch, second: float) -> None:
    """Not after the last viewer left, either."""
    looks, node = Looks(monkeypatch), a_node()
    async with face_of(node) as url:
        async with viewing(url) as viewer:
            await viewer.message("board")
        await until(lambda: has_room(url, MOST), "the viewer is gone")
        made = looks.looks
        node.stream_note = "changed"
        # Whatever would look is due before this in the same loop, however busy the machine is.
        await asyncio.sleep(5 * second)
        assert looks.looks == made


async def test_one_viewer_too_many_is_told_so() -> None:
    """The page says that it is not live, comes without scripts, and loads itself again."""
    async with face_of(a_node()) as url, contextlib.AsyncExitStack() as stack:
        for _ in range(MOST):
            viewer = await stack.enter_async_context(viewing(url))
            await viewer.message("board")
        async with viewing(url) as late:
            assert late.status == 503
            assert await late.response.text() == (
                "4 pages are live already: reload, or look again later\n"
            )
        assert await counted(url, "busy") == 1
        page = (await fetch(url)).text
        assert "Not live: 4 pages are live already." in page
        assert '<meta http-equiv="refresh" content="30">' in page
        assert "<script" not in page
        assert "<b>streaming</b>" in page


async def test_whoever_leaves_makes_room() -> None:
    """At once, however often a page is loaded again."""
    async with face_of(a_node()) as url:
        for _ in range(3 * MOST):
            async with viewing(url) as viewer:
                assert (viewer.status, (await viewer.message("board")).event) == (200, "board")


async def test_a_viewer_that_does_not_read_is_shown_out(monkeypatch: pytest.MonkeyPatch) -> None:
    """After a moment of patience, with one frame under way, while others go on."""
    monkeypatch.setattr(live, "_PATIENCE", 0.5)
    monkeypatch.setattr(live, "_HELD", 4096)
    node = a_node()
    async with face_of(node) as url, viewing(url) as reader:
        with staring(url):
            seen = 0
            while not await counted(url, "timeout"):
                seen += 1
                node.stream_note = f"{seen} {BROAD * 40}"
                await reader.message("board")
                assert seen < 20
            assert (await fetch(url)).status == 200
        node.stream_note = "afterwards"
        assert "afterwards" in (await reader.message("board")).data


async def test_what_waits_for_a_viewer_is_bounded(monkeypatch: pytest.MonkeyPatch) -> None:
    """However large a frame is, and however many change meanwhile: one at a time."""
    waiting: list[int] = []
    under_way = live._is_under_way  # noqa: SLF001 -- watched, not changed

    def watched(request: web.Request) -> bool:
        assert isinstance(request.transport, asyncio.WriteTransport)
        waiting.append(request.transport.get_write_buffer_size())
        return under_way(request)

    monkeypatch.setattr(live, "_is_under_way", watched)
    monkeypatch.setattr(live, "EVERY", 0.02)
    monkeypatch.setattr(board, "EVERY", 0.02)
    monkeypatch.setattr(live, "_PATIENCE", 0.3)
    node = a_node()
    async with face_of(node) as url:
        with staring(url):
            seen = 0

            async def gone() -> bool:
                nonlocal seen
                seen += 1
                node.stream_note = f"{seen} {BROAD * 40}"
                return await counted(url, "timeout") == 1

            await until(gone, "it was shown out")
        frame = len((await fetch(url)).text)
    # Never a second one behind the first.
    assert 0 < max(waiting) <= frame


async def test_a_viewer_is_no_idle_connection(monkeypatch: pytest.MonkeyPatch) -> None:
    """It asks for nothing more, and stays for as long as it takes what it gets."""
    # Ten beats are due before it would be idle: this process is not kept from the CPU so long.
    idle = 1.0
    monkeypatch.setattr("exporter.web.connections._IDLE", idle)
    monkeypatch.setattr("exporter.web.connections._HANDSHAKE", idle / 2)
    monkeypatch.setattr("exporter.web.connections._FIRST_REQUEST", idle / 2)
    monkeypatch.setattr(live, "_BEAT", 0.1)
    monkeypatch.setattr(live, "EVERY", 0.05)
    async with face_of(a_node()) as url, viewing(url) as viewer:
        began = time.monotonic()
        while time.monotonic() < began + 2 * idle:
            await viewer.message("beat")


async def test_head_tells_what_there_is_and_holds_no_place() -> None:
    """What load balancers ask."""
    async with face_of(a_node()) as url:
        for _ in range(2 * MOST):
            answer = await fetch(f"{url}events", "HEAD")
            assert answer.status == 200
            assert answer.headers["Content-Type"] == "text/event-stream; charset=utf-8"
        assert await has_room(url, MOST)


@pytest.mark.parametrize("path", ["", "events", "static/page.css", "static/page.js"])
async def test_access_control_holds_for_all_of_the_page(papers: Papers, path: str) -> None:
    """No name, no page: not its parts, either."""
    async with papers.served(users(ops="secret")) as url:
        assert (await knock(url + path)).status == 401
        if path != "events":
            assert (await knock(url + path, login=("ops", "secret"))).status == 200


async def test_the_page_is_live_over_tls(papers: Papers) -> None:
    """Whose transport is another one."""
    node = a_node()
    async with papers.served(TLS, node) as url, viewing(url, papers.client()) as viewer:
        await viewer.message("board")
        for number in range(2):
            node.stream_note = f"note {number}"
            assert f"note {number}" in (await viewer.message("board")).data


@pytest.mark.usefixtures("_attentive")
async def test_a_viewer_is_sent_away_when_access_changes(papers: Papers) -> None:
    """Who may come in comes again."""
    async with papers.served("") as url, viewing(url) as viewer:
        await viewer.message("board")
        papers.write(users(ops="secret"))
        assert await viewer.ended() == "torn"
        assert (await knock(f"{url}events")).status == 401


async def test_it_ends_in_time_while_somebody_looks() -> None:
    """SIGTERM, two who read, one who does not."""
    async with simulated() as runtime:
        flags = (f"--runtime-endpoint={runtime.endpoint}", "--log.format=json")
        began = time.monotonic()
        async with running("serve", ANYWHERE, *flags) as process:
            url = str((await process.logged("serving"))["url"])
            starting = time.monotonic() - began
            async with viewing(url) as one, viewing(url) as other:
                with staring(url):
                    await one.message("board")
                    await other.message("board")
                    began = time.monotonic()
                    outcome = await process.stop()
                    took = time.monotonic() - began
                assert [await each.ended() for each in (one, other)] == ["cleanly"] * 2
    assert (outcome.code, "Traceback" in outcome.err) == (0, False)
    # The start is mere work: it says how slow the machine is.
    assert took < max(ENDS_WITHIN, starting)
