"""A web server whose node, configuration, files and users a test chooses; clients, and floods."""

import asyncio
import base64
import contextlib
import itertools
import socket
import ssl
import tempfile
import time
from collections.abc import AsyncIterator, Callable, Coroutine, Sequence
from dataclasses import replace
from functools import partial
from pathlib import Path
from typing import Any
from urllib.parse import quote, unquote, urlsplit

import bcrypt
import pytest
import trustme

from exporter.node.state import Node
from exporter.settings.config import Config
from exporter.settings.flags import ListenAddress
from exporter.web.access.policy import WebPolicy
from exporter.web.app import WebApp, serving
from exporter.web.server import Server
from exporter.web.status_page import Card, cards_of
from tests.support.commands import DEADLINE, answered
from tests.support.observer import Metrics, tasks
from tests.support.stage import Stage
from tests.support.virtual_time import VirtualLoop

LOCAL = ListenAddress("127.0.0.1", 0)
CONFIG = Config(web_listen_address=LOCAL, node_name="node-7")


def cards_now(node: Node) -> dict[str, Card]:
    found = cards_of(node, Config(), time.monotonic())
    return {card.title: card for card in found}


def app_of(stage: Stage | None = None, config: Config = CONFIG) -> WebApp:
    stage = stage or Stage()
    return WebApp(config, stage.judge, stage.registry, stage.cases)


@contextlib.asynccontextmanager
async def pages_of(stage: Stage | None = None, config: Config = CONFIG) -> AsyncIterator[str]:
    """Serve that exporter's pages; gives the URL. In virtual time, on a unix socket."""
    app = app_of(stage, config)
    if not isinstance(asyncio.get_running_loop(), VirtualLoop):
        async with serving(app) as url:
            yield url
        return
    with tempfile.TemporaryDirectory() as folder, socket.socket(socket.AF_UNIX) as listening:
        path = Path(folder) / "web.sock"
        listening.bind(str(path))
        listening.listen()
        pages, node = {**app.pages(), **app.probes()}, app.judge.node
        async with Server(pages, listening, WebPolicy("", node), node):
            yield f"http://{quote(str(path), safe='')}/"


TLS = "tls_server_config:\n  cert_file: server.crt\n  key_file: server.key\n"
MTLS = TLS + "  client_auth_type: RequireAndVerifyClientCert\n  client_ca_file: ca.crt\n"
# Prints the bytes of Python's that a connection takes in its handshake, under that configuration.
BUFFERED = """
import asyncio, socket, sys, tracemalloc
from exporter.web.access.policy import WebPolicy

async def main():
    loop = asyncio.get_running_loop()
    context = WebPolicy(sys.argv[1], None).load().tls.context
    pairs = [socket.socketpair() for _ in range(32)]
    tracemalloc.start()
    tasks = [
        asyncio.ensure_future(loop.connect_accepted_socket(asyncio.Protocol, one, ssl=context))
        for one, _ in pairs
    ]
    await asyncio.sleep(0)
    await asyncio.sleep(0)
    print(tracemalloc.get_traced_memory()[0] // len(pairs))
    for _, other in pairs:
        other.close()
    await asyncio.gather(*tasks, return_exceptions=True)

asyncio.run(main())
"""
ALICE, BOB = ("alice", "opén sesame"), ("bob", "builder")


def hashed(password: str, cost: int = 4) -> str:
    return bcrypt.hashpw(password.encode(), bcrypt.gensalt(cost)).decode()


def users(*logins: tuple[str, str]) -> str:
    lines = (f"  {name}: {hashed(word)}\n" for name, word in logins)
    return "basic_auth_users:\n" + "".join(lines)


class WebFiles:
    """A folder with a web configuration and the files that it names."""

    def __init__(self, folder: Path) -> None:
        self.folder = folder
        self.config = folder / "web.yml"
        self.authority = trustme.CA()
        self.authority.cert_pem.write_to_path(str(folder / "ca.crt"))
        self.certify("server", "localhost", "127.0.0.1")

    @property
    def flag(self) -> str:
        return f"--web.config.file={self.config}"

    def certify(self, file: str, *names: str) -> bytes:
        """Write a new certificate of these names, and its key; the certificate in DER."""
        leaf = self.authority.issue_cert(*names)
        leaf.private_key_pem.write_to_path(str(self.folder / f"{file}.key"))
        leaf.cert_chain_pems[0].write_to_path(str(self.folder / f"{file}.crt"))
        return ssl.PEM_cert_to_DER_cert(leaf.cert_chain_pems[0].bytes().decode())

    def write(self, text: str) -> None:
        self.put(self.config, text.encode())

    def put(self, path: Path, content: bytes) -> None:
        new = self.folder / "new"
        new.write_bytes(content)
        new.replace(path)

    def name_as_in_the_example(self) -> None:
        for end in ("crt", "key"):
            (self.folder / f"server.{end}").rename(self.folder / f"tls.{end}")

    def client(self, *names: str) -> ssl.SSLContext:
        """How a client connects: with a certificate of these names if there are any."""
        context = ssl.create_default_context()
        self.authority.configure_trust(context)
        if names:
            self.authority.issue_cert(*names).configure_cert(context)
        return context

    def served(
        self, text: str | None, config: Config = CONFIG
    ) -> contextlib.AbstractAsyncContextManager[str]:
        """Pages under that configuration, or under the one that is there; gives the URL."""
        if text is not None:
            self.write(text)
        return pages_of(config=replace(config, web_config_file=str(self.config)))


