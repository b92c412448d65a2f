"""Users and passwords, headers, and which pages are for everybody."""

from __future__ import annotations

import asyncio
import base64
import statistics
import time

import pytest

from exporter.web.access.credentials import Credentials
from tests.support.secured import TLS, Papers, hashed, knock, metrics, refused, users

ALICE = ("alice", "opén sesame")
USERS = users(alice=ALICE[1], bob="builder")
WRONG = [("alice", "guess"), ("alice", ""), ("carol", ALICE[1]), ("", ""), ("bob", ALICE[1])]


async def test_who_knows_the_password_comes_in(papers: Papers) -> None:
    """Each with their own, also a second time."""
    async with papers.served(USERS) as url:
        for login in (ALICE, ("bob", "builder"), ALICE):
            assert (await knock(url + "metrics", login=login)).status == 200


@pytest.mark.parametrize("login", WRONG, ids=":".join)
async def test_who_does_not_stays_out(papers: Papers, login: tuple[str, str]) -> None:
    """A wrong password, a name that nobody has, somebody else's: one answer to all."""
    async with papers.served(USERS) as url:
        answer = await knock(url + "metrics", login=login)
        text = (await knock(metrics(url), login=ALICE)).text
    assert (answer.status, answer.text) == (401, "unauthorized\n")
    assert answer.headers["WWW-Authenticate"] == 'Basic realm="shadow-pleg", charset="UTF-8"'
    assert refused(text, "credentials") == 1


@pytest.mark.parametrize(
    "header",
    [
        "",
        "Basic",
        "Basic !!!",
        "Basic " + base64.b64encode(b"alice").decode(),
        "Basic " + base64.b64encode(b"\xff:\xff").decode(),
        "Bearer " + base64.b64encode(b"alice:x").decode(),
        "Basic " + "A" * 6000,
    ],
    ids=lambda text: text[:20],
)
async def test_what_is_no_login_is_none(papers: Papers, header: str) -> None:
    """Half a header, another scheme, no UTF-8: asked for a login, and nothing is logged."""
    async with papers.served(USERS) as url:
        assert (await knock(url + "metrics", Authorization=header)).status == 401


@pytest.mark.parametrize("path", ["", "metrics", "nothing", "livez/", "%6Detrics", "//livez"])
async def test_every_page_but_the_probes_asks(papers: Papers, path: str) -> None:
    """Also what is not there: nobody learns more without a password."""
    async with papers.served(USERS) as url:
        assert (await knock(url + path)).status == 401


@pytest.mark.parametrize("path", ["livez", "readyz", "live%7A"])
async def test_probes_are_open(papers: Papers, path: str) -> None:
    """The kubelet has no password."""
    async with papers.served(USERS) as url:
        assert (await knock(url + path)).status in {200, 503}


async def test_both_tls_and_passwords(papers: Papers) -> None:
    """The usual pair."""
    async with papers.served(TLS + USERS) as url:
        assert (await knock(url + "metrics", papers.client(), ALICE)).status == 200
        assert (await knock(url + "metrics", papers.client())).status == 401


async def test_headers_are_on_every_answer(papers: Papers) -> None:
    """On pages, on refusals and on what is not there."""
    text = """
http_server_config:
  http2: false
  headers:
    X-Frame-Options: deny
    X-Content-Type-Options: nosniff
    Strict-Transport-Security: max-age=31536000
    X-XSS-Protection: ""
"""
    async with papers.served(text + USERS) as url:
        answers = [await knock(url, login=ALICE), await knock(url), await knock(url + "livez")]
    for answer in answers:
        assert answer.headers["X-Frame-Options"] == "deny"
        assert answer.headers["X-Content-Type-Options"] == "nosniff"
        assert answer.headers["Strict-Transport-Security"] == "max-age=31536000"
        assert "X-XSS-Protection" not in answer.headers
        assert answer.headers["Server"] == "shadow-pleg"


async def test_only_the_first_72_bytes_of_a_password_count(papers: Papers) -> None:
    """As the tools that make the hashes have it."""
    long = "x" * 72
    async with papers.served(users(alice=long)) as url:
        assert (await knock(url, login=("alice", long + "y"))).status == 200
        assert (await knock(url, login=("alice", long[:-1]))).status == 401


async def test_a_password_that_was_right_is_not_computed_again() -> None:
    """A scrape every few seconds costs no bcrypt: the second time is a thousand times quicker."""
    credentials, known = Credentials(), {"alice": hashed("open", cost=10)}
    spent = []
    for _ in range(2):
        began = time.process_time()
        assert await credentials.match(known, "alice", "open", "a")
        spent.append(time.process_time() - began)
    credentials.close()
    assert spent[1] < spent[0] / 20


async def test_a_password_that_was_right_is_asked_again_when_the_hash_changes() -> None:
    """What is remembered is remembered of one hash."""
    credentials = Credentials()
    assert await credentials.match({"alice": hashed("open")}, "alice", "open", "a")
    assert not await credentials.match({"alice": hashed("shut")}, "alice", "open", "a")
    assert not await credentials.match({"bob": hashed("open")}, "alice", "open", "a")
    credentials.close()


async def test_an_unknown_name_takes_as_long_as_a_known_one() -> None:
    """Nobody finds out who has an account by looking at a clock."""
    known = {"alice": hashed("open", cost=8)}
    took: dict[str, list[float]] = {"alice": [], "carol": []}
    for name in ("alice", "carol") * 9:
        credentials = Credentials()  # with no turn to wait for
        # CPU, for which others do not make it wait.
        began = time.process_time()
        assert not await credentials.match(known, name, "guess", "a")
        took[name].append(time.process_time() - began)
        credentials.close()
    alice, carol = (statistics.median(times) for times in took.values())
    assert 0.5 < alice / carol < 2
    assert carol > 0.005


async def test_the_loop_turns_while_a_password_is_checked() -> None:
    """Bcrypt has a thread of its own, and lets go of the interpreter."""
    credentials, known = Credentials(), {"alice": hashed("open", cost=11)}
    checking = asyncio.create_task(credentials.match(known, "alice", "open", "a"))
    worst = turns = 0.0
    asked = time.perf_counter()
    while not checking.done():
        began = time.perf_counter()
        await asyncio.sleep(0)
        worst, turns = max(worst, time.perf_counter() - began), turns + 1
    took = time.perf_counter() - asked
    credentials.close()
    assert await checking
    assert turns > 100
    # Kept waiting, a turn takes as long as the whole check.
    assert worst < took / 2
