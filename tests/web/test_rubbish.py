"""Requests that nobody in their right mind sends: an HTTP error or silence, and life goes on."""

from __future__ import annotations

import asyncio
import logging
import re

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from exporter.node.state import Node
from tests.support.floods import says
from tests.support.secured import Papers, knock, metrics, refused
from tests.support.waiting import until
from tests.support.web_pages import face_of

LINES = st.binary(max_size=60).map(lambda raw: raw.replace(b"\n", b"").replace(b"\r", b""))
METHODS = (
    st.sampled_from([b"GET", b"HEAD", b"POST", b"CONNECT", b"OPTIONS", b"get", b"PRI"]) | LINES
)
PATHS = LINES | st.sampled_from(
    [
        *(b"/", b"/metrics", b"/livez", b"//", b"/%00", b"/%ff", b"/..%2f..%2fetc/passwd", b"*"),
        *(b"http://elsewhere/metrics", b"/metrics?name[]=%00", b"/metrics?" + b"a" * 5000, b"[::"),
    ]
)
NAMES = st.sampled_from(
    [
        *(b"Host", b"Content-Length", b"Transfer-Encoding", b"Expect", b"Upgrade", b"Connection"),
        *(b"Authorization", b"Accept", b"Accept-Encoding", b"Range", b"X-Forwarded-For", b"Cookie"),
    ]
)
VALUES = LINES | st.sampled_from(
    [b"chunked", b"100-continue", b"websocket", b"upgrade", b"-1", b"99999999999", b"Basic Og=="]
)
HEADERS = st.lists(st.tuples(NAMES | LINES, VALUES), max_size=6)


def request(method: bytes, path: bytes, headers: list[tuple[bytes, bytes]]) -> bytes:
    """These as one request."""
    lines = [method + b" " + path + b" HTTP/1.1", *(b": ".join(each) for each in headers)]
    return b"\r\n".join([*lines, b"Connection: close", b"", b""])


async def answered(sent: bytes) -> tuple[bytes, int]:
    """What a fresh face says to that, and to a probe afterwards."""
    async with face_of(Node()) as url:
        try:
            async with asyncio.timeout(0.3):
                said = await says(url, sent)
        except TimeoutError:
            said = b""  # it waits for the rest, and is shown out in time
        return said, (await knock(url + "livez")).status


@settings(deadline=None, max_examples=150)
@given(method=METHODS, path=PATHS, headers=HEADERS)
def test_no_request_is_an_accident(
    method: bytes, path: bytes, headers: list[tuple[bytes, bytes]]
) -> None:
    """Whatever method, path, Host and headers say: an answer below 500, and nobody else is hurt."""
    said, alive = asyncio.run(answered(request(method, path, headers)))
    assert alive == 200
    # Even HTTP/0.9, where a request looks like it.
    assert not said or said.startswith(b"HTTP/")
    assert not said or int(said[9:12]) < 500 or b"no relist" in said
    assert b"aiohttp" not in said.lower()
    assert b"python/" not in said.lower()


@settings(deadline=None, max_examples=100)
@given(sent=st.binary(min_size=1, max_size=300))
def test_no_bytes_are_an_accident(sent: bytes) -> None:
    """TLS where none is, other protocols, noise."""
    said, alive = asyncio.run(answered(sent + b"\r\n\r\n"))
    assert alive == 200
    assert not said or re.match(rb"HTTP/[01]\.[019] 4", said)


async def test_rubbish_is_counted_and_not_logged(
    papers: Papers, caplog: pytest.LogCaptureFixture
) -> None:
    """It comes without end; a traceback for each would fill a disk."""
    caplog.set_level(logging.INFO)
    async with papers.served("") as url:
        for _ in range(3):
            assert (await says(url, b"\x16\x03\x01 hello\r\n\r\n")).startswith(b"HTTP/1.0 400")
        text = (await knock(metrics(url))).text
    assert refused(text, "malformed") == 3
    assert not [each for each in caplog.records if each.name.startswith("aiohttp")]


@pytest.mark.parametrize(
    ("sent", "status"),
    [
        (b"GET /" + b"x" * 4096 + b" HTTP/1.1\r\n\r\n", 400),
        (b"GET / HTTP/1.1\r\nX: " + b"x" * 8191 + b"\r\n\r\n", 400),
        (b"GET / HTTP/1.1\r\n" + b"X: y\r\n" * 65 + b"\r\n", 400),
        (b"GET / HTTP/1.1\r\n" + b"X: yyyyyyyyy\r\n" * 1300, 0),
        (b"POST / HTTP/1.1\r\nContent-Length: 99999\r\n\r\n" + b"x" * 20000, 0),
    ],
    ids=["line", "header", "headers", "endless", "body"],
)
async def test_large_requests_are_refused(papers: Papers, sent: bytes, status: int) -> None:
    """Nobody needs more than a few hundred bytes to ask for a page."""
    async with papers.served("") as url:
        async with asyncio.timeout(5):
            said = await says(url, sent)
        text = (await knock(metrics(url))).text
    assert not said or int(said.split()[1]) in {status, 400, 405}
    assert not status or said
    assert refused(text, "malformed") == 1


@pytest.mark.parametrize("host", [b"evil.example", b"<script>", b"127.0.0.1:1", b"", b"x\xff"])
async def test_the_host_header_changes_nothing(papers: Papers, host: bytes) -> None:
    """No page repeats it, links to it, or redirects there."""
    asked = b"GET / HTTP/1.1\r\nHost: " + host + b"\r\nConnection: close\r\n\r\n"
    async with papers.served("") as url:

        async def alike() -> bool:
            plain = (await knock(url)).text
            head, _, body = (await says(url, asked)).partition(b"\r\n\r\n")
            assert head.startswith((b"HTTP/1.1 200", b"HTTP/1.1 400", b"HTTP/1.0 400"))
            assert b"Location" not in head
            return b" 200 " not in head.splitlines()[0] or body.decode() == plain

        # The page has a clock: two of the same second are the same.
        await until(alike, "the same page, whoever it is asked of")
