"""Files that change while pages are served: good ones take effect, broken ones do not."""

import asyncio
import ssl
import subprocess
import sys
from collections.abc import Awaitable
from pathlib import Path
from typing import Literal, TypeVar

import aiohttp
import pytest
import structlog
import trustme

from exporter.web.access.policy import WebPolicy, WebState
from testbed.waiting import until
from tests.support.commands import DEADLINE, fetch
from tests.support.secured import ALICE, BOB, MTLS, TLS, WebFiles, users
from tests.support.web_clients import PROBE, connection, is_turned_away, negotiated

Answered = TypeVar("Answered")
OF_ALICE = users(ALICE)


async def tried(asking: Awaitable[Answered]) -> Answered | Literal[False]:
    """Its result; False if a reload in the middle of it ends all connections."""
    try:
        return await asking
    except (OSError, aiohttp.ClientConnectionError):
        return False


async def lets_in(url: str, login: tuple[str, str], tls: ssl.SSLContext | None = None) -> bool:
    """Whether that login is good."""
    return (await fetch(url + "metrics", login=login, tls=tls)).status == 200


async def reloaded(
    url: str,
    value: float,
    login: tuple[str, str] | None = None,
    tls: ssl.SSLContext | None = None,
) -> None:
    """Wait until the metrics say that of the last reload."""

    async def is_said() -> bool:
        answer = await tried(fetch(url + "metrics", login=login, tls=tls))
        name = "shadow_pleg_web_config_last_reload_successful"
        return answer is not False and f"\n{name} {value}" in answer.text

    await until(is_said, f"the last reload: {value}")


def said(lines: list[structlog.typing.EventDict], what: str) -> list[str]:
    """The errors of the log lines with these words."""
    return [line.get("error", "") for line in lines if what in line["event"]]


async def test_a_rotated_certificate_is_used_once_it_is_complete(web_files: WebFiles) -> None:
    """As cert-manager writes it. Half a rotation keeps the old one, and is logged."""

    async def shown() -> bytes:
        context = ssl.SSLContext(ssl.PROTOCOL_TLS_CLIENT)
        context.check_hostname, context.verify_mode = False, ssl.CERT_NONE
        return (await negotiated(url, context)).getpeercert(binary_form=True) or b""

    with structlog.testing.capture_logs() as lines:
        async with web_files.served(TLS) as url:
            tls, before = web_files.client(), await shown()
            key = web_files.folder / "server.key"
            own = key.read_bytes()
            web_files.put(key, web_files.authority.issue_cert("x").private_key_pem.bytes())
            await reloaded(url, 0.0, tls=tls)
            assert await shown() == before
            web_files.put(key, own)
            await reloaded(url, 1.0, tls=tls)
            new = web_files.certify("server", "localhost", "127.0.0.1")

            async def is_new() -> bool:
                return await tried(shown()) == new

            await until(is_new, "the new certificate is shown")
    assert before != new
    assert "(key values mismatch)" in said(lines, "not reloaded")[0]


async def test_a_reload_ends_open_connections(web_files: WebFiles) -> None:
    """When the authority changes, a client has to show its certificate again."""
    async with web_files.served(MTLS) as url:
        client = web_files.client("prometheus")
        async with connection(url, tls=client) as (reader, writer):
            writer.write(PROBE)
            assert (await reader.readuntil(b"ok\n")).startswith(b"HTTP/1.1 200")
            trustme.CA().cert_pem.write_to_path(str(web_files.folder / "ca.crt"))
            async with asyncio.timeout(DEADLINE):
                with pytest.raises((ConnectionError, asyncio.IncompleteReadError)):
                    await reader.readexactly(1)
        assert await is_turned_away(url, client)


async def test_a_broken_file_is_logged_once_and_changes_nothing(web_files: WebFiles) -> None:
    """The last good one stays in force."""
    with structlog.testing.capture_logs() as lines:
        async with web_files.served(OF_ALICE) as url:
            web_files.write("basic_auth_users: {alice: open}")
            await reloaded(url, 0.0, ALICE)
            assert (await fetch(url + "metrics")).status == 401
            # Many checks later there is still one line.
            web_files.write(OF_ALICE)
            await reloaded(url, 1.0, ALICE)
    assert len(said(lines, "not reloaded")) == 1


@pytest.mark.virtual_time
async def test_a_file_that_is_still_being_written_is_not_read(web_files: WebFiles) -> None:
    """Half of it may name fewer users, or a name that is only the beginning of the right one."""
    whole = users(ALICE, BOB)
    web_files.write(OF_ALICE)
    state, path = WebState(), str(web_files.config)
    policy = WebPolicy(path, state)
    looking = asyncio.create_task(policy.keep_up())
    with web_files.config.open("w") as file:
        for half in (whole[:40], whole[40:90], whole[90:]):
            await asyncio.sleep(1)
            assert list(policy.policy.users) == [ALICE[0]]
            assert state.reloaded
            file.write(half)
            file.flush()
    await asyncio.sleep(2.1)
    assert list(policy.policy.users) == [ALICE[0], BOB[0]]
    looking.cancel()


async def test_protection_can_be_added_on_the_fly(web_files: WebFiles) -> None:
    """From nothing to TLS and a password."""
    async with web_files.served("") as url:
        assert (await fetch(url + "metrics")).status == 200
        web_files.write(TLS + OF_ALICE)
        client, secure = web_files.client(), url.replace("http:", "https:")

        async def is_asked() -> bool:
            answer = await tried(fetch(secure + "metrics", tls=client))
            return answer is not False and answer.status == 401

        await until(is_asked, "TLS and a password are needed")


async def test_a_secrets_volume_is_followed(web_files: WebFiles, tmp_path: Path) -> None:
    """The kubelet replaces a link to a folder: the same names, all files new at once."""
    old, new = tmp_path / "v1", tmp_path / "v2"
    for folder, text in ((old, OF_ALICE), (new, users(BOB))):
        folder.mkdir()
        (folder / "web.yml").write_text(text)
    link = tmp_path / "data"
    link.symlink_to(old)
    web_files.config = link / "web.yml"
    async with web_files.served(None) as url:
        assert await lets_in(url, ALICE)
        (tmp_path / "next").symlink_to(new)
        (tmp_path / "next").replace(link)
        await until(lambda: tried(lets_in(url, BOB)), "the new folder is read")
        # Though her login is remembered.
        assert not await lets_in(url, ALICE)


# What was loaded stays loaded: in the order of what may be loaded.
PROGRAM = """
import asyncio, sys
import exporter.cli
from dataclasses import replace
from tests.support.commands import fetch
from tests.support.web_pages import CONFIG, pages_of

async def main(file):
    async with pages_of(config=replace(CONFIG, web_config_file=file)) as url:
        await fetch(url + "metrics")

for file in sys.argv[1:]:
    asyncio.run(main(file))
    print(*sorted({"yaml", "bcrypt"} & set(sys.modules)))
"""


def test_libraries_are_loaded_with_the_flag(tmp_path: Path) -> None:
    """YAML for a file, bcrypt for a password to check, neither for a plain start."""
    empty, no_users = tmp_path / "empty.yml", tmp_path / "users.yml"
    empty.write_text("")
    no_users.write_text("basic_auth_users: {}")
    command = (sys.executable, "-c", PROGRAM, "", empty, no_users)
    ended = subprocess.run(command, capture_output=True, check=True, text=True)
    assert (ended.stdout.splitlines(), ended.stderr) == (["", "yaml", "yaml"], "")
