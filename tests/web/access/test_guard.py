"""Users and passwords, headers, and which pages are public."""

import asyncio
import base64
import statistics
import time

import pytest

from exporter.errors import BusyError
from exporter.web.access.guard import Credentials, Guard
from exporter.web.access.policy import WebPolicy, WebState
from tests.support.commands import fetch
from tests.support.secured import ALICE, BOB, TLS, WebFiles, hashed, users
from tests.support.web_clients import counted

USERS = users(ALICE, BOB)


def basic(raw: bytes) -> str:
    """A header with these bytes for name and password."""
    return "Basic " + base64.b64encode(raw).decode()


async def test_passwords_let_in(web_files: WebFiles) -> None:
    """Each user with their own, also a second time; anyone else, and no login, gets a 401."""
    headers = (
        *("", "Basic", "Basic !!!", basic(b"alice"), basic(b"\xff:\xff")),
        *(basic(b"alice:x").replace("Basic", "Bearer"), "Basic " + "A" * 6000),
    )
    wrong = [("alice", "guess"), ("alice", ""), ("carol", ALICE[1]), ("", ""), ("bob", ALICE[1])]
    client = web_files.client()
    async with web_files.served(TLS + USERS) as url:
        for login in (ALICE, BOB, ALICE):
            assert (await fetch(url + "metrics", tls=client, login=login)).status == 200
        for login in wrong:
            answer = await fetch(url + "metrics", tls=client, login=login)
            assert (answer.status, answer.text) == (401, "unauthorized\n")
            challenge = 'Basic realm="shadow-pleg", charset="UTF-8"'
            assert answer.headers["WWW-Authenticate"] == challenge
        for header in headers:
            answer = await fetch(url + "metrics", tls=client, Authorization=header)
            assert answer.status == 401, header
        await counted(url, "credentials", len(wrong), client, ALICE)


async def test_every_page_but_the_probes_needs_a_login(web_files: WebFiles) -> None:
    """Also those that do not exist: nothing can be learnt without a password."""
    closed = (
        "",
        "metrics",
        "nothing",
        "livez/",
        "%6Detrics",
        "//livez",
        "static/page.css",
    )
    async with web_files.served(USERS) as url:
        for path in closed:
            assert (await fetch(url + path)).status == 401
        for path in ("livez", "readyz", "live%7A"):
            assert (await fetch(url + path)).status in {200, 503}
        for path in ("", "metrics", "static/page.css"):
            assert (await fetch(url + path, login=ALICE)).status == 200


async def test_headers_are_on_every_answer(web_files: WebFiles) -> None:
    """On pages and on refusals; an operator's policy replaces that of the page."""
    text = """
http_server_config:
  http2: false
  headers:
    X-Frame-Options: deny
    X-Content-Type-Options: nosniff
    Strict-Transport-Security: max-age=31536000
    X-XSS-Protection: ""
    Content-Security-Policy: default-src 'self'
"""
    async with web_files.served(text + USERS) as url:
        answers = [await fetch(url, login=ALICE), await fetch(url), await fetch(url + "livez")]
    for answer in answers:
        assert answer.headers["X-Frame-Options"] == "deny"
        assert answer.headers["X-Content-Type-Options"] == "nosniff"
        assert answer.headers["Strict-Transport-Security"] == "max-age=31536000"
        assert answer.headers["Content-Security-Policy"] == "default-src 'self'"
        assert "X-XSS-Protection" not in answer.headers
        assert answer.headers["Server"] == "shadow-pleg"


async def test_only_the_first_72_bytes_of_a_password_count(web_files: WebFiles) -> None:
    """As for the tools that make the hashes."""
    long = "x" * 72
    async with web_files.served(users(("alice", long))) as url:
        assert (await fetch(url, login=("alice", long + "y"))).status == 200
        assert (await fetch(url, login=("alice", long[:-1]))).status == 401


async def test_a_password_that_was_right_is_remembered_with_its_hash() -> None:
    """The second check takes no bcrypt; another hash or name is checked again."""
    credentials, known = Credentials(), {"alice": hashed("open", cost=10)}
    spent = []
    for _ in range(2):
        began = time.process_time()
        assert await credentials.match(known, "alice", "open", "a")
        spent.append(time.process_time() - began)
    assert spent[1] < spent[0] / 20
    assert not await credentials.match({"alice": hashed("shut")}, "alice", "open", "a")
    assert not await credentials.match({"bob": known["alice"]}, "alice", "open", "a")
    credentials.close()


async def test_an_unknown_name_takes_as_long_as_a_known_one() -> None:
    """The time does not show which accounts exist."""
    known = {"alice": hashed("open", cost=8)}
    took: dict[str, list[float]] = {"alice": [], "carol": []}
    for name in ("alice", "carol") * 9:
        credentials = Credentials()  # with no turn to wait for
        # CPU time, which does not depend on other processes.
        began = time.process_time()
        assert not await credentials.match(known, name, "guess", "a")
        took[name].append(time.process_time() - began)
        credentials.close()
    alice, carol = (statistics.median(times) for times in took.values())
    assert 0.5 < alice / carol < 2
    assert carol > 0.005


async def test_the_loop_runs_while_a_password_is_checked() -> None:
    """Bcrypt has a thread of its own, and releases the interpreter."""
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
    # A turn that had to wait would take as long as the whole check.
    assert worst < took / 2


async def test_a_client_has_one_check_at_a_time() -> None:
    """Who guesses is refused meanwhile; others wait for their turn, and who is known does not."""
    credentials, known = Credentials(), {"alice": hashed("open", cost=8)}
    assert await credentials.match(known, "alice", "open", "scraper")
    guessing = asyncio.create_task(credentials.match(known, "alice", "guess", "stranger"))
    await asyncio.sleep(0)
    with pytest.raises(BusyError):
        await credentials.match(known, "alice", "guess again", "stranger")
    assert await credentials.match(known, "alice", "open", "stranger")
    new = asyncio.create_task(credentials.match(known, "bob", "x", "other"))
    assert not await guessing
    assert not await new
    credentials.close()


@pytest.mark.virtual_time
async def test_guesses_take_a_fifth_of_a_cpu() -> None:
    """A check takes no time on this clock: what passes are the rests after each."""
    credentials, known = Credentials(), {"alice": hashed("open", cost=9)}
    began, spent = time.monotonic(), time.thread_time()
    for number in range(6):
        assert not await credentials.match(known, "alice", f"guess {number}", "a")
    assert time.monotonic() - began > 3 * (time.thread_time() - spent)
    credentials.close()


@pytest.mark.virtual_time
async def test_a_flood_is_refused_and_a_scraper_is_not() -> None:
    """All strangers together get some 200 answers a second; each other client its own few."""
    guard = Guard(WebPolicy("", WebState()), WebState())
    admitted = 0
    for second in range(30):
        for number in range(1000):
            admitted += guard._may_ask(f"10.0.0.{number % 20}")  # noqa: SLF001 - addresses are not to be had here
            await asyncio.sleep(0.001)
        assert guard._may_ask("scraper"), second  # noqa: SLF001 - as above
    guard.close()
    assert admitted < 500 + 20 * 20 + 30 * (200 + 20)
