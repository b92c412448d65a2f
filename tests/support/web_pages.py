"""A web server whose node and configuration a test chooses; certificates, users and files."""

import asyncio
import contextlib
import socket
import ssl
import tempfile
import time
from collections.abc import AsyncIterator
from dataclasses import replace
from pathlib import Path
from urllib.parse import quote

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
