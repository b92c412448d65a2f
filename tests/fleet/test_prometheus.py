"""What can go wrong between the report and Prometheus: one line for each, and exit 1."""

import json
from pathlib import Path

import pytest
from aiohttp import web

from testbed.servers import free_port
from tests.fleet.conftest import prometheus, reported
from tests.support import kubelets as server
from tests.support.kubelets import Answer

pytestmark = pytest.mark.quick
ANSWER = '{"status":"success","data":{"resultType":"%s","result":[%s]}}'


async def asked(answer: Answer, *flags: str) -> str:
    """The complaint of a report from a server that answers everything so."""
    async with prometheus(answer) as url:
        return (await reported(url, *flags)).complaint()


async def test_a_closed_port_is_named_without_the_urls_password() -> None:
    """The address is shown, and the secret in it is not."""
    port = free_port()
    said = (await reported(f"http://user:sesame@127.0.0.1:{port}")).complaint()
    assert said == f"http://127.0.0.1:{port}: no answer: Connection refused"


NOT_PROMETHEUS = "does not answer like Prometheus (HTTP 200): see"
REFUSED = "rejected the credentials (HTTP {}): give --prometheus-token-file"


@pytest.mark.parametrize(
    ("text", "status", "said"),
    [
        # The page of a proxy in front of Prometheus is not repeated.
        *(("<html>login", status, REFUSED.format(status)) for status in (401, 403)),
        *(
            (text, 200, NOT_PROMETHEUS)
            for text in (
                *("<!doctype html><title>Grafana</title>", "", "[]", "17", "[" * 100_000),
                '{"status":"success"}',
                ANSWER % ("matrix", ""),
                ANSWER % ("vector", "{}"),
                ANSWER % ("vector", '{"metric":{},"value":[0,"x"]}'),
            )
        ),
        # An empty answer to the first question ends it.
        (ANSWER % ("vector", ""), 200, "has no shadow_pleg_build_info"),
        # Prometheus' own words, shortened.
        (
            json.dumps({"status": "error", "error": "too many\nsamples" + " x" * 1000}),
            422,
            "refuses a query (422): too many samples x",
        ),
    ],
    ids=lambda value: str(value)[:30],
)
async def test_an_answer_without_numbers_is_one_line(text: str, status: int, said: str) -> None:
    """The login that is missing, other pages, other JSON, nothing, or an error."""
    complaint = await asked(server.answering(text=text, status=status))
    assert said in complaint
    assert len(complaint) < 500


async def test_a_slow_answer_is_not_awaited() -> None:
    """Longer than --query-timeout."""
    assert (await asked(server.slowly(1), "--query-timeout=200ms")).endswith(
        "no whole answer within 0.2 s: raise --query-timeout, shorten --window, or load the"
        " recording rules (alerts/)"
    )


async def test_an_endless_answer_is_not_read_to_its_end() -> None:
    """It is given up after 16 MiB."""
    said = await asked(server.endless)
    assert "larger than 16 MiB: choose fewer nodes with --selector" in said


@pytest.fixture
def token(tmp_path: Path) -> Path:
    """A file with a token, and a line break."""
    path = tmp_path / "token"
    path.write_text("open-sesame\n")
    return path


async def test_a_token_or_a_password_is_sent(token: Path) -> None:
    """The token from its file, without the line break; the URL's password, unquoted."""
    seen: list[str] = []

    async def answer(request: web.Request) -> web.Response:
        seen.append(request.headers.get("Authorization", ""))
        return web.Response(status=401)

    async with prometheus(answer) as url:
        await reported(url, f"--prometheus-token-file={token}")
        await reported(url.replace("//", "//user:pass%40word@"))
    assert seen == ["Bearer open-sesame", "Basic dXNlcjpwYXNzQHdvcmQ="]


@pytest.mark.parametrize("number", [301, 302, 303, 307, 308])
@pytest.mark.parametrize("way", ["token", "password"])
async def test_a_redirect_is_not_followed(token: Path, way: str, number: int) -> None:
    """Neither a token nor the URL's password reaches the host that it names."""
    arrived: list[str] = []

    async def elsewhere(request: web.Request) -> web.Response:
        arrived.append(str(request.headers))
        return web.Response(text=ANSWER % ("vector", ""))

    async with (
        prometheus(elsewhere) as other,
        prometheus(server.status(number, Location=f"{other}/evil")) as url,
    ):
        if way == "token":
            outcome = await reported(url, f"--prometheus-token-file={token}")
        else:
            outcome = await reported(url.replace("//", "//user:sesame@"))
    assert arrived == []
    assert outcome.complaint() == (
        f"{url} redirects (HTTP {number}), which is not followed: credentials go to this address"
        " only; set --prometheus-url to the final one"
    )


@pytest.mark.parametrize(
    ("flag", "text", "said"),
    [
        ("--prometheus-token-file", None, "No such file"),
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
