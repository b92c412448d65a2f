"""What can go wrong between the report and Prometheus: one line for each, and exit 1."""

import gzip
import json
import ssl
from pathlib import Path
from typing import Any

import pytest
import trustme
from aiohttp import web
from aiohttp.test_utils import TestServer, unused_port

from tests.support import peers as server
from tests.support.peers import Answer, answered_by
from tests.support.report_fleets import reported

pytestmark = pytest.mark.quick
ANSWER = '{"status":"success","data":{"resultType":"%s","result":[%s]}}'


async def test_a_closed_port_is_named_without_the_urls_password() -> None:
    """The address is shown, and the secret in it is not."""
    port = unused_port()
    said = (await reported(f"http://user:sesame@127.0.0.1:{port}")).complaint()
    assert said.startswith(f"http://127.0.0.1:{port}: no answer: Connect call failed")
    assert "sesame" not in said


NOT_PROMETHEUS = "does not answer like Prometheus (HTTP 200): see"
REFUSED = "rejected the credentials (HTTP {}): give --prometheus-token-file"
SLOW = (
    "no whole answer within 0.2 s: raise --query-timeout, shorten --window, or load the"
    " recording rules (alerts/)"
)
ZIPPED = {"body": gzip.compress(b"{}"), "headers": {"Content-Encoding": "gzip"}}
TOO_MUCH = json.dumps({"status": "error", "error": "too many\nsamples" + " x" * 1000})


@pytest.mark.parametrize(
    ("answer", "said"),
    [
        # The page of a proxy in front of Prometheus is not repeated.
        *(
            (server.answering(text="<html>login", status=status), REFUSED.format(status))
            for status in (401, 403)
        ),
        *(
            (server.answering(text=text), NOT_PROMETHEUS)
            for text in (
                *("<!doctype html><title>Grafana</title>", "", "[]", "17", "[" * 100_000),
                '{"status":"success"}',
                ANSWER % ("matrix", ""),
                ANSWER % ("vector", "{}"),
                ANSWER % ("vector", '{"metric":{},"value":[0,"x"]}'),
            )
        ),
        # An empty answer to the first question ends it.
        (server.answering(text=ANSWER % ("vector", "")), "has no shadow_pleg_build_info"),
        # Prometheus' own words, shortened.
        (server.answering(text=TOO_MUCH, status=422), "refuses a query (422): too many samples x"),
        (server.slowly(1), SLOW),
        (server.answering(**ZIPPED), NOT_PROMETHEUS),
        (server.breaks_off, "no answer: Response payload is not completed"),
        (server.endless, "larger than 16 MiB: choose fewer nodes with --selector"),
    ],
)
async def test_an_answer_without_numbers_is_one_line(answer: Answer, said: str) -> None:
    """The login that is missing, other pages, other JSON, nothing, an error, or no end."""
    async with answered_by(answer) as url:
        flags = ("--query-timeout=200ms",) if said is SLOW else ()
        complaint = (await reported(url, *flags)).complaint()
    assert said in complaint
    assert len(complaint) < 500


async def test_a_part_of_the_fleet_is_not_judged_for_all_of_it() -> None:
    """By default, Thanos returns what it has from the stores that it can reach."""

    async def thanos(request: web.Request) -> web.Response:
        if (await request.post()).get("partial_response") == "false":
            error = {"status": "error", "errorType": "execution", "error": "fetch series: eu-1"}
            return web.json_response(error, status=422)
        return web.Response(text=ANSWER % ("vector", ""))

    async with answered_by(thanos) as url:
        assert "refuses a query (422): fetch series: eu-1" in (await reported(url)).complaint()


@pytest.fixture
def token(tmp_path: Path) -> Path:
    path = tmp_path / "token"
    path.write_text("open-sesame\n")
    return path


def noting(seen: list[str], **response: Any) -> Answer:
    """Answer any request, and keep its credentials."""

    async def answer(request: web.Request) -> web.Response:
        seen.append(request.headers.get("Authorization", ""))
        return web.Response(**response)

    return answer


