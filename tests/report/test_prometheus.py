"""What can go wrong between the report and Prometheus: one line for each, and exit 1."""

from __future__ import annotations

import asyncio
import json
from collections.abc import Awaitable, Callable
from contextlib import AbstractAsyncContextManager
from pathlib import Path

import pytest
from aiohttp import web

from tests.report.conftest import Reported, reported
from tests.support.real.servers import free_port, served

pytestmark = pytest.mark.quick
Handler = Callable[[web.Request], Awaitable[web.StreamResponse]]


def answering(text: str, status: int = 200) -> Handler:
    """Answers everything with the same text."""

    async def handler(_request: web.Request) -> web.Response:
        return web.Response(text=text, status=status)

    return handler


def prometheus(handler: Handler) -> AbstractAsyncContextManager[str]:
    """A server that answers everything with this handler."""
    application = web.Application()
    application.router.add_route("*", "/{anything:.*}", handler)
    return served(application)


async def asked(handler: Handler, *flags: str) -> Reported:
    """A report from that server."""
    async with prometheus(handler) as url:
        return await reported(url, *flags)


async def test_a_closed_port_is_named_without_the_urls_password() -> None:
    """The address is shown, and the secret in it is not."""
    port = free_port()
    said = (await reported(f"http://user:sesame@127.0.0.1:{port}")).complaint()
    assert said.startswith(f"http://127.0.0.1:{port} cannot be reached: ")
    assert "sesame" not in said


@pytest.mark.parametrize("status", [401, 403])
async def test_a_refused_login_is_said_with_the_flag_that_helps(status: int) -> None:
    """The page of a proxy in front of Prometheus is not repeated."""
    said = (await asked(answering("<html>login", status))).complaint()
    assert f"does not let us in (HTTP {status}): give --prometheus-token-file" in said


@pytest.mark.parametrize(
    "text",
    [
        "<!doctype html><title>Grafana</title>",
        "",
        "[]",
        "17",
        '{"status":"success"}',
        '{"status":"success","data":{"resultType":"matrix","result":[]}}',
        '{"status":"success","data":{"resultType":"vector","result":[{}]}}',
        '{"status":"success","data":{"resultType":"vector","result":[{"metric":{},"value":[0,"x"]}]}}',
        "[" * 100_000,
    ],
    ids=lambda text: text[:30] or "nothing",
)
async def test_an_answer_that_is_not_prometheus_is_said(text: str) -> None:
    """Other pages, other JSON, or nothing."""
    said = (await asked(answering(text))).complaint()
    assert "does not answer as a Prometheus does (HTTP 200): see" in said


async def test_an_error_of_prometheus_is_one_line() -> None:
    """Its own words, shortened."""
    text = json.dumps({"status": "error", "error": "too many\nsamples" + " x" * 1000})
    said = (await asked(answering(text, 422))).complaint()
    assert "refuses a query (422): too many samples x" in said
    assert len(said) < 500


async def test_a_prometheus_without_the_exporter_is_one_line() -> None:
    """An empty answer to the first question ends it."""
    empty = '{"status":"success","data":{"resultType":"vector","result":[]}}'
    said = (await asked(answering(empty))).complaint()
    assert "has no shadow_pleg_build_info" in said


async def test_a_slow_answer_is_not_awaited() -> None:
    """Longer than --query-timeout."""
    over = asyncio.Event()

    async def handler(_request: web.Request) -> web.Response:
        await over.wait()
        return web.Response()

    async with prometheus(handler) as url:
        said = (await reported(url, "--query-timeout=200ms")).complaint()
        over.set()
    assert said.endswith("did not answer within 0.2 s: raise --query-timeout, or shorten --window")


async def test_an_endless_answer_is_not_read_to_its_end() -> None:
    """It is given up after 16 MiB."""

    async def handler(request: web.Request) -> web.StreamResponse:
        response = web.StreamResponse()
        await response.prepare(request)
        try:
            while True:
                await response.write(b" " * 65536)
        except ConnectionError:
            return response

    said = (await asked(handler)).complaint()
    assert "answers with more than 16 MiB: choose fewer nodes with --selector" in said


async def test_a_token_or_a_password_is_sent(tmp_path: Path) -> None:
    """The token from its file, without the line break; the URL's password, unquoted."""
    seen: list[str] = []

    async def handler(request: web.Request) -> web.Response:
        seen.append(request.headers.get("Authorization", ""))
        return web.Response(status=401)

    token = tmp_path / "token"
    token.write_text("open-sesame\n")
    async with prometheus(handler) as url:
        await reported(url, f"--prometheus-token-file={token}")
        await reported(url.replace("//", "//user:pass%40word@"))
    assert seen == ["Bearer open-sesame", "Basic dXNlcjpwYXNzQHdvcmQ="]


@pytest.mark.parametrize(
    ("flag", "text", "said"),
    [
        ("--prometheus-token-file", None, "cannot be read: "),
        ("--prometheus-token-file", "", "holds no token"),
        ("--prometheus-token-file", "two\nlines", "holds no token"),
        ("--prometheus-ca-file", None, "No such file"),
        ("--prometheus-ca-file", "no certificate", ""),
    ],
)
async def test_a_file_that_cannot_be_used_is_named(
    tmp_path: Path, flag: str, text: str | None, said: str
) -> None:
    """Exit 2, with the flag in front."""
    path = tmp_path / "file"
    if text is not None:
        path.write_text(text)
    complained = (await reported("https://127.0.0.1:1", f"{flag}={path}")).complaint(2)
    assert complained.startswith(f"{flag}: ")
    assert said in complained
