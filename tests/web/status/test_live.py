"""The live page: what a viewer gets and when, and what it may cost the node."""

import asyncio
import contextlib
import itertools
import re
import time
from collections import Counter
from dataclasses import replace
from typing import Any

import pytest

from exporter.node.history import History
from exporter.node.state import Node, StreamState
from exporter.web.connections import Connection
from exporter.web.status.page import MOST_VIEWERS, event_of
from exporter.web.status.timeline import timeline_of
from exporter.web.status.view import Status, status_of
from tests.support.commands import ANYWHERE, fetch, running
from tests.support.runtimes import simulated
from tests.support.secured import ALICE, TLS, WebFiles, users
from tests.support.web_clients import (
    flooded,
    has_room,
    refusals,
    staring,
    trickle,
    viewing,
)
from tests.support.web_pages import pages_in_virtual_time, streaming_node

STOPS_WITHIN_SECONDS = 2.0
LARGE = "x" * 40_000


@pytest.mark.virtual_time
async def test_a_viewer_gets_the_page_at_once_and_each_change_within_a_second() -> None:
    """The same markup as the page has, after the node's time."""
    node = streaming_node()
    async with pages_in_virtual_time(node) as url, viewing(url) as viewer:
        assert viewer.response.headers["Content-Type"] == "text/event-stream; charset=utf-8"
        assert viewer.response.headers["Cache-Control"] == "no-store"
        assert float(await viewer.message("beat")) == pytest.approx(time.time(), abs=0.1)
        first = await viewer.message("board")
        assert "<b>streaming</b>" in first
        assert first in re.sub(r"\d+ s ago", "0 s ago", (await fetch(url)).text)
        node.stream, node.stream_note = StreamState.BACKOFF, "the runtime\rleft\u2028us"
        began = time.monotonic()
        second = await viewer.message("board")
        assert "<b>backoff</b><small>the runtime\nleft\nus</small>" in second
        assert time.monotonic() - began <= 1.1


@pytest.mark.virtual_time
async def test_only_beats_come_while_nothing_changes(monkeypatch: pytest.MonkeyPatch) -> None:
    """Every ten seconds, without a page: the browser takes 25 s of silence for the end."""
    # It changes every ten seconds by itself.
    timeline = timeline_of(History(Node()), time.monotonic(), time.time())
    monkeypatch.setattr("exporter.web.app.timeline_of", lambda *_: timeline)
    node = replace(streaming_node(), relist_period=600.0)
    async with pages_in_virtual_time(node) as url, viewing(url) as viewer:
        await viewer.message("board")
        before = viewer.response.content.total_bytes
        beats = [float(await viewer.message("beat")) for _ in range(4)]
        assert viewer.response.content.total_bytes - before < 200
        assert [round(b - a) for a, b in itertools.pairwise(beats)] == [10, 10, 10]


@pytest.mark.virtual_time
async def test_many_viewers_cost_what_one_costs(monkeypatch: pytest.MonkeyPatch) -> None:
    """At most one look and one rendering a second, also for all who load the page."""
    counts: Counter[str] = Counter()

    def looking(*arguments: Any) -> Status:  # noqa: ANN401 - handed on
        counts["looks"] += 1
        return status_of(*arguments)

    def making(name: str, text: str) -> bytes:
        counts["made"] += 1
        return event_of(name, text)

    monkeypatch.setattr("exporter.web.app.status_of", looking)
    monkeypatch.setattr("exporter.web.status.page.event_of", making)
    node = streaming_node()
    async with pages_in_virtual_time(node) as url:
        async with contextlib.AsyncExitStack() as stack:
            viewers = [await stack.enter_async_context(viewing(url)) for _ in range(MOST_VIEWERS)]
            began = time.monotonic()
            for number in range(5):
                node.stream_note = f"note {number}"
                for viewer in viewers:
                    await viewer.message("board")
                    await fetch(url)
            seconds = time.monotonic() - began
        assert 5 <= counts["made"] <= seconds + 2
        assert counts["looks"] <= seconds + 2
        # Nothing is looked at while there are no viewers.
        await asyncio.sleep(5)
        counts.clear()
        node.stream_note = "changed"
        await asyncio.sleep(60)
        assert not counts


