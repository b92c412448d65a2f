"""A face under access control, and those who knock.

Here: certificates, configuration files, a server that uses them, a client. Not here: what should
come of it.
"""

from __future__ import annotations

import asyncio
import contextlib
import ssl
import time
from base64 import b64encode
from collections.abc import AsyncIterator
from dataclasses import replace
from pathlib import Path

import aiohttp
import bcrypt
import pytest
import trustme

from exporter.node.state import Node
from tests.support.commands import DEADLINE, Answer
from tests.support.web_pages import CONFIG, face_of

TLS = "tls_server_config:\n  cert_file: server.crt\n  key_file: server.key\n"
MTLS = TLS + "  client_auth_type: RequireAndVerifyClientCert\n  client_ca_file: ca.crt\n"


def hashed(password: str, cost: int = 4) -> str:
    """A bcrypt hash, by default the cheapest."""
    return bcrypt.hashpw(password.encode(), bcrypt.gensalt(cost)).decode()


def users(cost: int = 4, **passwords: str) -> str:
    """The section with these users."""
    lines = (f"  {name}: {hashed(word, cost)}\n" for name, word in passwords.items())
    return "basic_auth_users:\n" + "".join(lines)


class Papers:
    """A folder with what the configuration names."""

    def __init__(self, folder: Path) -> None:
        self.folder = folder
        self.config = folder / "web.yml"
        self.authority = trustme.CA()
        self.authority.cert_pem.write_to_path(str(folder / "ca.crt"))
        self.certify(self.authority)

    def certify(self, authority: trustme.CA) -> trustme.LeafCert:
        """Put a new certificate of ours in place."""
        leaf = authority.issue_cert("localhost", "127.0.0.1")
        leaf.private_key_pem.write_to_path(str(self.folder / "server.key"))
        leaf.cert_chain_pems[0].write_to_path(str(self.folder / "server.crt"))
        return leaf

    def write(self, text: str) -> Path:
        """Put a configuration in place, as a whole."""
        return self.put(self.config, text.encode())

    def put(self, path: Path, content: bytes) -> Path:
        """Put a file in place, as a whole."""
        new = self.folder / "new"
        new.write_bytes(content)
        return new.replace(path)

    def client(self, *names: str, by: trustme.CA | None = None) -> ssl.SSLContext:
        """How a client connects: with a certificate of these names if there are any."""
        context = ssl.create_default_context()
        self.authority.configure_trust(context)
        if names:
            (by or self.authority).issue_cert(*names).configure_cert(context)
        return context

    @contextlib.asynccontextmanager
    async def served(self, text: str, node: Node | None = None) -> AsyncIterator[str]:
        """A face under that configuration; gives the URL."""
        self.write(text)
        async with self.served_as_it_is(node) as url:
            yield url

    @contextlib.asynccontextmanager
    async def served_as_it_is(self, node: Node | None = None) -> AsyncIterator[str]:
        """A face under the configuration that is in place."""
        config = replace(CONFIG, web_config_file=str(self.config))
        async with face_of(node or Node(), config) as url:
            yield url


@pytest.fixture
def papers(tmp_path: Path) -> Papers:
    """A folder with an authority, our certificate of it, and room for a configuration."""
    return Papers(tmp_path)


def metrics(url: str) -> str:
    """Where the metrics are as of now: a page of them is kept for a while."""
    return f"{url}metrics?{time.monotonic_ns()}"


async def knock(
    url: str,
    tls: ssl.SSLContext | bool = True,  # noqa: FBT001, FBT002 -- as aiohttp has it
    login: tuple[str, str] | None = None,
    **headers: str,
) -> Answer:
    """One request on a connection of its own."""
    if login:
        headers["Authorization"] = f"Basic {b64encode(':'.join(login).encode()).decode()}"
    async with (
        aiohttp.ClientSession(timeout=aiohttp.ClientTimeout(DEADLINE)) as session,
        session.get(url, ssl=tls, headers=headers) as response,
    ):
        return Answer(response.status, dict(response.headers), await response.text())


def port_of(url: str) -> int:
    """The port of a URL that has one."""
    return int(url.rsplit(":", 1)[1].split("/", maxsplit=1)[0])


async def is_turned_away(url: str, tls: ssl.SSLContext) -> bool:
    """Whether TLS ends before one byte of HTTP comes; one attempt, which HTTP clients repeat."""
    async with asyncio.timeout(DEADLINE):
        try:
            reader, writer = await asyncio.open_connection(
                "127.0.0.1", port_of(url), ssl=tls, server_hostname="localhost"
            )
        except (ssl.SSLError, ConnectionError):
            return True
        try:
            writer.write(b"GET /livez HTTP/1.1\r\nHost: x\r\nConnection: close\r\n\r\n")
            return not await reader.read()
        except (ssl.SSLError, ConnectionError):
            return True
        finally:
            await ended(writer)


async def ended(writer: asyncio.StreamWriter) -> None:
    """Close, however the other side takes it."""
    writer.close()
    with contextlib.suppress(OSError):
        await writer.wait_closed()


def refused(text: str, reason: str) -> float:
    """A count of refusals in a scrape."""
    name = f'shadow_pleg_web_refusals_total{{reason="{reason}"}} '
    return next(float(line[len(name) :]) for line in text.splitlines() if line.startswith(name))


async def spoken(url: str, version: ssl.TLSVersion, papers: Papers) -> tuple[str, str]:
    """Version and cipher suite that a client of just that version comes to."""
    context = papers.client()
    context.minimum_version = context.maximum_version = version
    _, writer = await asyncio.open_connection("127.0.0.1", port_of(url), ssl=context)
    cipher, spoken_version, _ = writer.get_extra_info("cipher")
    await ended(writer)
    return spoken_version, cipher
