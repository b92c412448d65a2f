"""Requests that no client of ours sends: odd, forged, or none at all."""

import asyncio
import logging
import re
from collections.abc import Iterator

import pytest
from hypothesis import given
from hypothesis import strategies as st
from prometheus_client import CollectorRegistry, Metric
from prometheus_client.registry import Collector

from tests.support import web
from tests.support.commands import fetch
from tests.support.fixtures import examples
from tests.support.stage import Stage
from tests.support.web import pages_of

LINES = st.binary(max_size=60).map(lambda raw: raw.replace(b"\n", b"").replace(b"\r", b""))
METHODS = LINES | st.sampled_from(b"GET HEAD POST CONNECT OPTIONS get PRI".split())
PATHS = LINES | st.sampled_from(
    [
        *b"/ /metrics /livez // /%00 /%ff /..%2f..%2fetc/passwd * [:: http://elsewhere/m".split(),
        b"/metrics?" + b"a" * 5000,
    ]
)
NAMES = LINES | st.sampled_from(
    b"Host Content-Length Transfer-Encoding Expect Upgrade Connection Authorization Accept"
    b" Accept-Encoding Range Cookie".split()
)
VALUES = LINES | st.sampled_from(b"chunked 100-continue websocket upgrade -1 99999999999".split())
HEADERS = st.lists(st.tuples(NAMES, VALUES).map(b": ".join), max_size=6)
REQUESTS = st.builds(
    lambda method, path, headers: b"\r\n".join(
        [method + b" " + path + b" HTTP/1.1", *headers, b"Connection: close", b"", b""]
    ),
    *(METHODS, PATHS, HEADERS),
)
NOISE = st.binary(min_size=1, max_size=300).map(lambda raw: raw + b"\r\n\r\n")


@examples(1)
@given(sent=REQUESTS | NOISE)
def test_no_request_harms(sent: bytes) -> None:
    """Odd methods, paths and headers, TLS, noise: an answer below 500, and others are served."""

    async def answered() -> tuple[bytes, int]:
        async with pages_of() as url:
            try:
                async with asyncio.timeout(0.3):
                    said = await web.says(url, sent)
            except TimeoutError:
                said = b""  # it waits for the rest, until the connection's time is over
            return said, (await fetch(url + "livez")).status

    said, alive = asyncio.run(answered())
    assert alive == 200
    # Even HTTP/0.9, if a request looks like it.
    assert not said or re.match(rb"HTTP/[01]\.[019] [1-4]", said) or b"no relist" in said


@pytest.mark.parametrize(
    ("sent", "status"),
    [
        (b"\x16\x03\x01 hello\r\n\r\n", 400),
        (b"GET /" + b"x" * 4096 + b" HTTP/1.1\r\n\r\n", 400),
        (b"GET / HTTP/1.1\r\nX: " + b"x" * 8191 + b"\r\n\r\n", 400),
        (b"GET / HTTP/1.1\r\n" + b"X: y\r\n" * 65 + b"\r\n", 400),
        (b"GET / HTTP/1.1\r\n" + b"X: yyyyyyyyy\r\n" * 1300, 400),
        (b"POST / HTTP/1.1\r\nHost: x\r\nContent-Length: 99999\r\n\r\n" + b"x" * 20000, 405),
    ],
    ids=["rubbish", "line", "header", "headers", "endless", "body"],
)
async def test_rubbish_and_large_requests_are_refused_and_not_logged(
    caplog: pytest.LogCaptureFixture, sent: bytes, status: int
) -> None:
    """A request for a page has a few hundred bytes; a traceback for each would fill a disk."""
    caplog.set_level(logging.INFO)
    async with pages_of() as url:
        async with asyncio.timeout(5):
            said = await web.says(url, sent)
    assert not said or int(said.split()[1]) == status
    assert not said or b"\r\nServer: shadow-pleg\r\n" in said
    assert not said or b"\r\nX-Content-Type-Options: nosniff\r\n" in said
    assert not re.search(rb"aiohttp|Python/|xxx|hello", said)
    assert not [each for each in caplog.records if each.name.startswith("aiohttp")]


class Failing(Collector):
    """A mistake of ours."""

    def collect(self) -> Iterator[Metric]:
        raise RuntimeError("secret")


async def test_a_page_that_fails_is_logged_and_tells_nothing(
    caplog: pytest.LogCaptureFixture,
) -> None:
    stage = Stage()
    stage.registry = CollectorRegistry()
    stage.registry.register(Failing())
    async with pages_of(stage) as url:
        answer = await fetch(url + "metrics")
    assert answer.status == 500
    assert answer.headers["Server"] == "shadow-pleg"
    assert "secret" not in answer.text
    assert [each.levelname for each in caplog.records if each.name == "aiohttp.server"] == ["ERROR"]


