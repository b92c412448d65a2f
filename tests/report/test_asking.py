"""What can go wrong between us and a Prometheus: one line for each, and exit 1."""

from __future__ import annotations

import asyncio
import json
import socket
from collections.abc import Awaitable, Callable
from pathlib import Path

import pytest
from aiohttp import web

from tests.report.conftest import Outcome, processed, reported
from tests.support.report_prometheus import served

Handler = Callable[[web.Request], Awaitable[web.StreamResponse]]


def answering(text: str, status: int = 200) -> Handler:
    """A server that says the same to everything."""

    async def handler(_request: web.Request) -> web.Response:
        return web.Response(text=text, status=status)

    return handler


async def asked(handler: Handler, *flags: str) -> Outcome:
    """A report from that server."""
    application = web.Application()
    application.router.add_route("*", "/{anything:.*}", handler)
    async with served(application) as url:
        return await reported(url, *flags)


def complaint(outcome: Outcome, code: int = 1) -> str:
    """The one line."""
    assert (outcome.code, outcome.out, outcome.err.count("\n")) == (code, "", 1)
    return outcome.err.removeprefix("shadow-pleg: ").strip()


async def test_nobody_there_is_said_with_the_address() -> None:
    """A port that nobody listens on."""
    with socket.socket() as free:
        free.bind(("127.0.0.1", 0))
        said = complaint(await processed(f"http://127.0.0.1:{free.getsockname()[1]}"))
    assert said.startswith("http://127.0.0.1:")
    assert " cannot be reached: " in said


async def test_a_password_is_in_no_message() -> None:
    """The URL is shown, the secret in it is not."""
    outcome = await reported("http://user:sesame@127.0.0.1:1")
    assert "sesame" not in complaint(outcome)


@pytest.mark.parametrize("status", [401, 403])
async def test_a_closed_door_is_said_with_the_flag_that_opens_it(status: int) -> None:
    """What a proxy in front of Prometheus says in its page is not repeated."""
    said = complaint(await asked(answering("<html>login", status)))
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
async def test_what_is_no_prometheus_is_said(text: str) -> None:
    """Whatever it answers instead."""
    assert "does not answer as a Prometheus does (HTTP 200): see" in complaint(
        await asked(answering(text))
    )


async def test_an_error_of_prometheus_is_one_line() -> None:
    """Its own words, as far as they are of use."""
    text = json.dumps({"status": "error", "error": "too many\nsamples" + " x" * 1000})
    said = complaint(await asked(answering(text, 422)))
    assert "refuses a query (422): too many samples x" in said
    assert len(said) < 500


async def test_a_prometheus_without_us_is_no_data() -> None:
    """An empty answer to the first question ends it."""
    empty = '{"status":"success","data":{"resultType":"vector","result":[]}}'
    said = complaint(await asked(answering(empty)))
    assert "has no shadow_pleg_build_info" in said


async def test_a_slow_one_is_not_waited_for() -> None:
    """Longer than --query-timeout."""
    over = asyncio.Event()

    async def handler(_request: web.Request) -> web.Response:
        await over.wait()
        return web.Response()

    application = web.Application()
    application.router.add_post("/api/v1/query", handler)
    async with served(application) as url:
        said = complaint(await reported(url, "--query-timeout=200ms"))
        over.set()
    assert said.endswith("did not answer within 0.2 s: raise --query-timeout, or shorten --window")


async def test_an_endless_answer_is_not_read_to_its_end() -> None:
    """More than 16 MiB is no answer to a question about a fleet."""

    async def handler(request: web.Request) -> web.StreamResponse:
        response = web.StreamResponse()
        await response.prepare(request)
        try:
            while True:
                await response.write(b" " * 65536)
        except ConnectionError:
            return response

    said = complaint(await asked(handler))
    assert "answers with more than 16 MiB: choose fewer nodes with --selector" in said


async def test_the_token_is_sent(tmp_path: Path) -> None:
    """From the file, read when it is needed, without its line break."""
    seen: list[str] = []

    async def handler(request: web.Request) -> web.Response:
        seen.append(request.headers.get("Authorization", ""))
        return web.Response(status=401)

    token = tmp_path / "token"
    token.write_text("open-sesame\n")
    await asked(handler, f"--prometheus-token-file={token}")
    assert seen == ["Bearer open-sesame"]


async def test_a_password_of_the_url_is_sent() -> None:
    """As basic authentication, unquoted."""
    seen: list[str] = []

    async def handler(request: web.Request) -> web.Response:
        seen.append(request.headers.get("Authorization", ""))
        return web.Response(status=403)

    application = web.Application()
    application.router.add_post("/api/v1/query", handler)
    async with served(application) as url:
        await reported(url.replace("//", "//user:pass%40word@"))
    assert seen == ["Basic dXNlcjpwYXNzQHdvcmQ="]


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
    complained = complaint(await reported("https://127.0.0.1:1", f"{flag}={path}"), code=2)
    assert complained.startswith(f"{flag}: ")
    assert said in complained