@pytest.mark.virtual_time
async def test_one_viewer_too_many_is_refused_until_another_leaves() -> None:
    """The page says that it is not live, comes without scripts, and loads itself again."""
    async with pages_in_virtual_time(streaming_node()) as url:
        async with contextlib.AsyncExitStack() as stack:
            for _ in range(MOST_VIEWERS):
                await (await stack.enter_async_context(viewing(url))).message("board")
            late = await fetch(f"{url}events")
            assert late.status == 503
            assert late.text == "4 pages are live already: reload, or look again later\n"
            assert (await refusals(url))["busy"] == 1
            page = (await fetch(url)).text
            assert "Not live: 4 pages are live already." in page
            assert '<meta http-equiv="refresh" content="30">' in page
            assert "<script" not in page
            assert "<b>streaming</b>" in page
        for _ in range(3):
            assert await has_room(url, MOST_VIEWERS)
        assert "<script" in (await fetch(url)).text


@pytest.mark.virtual_time
@pytest.mark.parametrize("size", [100, 40_000])
async def test_a_viewer_that_does_not_read_is_disconnected(size: int) -> None:
    """Within seconds of the first frame that finds no room; others go on."""
    node = streaming_node()
    async with pages_in_virtual_time(node) as url, viewing(url) as reader:
        with staring(url):
            began, number = time.monotonic(), 0
            while not (await refusals(url))["timeout"]:
                number += 1
                node.stream_note = f"{number} {LARGE[:size]}"
                await reader.message("board")
            # Small frames fill the kernel's buffers first.
            assert time.monotonic() - began < (10 if size > 10_000 else 60)
        node.stream_note = "afterwards"
        assert "afterwards" in await reader.message("board")


@pytest.mark.virtual_time
async def test_one_frame_at_most_waits_for_a_viewer(monkeypatch: pytest.MonkeyPatch) -> None:
    """However many change meanwhile."""
    node, connections = streaming_node(), set[Connection]()
    made = Connection.connection_made

    def noted(connection: Connection, transport: asyncio.BaseTransport) -> None:
        connections.add(connection)
        made(connection, transport)

    monkeypatch.setattr(Connection, "connection_made", noted)
    async with pages_in_virtual_time(node) as url, viewing(url) as reader:
        with staring(url):
            waiting, frame = 0, 0
            while not (await refusals(url))["timeout"]:
                node.stream_note = f"{time.monotonic()} {LARGE}"
                frame = max(frame, len(await reader.message("board")))
                for each in connections:
                    if isinstance(each.transport, asyncio.WriteTransport):
                        waiting = max(waiting, each.transport.get_write_buffer_size())
        assert 0 < waiting < 1.5 * frame


@pytest.mark.virtual_time
async def test_a_viewer_is_no_idle_connection() -> None:
    """It asks for nothing more, and stays for as long as it reads."""
    async with pages_in_virtual_time(streaming_node()) as url, viewing(url) as viewer:
        began = time.monotonic()
        while time.monotonic() < began + 600:
            await viewer.message("beat")


@pytest.mark.virtual_time
async def test_head_describes_the_stream_and_holds_no_place() -> None:
    """As load balancers ask."""
    async with pages_in_virtual_time(streaming_node()) as url:
        for _ in range(2 * MOST_VIEWERS):
            answer = await fetch(f"{url}events", "HEAD")
            assert answer.status == 200
            assert answer.headers["Content-Type"] == "text/event-stream; charset=utf-8"
        assert await has_room(url, MOST_VIEWERS)


async def test_the_page_is_live_over_tls_until_access_changes(web_files: WebFiles) -> None:
    """A viewer has to come again when the configuration changes, and is then asked for a login."""
    node, tls = streaming_node(), web_files.client()
    async with web_files.served(TLS, node) as url, viewing(url, tls) as viewer:
        await viewer.message("board")
        for number in range(2):
            node.stream_note = f"note {number}"
            assert f"note {number}" in await viewer.message("board")
        web_files.write(TLS + users(ALICE))
        assert await viewer.ended() == "torn"
        assert (await fetch(f"{url}events", tls=tls)).status == 401


async def test_sigterm_ends_it_while_many_are_connected() -> None:
    """A flood of slow requests, two viewers that read, and one that does not."""
    async with simulated() as runtime:
        flags = (f"--runtime-endpoint={runtime.endpoint}", "--log.format=json")
        began = time.monotonic()
        async with running("serve", ANYWHERE, *flags) as process:
            url = str((await process.logged("serving"))["url"])
            starting = time.monotonic() - began
            await process.logged("subscribed to the event stream")
            async with flooded(trickle, url, 100), viewing(url) as one, viewing(url) as other:
                with staring(url):
                    await one.message("board")
                    await other.message("board")
                    began = time.monotonic()
                    outcome = await process.stop()
                    took = time.monotonic() - began
                assert [await each.ended() for each in (one, other)] == ["cleanly"] * 2
    assert (outcome.code, "Traceback" in outcome.err) == (0, False)
    # The start is mere work: it says how slow the machine is.
    assert took < max(STOPS_WITHIN_SECONDS, starting)