@pytest.fixture
def web_files(tmp_path: Path) -> WebFiles:
    return WebFiles(tmp_path)


STRANGER = "127.0.0.66"
PROBE = b"GET /livez HTTP/1.1\r\nHost: x\r\n\r\n"
REFUSALS = "shadow_pleg_web_refusals_total"
Attack = Callable[..., Coroutine[Any, Any, None]]
Connection = tuple[asyncio.StreamReader, asyncio.StreamWriter]


async def counted(
    url: str,
    reason: str,
    number: int,
    tls: ssl.SSLContext | None = None,
    login: tuple[str, str] | None = None,
) -> None:
    """Wait until that many were refused for that reason; the page is up to half a second old."""
    await answered(
        url + "metrics",
        lambda page: Metrics.read(page.text).value(REFUSALS, reason=reason) >= number,
        f"{reason}: {number}",
        tls=tls,
        login=login,
    )


def port_of(url: str) -> int:
    return urlsplit(url).port or 0


def as_login(name: str, password: str, page: bytes = b"/metrics") -> bytes:
    pair = base64.b64encode(f"{name}:{password}".encode())
    head = b"GET %b HTTP/1.1\r\nHost: localhost\r\nAuthorization: Basic %b\r\n" % (page, pair)
    return head + b"Connection: close\r\n\r\n"


def pages_for(name: str, password: str) -> tuple[bytes, ...]:
    """A request for each page that takes long to make."""
    cases = b"/debug/misses?format="
    pages = (b"/metrics", b"/", cases + b"json", cases + b"html")
    return tuple(as_login(name, password, page) for page in pages)


async def says(
    url: str, sent: bytes, source: str = STRANGER, tls: ssl.SSLContext | None = None
) -> bytes:
    """All that is answered until the other side closes; empty if the connection fails."""
    try:
        async with connection(url, source, tls) as (reader, writer):
            writer.write(sent)
            return await reader.read()
    except OSError:
        return b""


@contextlib.asynccontextmanager
async def connection(
    url: str, source: str = STRANGER, tls: ssl.SSLContext | None = None
) -> AsyncIterator[Connection]:
    """A connection from that address, closed at the end of the block."""
    path = unquote(urlsplit(url).netloc)
    if "/" in path:
        reader, writer = await asyncio.open_unix_connection(path)
    else:
        name, host = "localhost" if tls else None, "::1" if ":" in source else "127.0.0.1"
        reader, writer = await asyncio.open_connection(
            host, port_of(url), local_addr=(source, 0), ssl=tls, server_hostname=name
        )
    try:
        yield reader, writer
    finally:
        writer.close()
        with contextlib.suppress(OSError):
            await writer.wait_closed()


async def probed(reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
    """A probe is answered on that connection, which stays open."""
    writer.write(PROBE)
    assert (await reader.readuntil(b"ok\n")).startswith(b"HTTP/1.1 200 ")


async def is_turned_away(url: str, tls: ssl.SSLContext) -> bool:
    """Whether TLS ends before one byte of HTTP comes; one attempt, which HTTP clients repeat."""
    async with asyncio.timeout(DEADLINE):
        return not await says(
            url, PROBE.replace(b"\r\n\r\n", b"\r\nConnection: close\r\n\r\n"), tls=tls
        )


async def pester(
    url: str,
    source: str = STRANGER,
    tls: ssl.SSLContext | None = None,
    *,
    sent: tuple[bytes, bytes] = (b"", b""),
    every: float = 0.5,
) -> None:
    """Send the first, wait, and send the second without end unless it is empty; connect again."""
    first, then = sent
    while True:
        with contextlib.suppress(OSError):
            async with connection(url, source, tls) as (_, writer):
                try:
                    writer.write(first)
                    await asyncio.sleep(every)
                    while then:
                        writer.write(then)
                        await writer.drain()
                        await asyncio.sleep(every)
                finally:
                    writer.transport.abort()
        await asyncio.sleep(0.01)


# Slow-loris: a header that never ends.
trickle = partial(pester, sent=(b"GET /metrics HTTP/1.1\r\n", b"X-a: b\r\n"), every=0.2)


def gulp(sent: bytes) -> Attack:
    return partial(pester, sent=(b"", sent.replace(b"Connection: close\r\n", b"")), every=0.001)


async def hammer(
    url: str, source: str = STRANGER, tls: ssl.SSLContext | None = None, *, sent: Sequence[bytes]
) -> None:
    for each in itertools.cycle(sent):
        await says(url, each, source, tls)


def flooded(
    attack: Attack, url: str, times: int, sources: Sequence[str] = (STRANGER,)
) -> contextlib.AbstractAsyncContextManager[None]:
    chosen = itertools.islice(itertools.cycle(sources), times)
    return tasks(*(attack(url, source=source) for source in chosen))