async def test_a_token_or_a_password_is_sent(token: Path) -> None:
    """The token from its file, without the line break; the URL's password, unquoted."""
    seen: list[str] = []
    async with answered_by(noting(seen, status=401)) as url:
        await reported(url, f"--prometheus-token-file={token}")
        await reported(url.replace("//", "//user:pass%40word@"))
    assert seen == ["Bearer open-sesame", "Basic dXNlcjpwYXNzQHdvcmQ="]


async def test_a_redirect_is_not_followed(token: Path) -> None:
    """Neither a token nor the URL's password reaches the host that it names."""
    arrived: list[str] = []
    async with (
        answered_by(noting(arrived, text=ANSWER % ("vector", ""))) as other,
        answered_by(server.status(307, Location=f"{other}/evil")) as url,
    ):
        with_token = await reported(url, f"--prometheus-token-file={token}")
        with_password = await reported(url.replace("//", "//user:sesame@"))
    assert arrived == []
    assert with_token.complaint() == with_password.complaint()
    assert with_token.complaint() == (
        f"{url} redirects (HTTP 307), which is not followed: credentials go to this address"
        " only; set --prometheus-url to the final one"
    )


@pytest.mark.parametrize("issued", ["127.0.0.1", "localhost", "10.11.12.13"])
async def test_only_the_right_hosts_certificate_gets_the_token(
    issued: str, token: Path, tmp_path: Path
) -> None:
    """Of the authority that is named, or else of one that the system trusts."""
    seen: list[str] = []
    authority, tls = trustme.CA(), ssl.create_default_context(ssl.Purpose.CLIENT_AUTH)
    authority.issue_cert(issued).configure_cert(tls)
    authority.cert_pem.write_to_path(str(ca := tmp_path / "ca.crt"))
    application = web.Application()
    answer = noting(seen, text=ANSWER % ("vector", ""))
    application.router.add_post("/{anything:.*}", answer)
    prometheus_of_tls = TestServer(application)
    await prometheus_of_tls.start_server(ssl=tls)
    url, with_token = (
        f"https://127.0.0.1:{prometheus_of_tls.port}",
        f"--prometheus-token-file={token}",
    )
    unknown = await reported(url, with_token)
    assert ("certificate verify failed" in unknown.complaint(), seen) == (True, [])
    named = await reported(url, with_token, f"--prometheus-ca-file={ca}")
    await prometheus_of_tls.close()
    trusted = issued == "127.0.0.1"
    assert ("certificate verify failed" in named.complaint()) is not trusted
    assert bool(seen) is trusted


async def test_no_proxy_gets_the_token(monkeypatch: pytest.MonkeyPatch, token: Path) -> None:
    """Whatever the environment says."""
    seen: list[str] = []
    proxy = noting(seen, status=401)
    async with answered_by(proxy) as other, answered_by(server.status(401)) as url:
        for name in ("http_proxy", "HTTP_PROXY", "all_proxy"):
            monkeypatch.setenv(name, other)
        said = (await reported(url, f"--prometheus-token-file={token}")).complaint()
    assert (seen, "rejected the credentials" in said) == ([], True)


@pytest.mark.parametrize(
    ("flag", "content", "said"),
    [
        *(
            ("token", text.encode(), "holds no token: one line is expected")
            for text in ("", " \n", "first\nsecond", "tökén")
        ),
        ("token", b"x" * 70_000, "is larger than 64 KiB"),
        *(("ca", content, "holds no certificate in PEM") for content in (b"", b"no", b"\xff\xfe")),
    ],
)
async def test_a_file_that_cannot_be_used_is_named_and_not_shown(
    flag: str, content: bytes, said: str, tmp_path: Path
) -> None:
    """One line, before anything is asked."""
    (path := tmp_path / "file").write_bytes(content)
    found = await reported("https://127.0.0.1:1", f"--prometheus-{flag}-file={path}")
    assert (found.code, found.err) == (2, f"shadow-pleg: --prometheus-{flag}-file: {path} {said}\n")
