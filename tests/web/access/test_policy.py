"""Files that change while the face is served: the new ones count, broken ones do not."""

from __future__ import annotations

import asyncio
import ssl
from collections.abc import Awaitable, Callable
from pathlib import Path
from typing import Literal, TypeVar

import aiohttp
import pytest
import structlog
import trustme

from tests.support.commands import DEADLINE
from tests.support.secured import (
    MTLS,
    TLS,
    Papers,
    ended,
    is_turned_away,
    knock,
    metrics,
    port_of,
    users,
)
from tests.support.waiting import until

pytestmark = pytest.mark.usefixtures("_attentive")

Answered = TypeVar("Answered")
ALICE, BOB = ("alice", "open"), ("bob", "builder")
OF_ALICE = users(alice="open")
GAUGE = "shadow_pleg_web_config_last_reload_successful"


def serial_at(url: str) -> Callable[[], Awaitable[bytes]]:
    """The certificate that the server shows, as often as it is asked."""

    async def look() -> bytes:
        context = ssl.SSLContext(ssl.PROTOCOL_TLS_CLIENT)
        context.check_hostname, context.verify_mode = False, ssl.CERT_NONE
        _, writer = await asyncio.open_connection("127.0.0.1", port_of(url), ssl=context)
        shown = writer.get_extra_info("ssl_object").getpeercert(binary_form=True)
        await ended(writer)
        return bytes(shown)

    return look


async def tried(asking: Awaitable[Answered]) -> Answered | Literal[False]:
    """What comes of it; False where a reload in the middle of it ends all connections."""
    try:
        return await asking
    except (OSError, aiohttp.ClientConnectionError):
        return False


async def comes_in(url: str, login: tuple[str, str]) -> bool:
    """Whether that login is good."""
    return (await knock(url + "metrics", login=login)).status == 200


async def is_current(url: str, login: tuple[str, str] | None = None) -> bool:
    """What the metrics say of the last reload."""
    text = (await knock(metrics(url), login=login)).text
    return f"\n{GAUGE} 1.0" in text


async def test_a_new_certificate_is_shown_to_the_next_client(papers: Papers) -> None:
    """Rotated as cert-manager does it: both files anew, nothing restarted."""
    async with papers.served(TLS) as url:
        shown = serial_at(url)
        before = await shown()
        leaf = papers.certify(papers.authority)
        new = ssl.PEM_cert_to_DER_cert(leaf.cert_chain_pems[0].bytes().decode())

        async def is_new() -> bool:
            return await tried(shown()) == new

        await until(is_new, "the new certificate is shown")
    assert before != new


async def test_half_a_rotation_keeps_the_old_certificate(papers: Papers) -> None:
    """A key that does not belong to the certificate is no reason to stop, nor to be silent."""
    with structlog.testing.capture_logs() as lines:
        async with papers.served(TLS) as url:
            client, shown = papers.client(), serial_at(url)
            before = await shown()
            key, own = papers.folder / "server.key", (papers.folder / "server.key").read_bytes()
            papers.put(key, papers.authority.issue_cert("x").private_key_pem.bytes())
            await until(lambda: _said(lines, "not reloaded"), "the broken pair is told of")
            assert await shown() == before
            assert f"\n{GAUGE} 0.0" in (await knock(metrics(url), client)).text
            papers.put(key, own)
            await until(lambda: _said(lines, "configuration reloaded"), "the whole pair is used")

            async def is_whole() -> bool:
                return f"\n{GAUGE} 1.0" in (await knock(metrics(url), client)).text

            # A page of metrics is kept for a moment.
            await until(is_whole, "the gauge says so")
    [told] = [line for line in lines if "not reloaded" in line["event"]]
    assert "tls_server_config.key_file: does not belong to cert_file" in told["error"]


def _said(lines: list[structlog.typing.EventDict], what: str) -> bool:
    return any(what in line["event"] for line in lines)


async def test_users_come_and_go(papers: Papers) -> None:
    """Who was taken out is out at once, remembered or not."""
    async with papers.served(OF_ALICE) as url:
        assert await comes_in(url, ALICE)
        papers.write(users(bob="builder"))
        await until(lambda: tried(comes_in(url, BOB)), "bob is known")
        assert not await comes_in(url, ALICE)


