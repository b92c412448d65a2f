"""Users and passwords, headers, and which pages are public."""

import asyncio
import base64
import statistics
import time

import pytest

from exporter.web.access.credentials import Credentials
from exporter.web.access.limits import peer_of
from tests.support.commands import fetch
from tests.support.secured import ALICE, BOB, TLS, WebFiles, hashed, users
from tests.support.web_clients import PROBE, metrics, refusals, refusals_in, says
from tests.support.web_pages import pages_of

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
        text = (await fetch(metrics(url), tls=client, login=ALICE)).text
    assert refusals_in(text)["credentials"] == len(wrong)


async def test_every_page_but_the_probes_needs_a_login(web_files: WebFiles) -> None:
    """Also those that do not exist: nothing can be learnt without a password."""
    closed = (
        "",
        "metrics",
        "nothing",
        "livez/",
        "%6Detrics",
        "//livez",
        "events",
        "static/page.js",
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
    credentials, known = Credentials(0), {"alice": hashed("open", cost=10)}
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
        credentials = Credentials(0)  # with no turn to wait for
        # CPU time, which does not depend on other processes.
        began = time.process_time()
        assert not await credentials.match(known, name, "guess", "a")
        took[name].append(time.process_time() - began)
        credentials.close()
    alice, carol = (statistics.median(times) for times in took.values())
    assert 0.5 < alice / carol < 2
    assert carol > 0.005


@pytest.mark.virtual_time
async def test_a_check_counts_as_the_cpu_time_that_it_took() -> None:
    """It takes no time on this clock; on a busy machine it takes much more than its CPU time."""
    credentials, known = Credentials(0), {"alice": hashed("open", cost=9)}
    began, spent = time.monotonic(), time.thread_time()
    for number in range(6):
        assert not await credentials.match(known, "alice", f"guess {number}", "a")
    # Four times as long as each check but the first and the last.
    assert time.monotonic() - began > 2 * (time.thread_time() - spent)
    credentials.close()


async def test_the_loop_runs_while_a_password_is_checked() -> None:
    """Bcrypt has a thread of its own, and releases the interpreter."""
    credentials, known = Credentials(0), {"alice": hashed("open", cost=11)}
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


OWN = (
    *("127.0.0.1", "127.0.0.1:13386", "[::1]:13386", "10.0.0.7:80", "localhost", "LOCALHOST:1"),
    *("node-7", "Node-7:13386", "node-7.", "tunnel.localhost:1", ""),
    *("shadow-pleg.monitoring.svc:13386", "shadow-pleg.monitoring.svc.cluster.local"),
)
FOREIGN = (
    *("evil.example", "evil.example:13386", "127.0.0.1.evil.example", "localhost.evil.example"),
    *("evillocalhost", "node-7.evil.example", "[::1", "node-8", "evil.example.", "x.svc.example"),
)


@pytest.mark.parametrize("host", [*OWN, *FOREIGN])
async def test_a_foreign_page_cannot_read_through_this_machine(host: str) -> None:
    """Its name may resolve to a loopback address (DNS rebinding), of a demo or a forwarded port."""
    async with pages_of() as url:
        for path in ("", "metrics", "events", "debug/misses", "static/page.css", "nothing"):
            asked = f"HEAD /{path} HTTP/1.1\r\nHost: {host}\r\nConnection: close\r\n\r\n"
            status = (await says(url, asked.encode())).split()[1]
            assert (status == b"421") == (host in FOREIGN), path
        probe = PROBE.replace(b"Host: x", b"Connection: close\r\nHost: " + host.encode())
        assert (await says(url, probe)).split()[1] == b"200"
        assert (await refusals(url))["host"] == (6 if host in FOREIGN else 0)


@pytest.mark.quick
@pytest.mark.parametrize(
    ("address", "peer"),
    [
        (("10.0.0.7", 1), "10.0.0.7"),
        (("::ffff:10.0.0.7", 1, 0, 0), "10.0.0.7"),
        (("2001:db8:1:2:3:4:5:6", 1, 0, 0), "2001:db8:1:2::"),
        (("2001:db8:1:2::9", 1, 0, 0), "2001:db8:1:2::"),
        (("fe80::1%eth0", 1, 0, 3), "fe80::"),
        (("no:address", 1, 0, 0), "no:address"),
        ("", ""),
    ],
)
def test_a_peer_is_an_ipv4_address_or_an_ipv6_network(address: object, peer: str) -> None:
    """The owner of one IPv6 address has 2^64 of them, to spread a flood over."""
    assert peer_of(address) == peer