GET = b"GET /livez HTTP/1.1\r\nHost: localhost\r\n"
POST = GET.replace(b"GET", b"POST")
LAST = b"GET /metrics HTTP/1.1\r\nHost: localhost\r\nConnection: close\r\n\r\n"


@pytest.mark.parametrize(
    "sent",
    [
        POST + b"Content-Length: 4\r\nTransfer-Encoding: chunked\r\n\r\n0\r\n\r\n",
        POST + b"Transfer-Encoding: xchunked\r\n\r\n0\r\n\r\n",
        POST + b"Transfer-Encoding: chunked\r\nTransfer-Encoding: identity\r\n\r\n0\r\n\r\n",
        POST + b"Transfer-Encoding: chunked\r\n\r\n-1\r\n\r\n",
        POST + b"Content-Length: 0\r\nContent-Length: 5\r\n\r\n",
        POST + b"Content-Length: +5\r\n\r\nhello",
        POST + b"Content-Length : 5\r\n\r\nhello",
        GET + b"Host: localhost\r\n\r\n",
        GET + b"X: y\r\n z\r\n\r\n",
        GET + b"X: \0\r\n\r\n",
        GET.replace(b"\r", b"") + b"\n",
        b"PRI * HTTP/2.0\r\n\r\nSM\r\n\r\n",
    ],
)
async def test_a_request_that_others_would_end_elsewhere_is_refused(sent: bytes) -> None:
    """Behind a proxy, what follows it could be taken for a request of another client."""
    async with pages_of() as url:
        said = await web.says(url, sent + LAST)
    assert re.findall(rb"HTTP/1.[01] (\d+)", said) == [b"400"]


@pytest.mark.parametrize("protocol", [b"h2c", b"websocket", b"tcp"])
async def test_no_other_protocol_is_spoken(protocol: bytes) -> None:
    upgrade = GET + b"Connection: Upgrade\r\nUpgrade: " + protocol + b"\r\n\r\n"
    async with pages_of() as url, web.connection(url) as (reader, writer):
        writer.write(upgrade)
        assert (await reader.readuntil(b"ok\n")).startswith(b"HTTP/1.1 200 ")
        writer.write(LAST)
        assert (await reader.read()).startswith(b"HTTP/1.1 200 ")


async def test_requests_that_come_at_once_are_answered_in_order() -> None:
    async with pages_of() as url:
        said = await web.says(url, (GET + b"\r\n") * 299 + LAST)
    assert said.count(b"\r\n\r\nok\n") == 299
    assert b"\nprocess_start_time_seconds" in said.rpartition(b"\r\n\r\n")[2]


@pytest.mark.parametrize(
    "path",
    [
        *("/static/../metrics", "/static/%2e%2e/app.py", "/static/..%2f..%2fserver.py", "/static/"),
        *("/static/page.css/../../app.py", "/static//page.css", "/static/%00", "//etc/passwd"),
        *("/..", "/metrics/", "/metrics;x", "/METRICS", "/debug/../metrics", "/debug", "/livez/x"),
    ],
)
async def test_no_path_leads_elsewhere(path: str) -> None:
    async with pages_of() as url:
        said = await web.says(url, LAST.replace(b"/metrics", path.encode()))
    assert said.startswith(b"HTTP/1.1 404 ")


@pytest.mark.parametrize(
    "header",
    [
        *("Range: bytes=0-1", "If-None-Match: *", "If-Match: x"),
        "If-Modified-Since: Fri, 01 Jan 2100 00:00:00 GMT",
        *("X-HTTP-Method-Override: DELETE", "X-Original-URL: /debug/misses"),
        *("Origin: https://elsewhere.example", "Access-Control-Request-Method: GET"),
        *("X-Forwarded-For: 127.0.0.1", "X-Forwarded-Host: elsewhere", "Forwarded: for=127.0.0.1"),
    ],
)
async def test_what_a_header_claims_changes_nothing(header: str) -> None:
    """No page of another site may read an answer; no part of one is sent."""
    asked = LAST.replace(b"/metrics", b"/static/page.css")
    async with pages_of() as url:
        plain = await web.says(url, asked)
        answer = await web.says(url, asked.replace(b"\r\n\r\n", f"\r\n{header}\r\n\r\n".encode()))
    assert plain.startswith(b"HTTP/1.1 200 ")
    date = rb"(?m)^Date: .*"
    assert re.sub(date, b"", answer) == re.sub(date, b"", plain)