async def test_an_open_connection_does_not_outlive_the_rules_it_came_in_by(papers: Papers) -> None:
    """With the authority changed, yesterday's client has to show its certificate again."""
    async with papers.served(MTLS) as url:
        client = papers.client("prometheus")
        reader, writer = await asyncio.open_connection("127.0.0.1", port_of(url), ssl=client)
        writer.write(b"GET /livez HTTP/1.1\r\nHost: x\r\n\r\n")
        assert (await reader.readuntil(b"ok\n")).startswith(b"HTTP/1.1 200")
        trustme.CA().cert_pem.write_to_path(str(papers.folder / "ca.crt"))
        async with asyncio.timeout(DEADLINE):
            with pytest.raises((ConnectionError, asyncio.IncompleteReadError)):
                await reader.readexactly(1)
        await ended(writer)
        assert await is_turned_away(url, client)


@pytest.mark.parametrize(
    ("text", "why"),
    [
        ("basic_auth_users: {alice: open}", "has no bcrypt hash"),
        ("nonsense: 1\n", "'nonsense' is no key here"),
        ("", "basic_auth_users is gone"),
        ("http_server_config: {}\n", "basic_auth_users is gone"),
        ("basic_auth_users:\n", "basic_auth_users is gone"),
    ],
    ids=lambda text: text[:20],
)
async def test_a_broken_file_is_told_of_once_and_changes_nothing(
    papers: Papers, text: str, why: str
) -> None:
    """Nor does one that would let everybody in, as a half-written one does."""
    with structlog.testing.capture_logs() as lines:
        async with papers.served(OF_ALICE) as url:
            papers.write(text)
            await until(lambda: _said(lines, "not reloaded"), "the broken file is told of")
            assert not await is_current(url, ALICE)
            assert (await knock(url + "metrics")).status == 401
            # Many looks later there is still nothing new to say.
            papers.write(OF_ALICE)
            await until(lambda: is_current(url, ALICE), "the mended file is used")
    told = [line for line in lines if "not reloaded" in line["event"]]
    assert [why in line["error"] for line in told] == [True]


@pytest.mark.parametrize(
    ("before", "after", "why"),
    [(MTLS, TLS, "client_auth_type is gone"), (TLS, OF_ALICE, "tls_server_config is gone")],
    ids=["client certificates", "tls"],
)
async def test_no_protection_is_dropped_on_the_fly(
    papers: Papers, before: str, after: str, why: str
) -> None:
    """That takes a restart: half of a file looks just like it."""
    with structlog.testing.capture_logs() as lines:
        async with papers.served(before) as url:
            papers.write(after)
            await until(lambda: _said(lines, "not reloaded"), "the refusal is told of")
            assert (await knock(url + "metrics", papers.client("x"))).status == 200
    assert why in next(line["error"] for line in lines if "not reloaded" in line["event"])


async def test_protection_can_be_added_on_the_fly(papers: Papers) -> None:
    """From nothing to TLS and a password."""
    async with papers.served("") as url:
        assert (await knock(url + "metrics")).status == 200
        papers.write(TLS + OF_ALICE)
        client, secure = papers.client(), url.replace("http:", "https:")

        async def is_asked() -> bool:
            try:
                return (await knock(secure + "metrics", client)).status == 401
            except OSError:
                return False

        await until(is_asked, "TLS and a password are asked for")


async def test_a_secrets_volume_is_followed(papers: Papers, tmp_path: Path) -> None:
    """The kubelet swaps a link to a folder: the same names, all files new at once."""
    old, new = tmp_path / "v1", tmp_path / "v2"
    for folder, text in ((old, OF_ALICE), (new, users(bob="builder"))):
        folder.mkdir()
        (folder / "web.yml").write_text(text)
    link = tmp_path / "data"
    link.symlink_to(old)
    papers.config = link / "web.yml"
    async with papers.served_as_it_is() as url:
        assert await comes_in(url, ALICE)
        (tmp_path / "next").symlink_to(new)
        (tmp_path / "next").replace(link)
        await until(lambda: tried(comes_in(url, BOB)), "the new folder is read")
