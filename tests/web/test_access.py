"""TLS, certificates, users, headers; and files that change while pages are served."""

import asyncio
import base64
import contextlib
import errno
import gc
import os
import ssl
import statistics
import threading
import time
from asyncio.sslproto import SSLProtocol
from collections.abc import AsyncIterator, Iterator
from dataclasses import replace
from datetime import UTC, datetime, timedelta
from pathlib import Path

import pytest
import trustme
import yaml
from structlog.typing import EventDict

from exporter.node.state import Node
from exporter.web.access.guard import Credentials
from exporter.web.access.policy import WebPolicy
from exporter.web.access.web_config import Tls
from testbed import servers
from testbed.fixtures import part
from testbed.waiting import until
from tests import ROOT
from tests.support.commands import DEADLINE, answered, fetch
from tests.support.observer import tasks
from tests.support.web import (
    ALICE,
    BOB,
    CONFIG,
    MTLS,
    PROBE,
    TLS,
    WebFiles,
    connection,
    counted,
    hashed,
    is_turned_away,
    pages_of,
    port_of,
    probed,
    says,
    users,
)

SANS = "  client_allowed_sans: [prometheus.monitoring, '2001:DB8::7', 'spiffe://c/prometheus']\n"


async def test_certificate_and_key_may_be_inline(web_files: WebFiles) -> None:
    indented = {
        name: (web_files.folder / f"server.{end}").read_text().replace("\n", "\n    ")
        for name, end in (("cert", "crt"), ("key", "key"))
    }
    text = "tls_server_config:\n" + "".join(f"  {k}: |\n    {v}\n" for k, v in indented.items())
    async with web_files.served(text) as url:
        assert (await fetch(url + "livez", tls=web_files.client())).status == 200


@pytest.mark.parametrize("optional", [False, True], ids=["required", "optional"])
async def test_client_certificates_are_verified(web_files: WebFiles, *, optional: bool) -> None:
    text = MTLS.replace("RequireAndVerifyClientCert", "VerifyClientCertIfGiven")
    async with web_files.served(text if optional else MTLS) as url:
        for client in (web_files.client("anyone"), *([web_files.client()] * optional)):
            assert (await fetch(url + "metrics", tls=client)).status == 200
        assert optional or await is_turned_away(url, web_files.client())
        for wrong in unfit(web_files.authority):
            stranger = web_files.client()
            wrong.configure_cert(stranger)
            assert await is_turned_away(url, stranger)
        await counted(url, "handshake", 4 if optional else 5, client)


def unfit(authority: trustme.CA) -> Iterator[trustme.LeafCert]:
    """Certificates of another authority, of another time, and of one whose owner is none."""
    now, day = datetime.now(UTC), timedelta(days=1)
    yield trustme.CA().issue_cert("anyone")
    yield authority.issue_cert("anyone", not_after=now - day)
    yield authority.issue_cert("anyone", not_before=now + day)
    leaf = authority.issue_cert("anyone")
    pem = leaf.cert_chain_pems[0].bytes()
    made = trustme.CA.from_pem(pem, leaf.private_key_pem.bytes()).issue_cert("anyone")
    yield trustme.LeafCert(made.private_key_pem.bytes(), made.cert_chain_pems[0].bytes(), [pem])


async def test_only_allowed_names_get_in(web_files: WebFiles) -> None:
    async with web_files.served(MTLS + SANS) as url:
        for names in ("prometheus.monitoring", "2001:db8:0::7", "other prometheus.monitoring"):
            client = web_files.client(*names.split())
            assert (await fetch(url + "metrics", tls=client)).status == 200
        for name in (
            "grafana.monitoring",
            "x.prometheus.monitoring",
            "2001:db8::8",
            "*.monitoring",
        ):
            assert (await says(url, PROBE, tls=web_files.client(name))).startswith(b"HTTP/1.1 403")
        await counted(url, "credentials", 4, client)


def test_a_name_of_a_directory_in_a_certificate_is_no_allowed_one() -> None:
    """OpenSSL shows it as a tuple; the other names of such a certificate count."""
    tls = Tls(ssl.create_default_context(), frozenset({"prometheus.monitoring"}))
    names = [("DirName", ((("commonName", "prometheus.monitoring"),),))]
    assert not tls.admits({"subjectAltName": names})
    assert tls.admits({"subjectAltName": [*names, ("DNS", "prometheus.monitoring")]})


GOOD = "ECDHE-ECDSA-AES128-GCM-SHA256"
# A version, and what a client offers in it: a cipher's name, or one of OpenSSL's groups.
OFFERS = (
    *(("TLSv1", "ALL"), ("TLSv1_1", "ALL"), ("TLSv1_2", GOOD), ("TLSv1_3", GOOD)),
    *(("TLSv1_2", weak) for weak in ("ECDHE-ECDSA-AES128-SHA", "eNULL", "aNULL", "PSK", "kRSA")),
)


@pytest.mark.filterwarnings("ignore:ssl.TLSVersion:DeprecationWarning")
@pytest.mark.parametrize(
    ("lines", "versions"),
    [
        pytest.param("", ["TLSv1_2", "TLSv1_3"], id="both where nothing is chosen"),
        pytest.param("  min_version: TLS13\n", ["TLSv1_3"], id="the newer one alone"),
        pytest.param("  max_version: TLS12\n", ["TLSv1_2"], id="the older one alone"),
    ],
)
async def test_only_versions_that_were_chosen_and_no_weak_one_or_cipher_is_negotiated(
    web_files: WebFiles, lines: str, versions: list[str]
) -> None:
    served = []
    async with web_files.served(TLS + lines) as url:
        for version, ciphers in OFFERS:
            context = web_files.client()
            context.set_ciphers(f"{ciphers}:@SECLEVEL=0")
            context.minimum_version = context.maximum_version = ssl.TLSVersion[version]
            if not await is_turned_away(url, context):
                served.append((version, ciphers))
    assert served == [(version, GOOD) for version in versions]


USERS = users(ALICE, BOB)


def basic(raw: bytes) -> str:
    return "Basic " + base64.b64encode(raw).decode()


async def test_passwords_let_in(web_files: WebFiles) -> None:
    """As for the tools that make the hashes, only the first 72 bytes of one count."""
    long = "x" * 72
    headers = (
        *("", "Basic", "Basic !!!", basic(b"alice"), basic(b"\xff:\xff")),
        *(basic(b"alice:x").replace("Basic", "Bearer"), "Basic " + "A" * 6000),
    )
    wrong = [("alice", "guess"), ("alice", ""), ("carol", ALICE[1]), ("", ""), ("bob", ALICE[1])]
    wrong += [("long", long[:-1])]
    client = web_files.client()
    async with web_files.served(TLS + users(ALICE, BOB, ("long", long))) as url:
        for login in (ALICE, BOB, ALICE, ("long", long + "y")):
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
    closed = ("", "metrics", "nothing", "livez/", "%6Detrics", "//livez", "static/page.css")
    async with web_files.served(USERS) as url:
        for path in closed:
            assert (await fetch(url + path)).status == 401
        for path in ("livez", "readyz", "live%7A"):
            assert (await fetch(url + path)).status in {200, 503}
        for path in ("", "metrics", "static/page.css"):
            assert (await fetch(url + path, login=ALICE)).status == 200


async def test_headers_are_on_every_answer(web_files: WebFiles) -> None:
    text = """
http_server_config:
  http2: false
  headers:
    X-Frame-Options: deny
    X-Content-Type-Options: nosniff
    X-XSS-Protection: ""
    Content-Security-Policy: default-src 'self'
"""
    async with web_files.served(text + USERS) as url:
        answers = [await fetch(url, login=ALICE), await fetch(url), await fetch(url + "livez")]
    wanted = yaml.safe_load(text)["http_server_config"]["headers"] | {"Server": "shadow-pleg"}
    # One that is empty is not sent, as one that is not named.
    del wanted["X-XSS-Protection"]
    for answer in answers:
        assert answer.headers.items() >= wanted.items()
        assert not answer.headers.keys() & {"X-XSS-Protection", "Strict-Transport-Security"}


@pytest.mark.parametrize("costs", [{"alice": 8}, {"cheap": 4, "dear": 10}])
async def test_a_wrong_password_takes_as_long_whoever_is_named(costs: dict[str, int]) -> None:
    """The time does not show which accounts exist, nor what a hash costs."""
    known = {name: hashed("open", cost=cost) for name, cost in costs.items()}
    took: dict[str, list[float]] = {name: [] for name in (*known, "carol")}
    for name in (*took,) * 7:
        credentials = Credentials()  # with no turn to wait for
        # CPU time, which does not depend on other processes.
        began = time.process_time()
        assert not await credentials.match(known, name, "guess", "a")
        took[name].append(time.process_time() - began)
        credentials.close()
    *others, carol = (statistics.median(times) for times in took.values())
    assert all(0.5 < other / carol < 2 for other in others)
    assert carol > 0.005


@pytest.mark.virtual_time
async def test_wrong_passwords_take_a_fifth_of_a_cpu() -> None:
    """Each pauses four times as long as its check took, one after the other."""
    known, credentials = {"alice": hashed("open", cost=9)}, Credentials()
    began, cpu = time.monotonic(), time.process_time()
    guesses = (credentials.match(known, "alice", "guess", peer) for peer in "ab")
    assert await asyncio.gather(*guesses) == [False, False]
    spent, took = time.process_time() - cpu, time.monotonic() - began
    credentials.close()
    assert took > 3 * spent


OURS = (
    *("", "localhost:9", "x.localhost", "127.0.0.1:9", "[fd00::1]:9", "node-7.example.com:9"),
    *("NODE-7.example.com.", "node-7", "shadow-pleg.monitoring.svc", "a.b.svc.cluster.local"),
)
FOREIGN = ("rebind.attacker.example", "node-7.example.com.evil.org", "127.0.0.1.evil.org", "[::")


@pytest.mark.parametrize("host", [*OURS, *FOREIGN])
async def test_a_foreign_page_reads_no_names_of_pods(web_files: WebFiles, host: str) -> None:
    """A browser takes it for one of its own site: its name resolves to this address."""
    config = replace(CONFIG, node_name="node-7.example.com")
    seen = {"/": 421, "/debug/misses": 421, "/metrics": 200, "/livez": 200, "/static/page.css": 200}
    async with pages_of(config=config) as url:
        for path, foreign in seen.items():
            wanted = foreign if host in FOREIGN else 200
            assert (await fetch(url + path[1:], Host=host)).status == wanted, path
        await counted(url, "host", 2 * (host in FOREIGN))
    # A browser sends no login of another site, and its certificate has another name.
    async with web_files.served(users(ALICE), config=config) as url:
        assert (await fetch(url, login=ALICE, Host=host)).status == 200


async def test_a_client_has_one_check_at_a_time() -> None:
    """Of low priority. Who guesses is refused meanwhile; who is known does not wait."""
    credentials, known = Credentials(), {"alice": hashed("open", cost=8)}
    assert await credentials.match(known, "alice", "open", "scraper")
    guessing = asyncio.create_task(credentials.match(known, "alice", "guess", "stranger"))
    await asyncio.sleep(0)
    assert await credentials.match(known, "alice", "guess again", "stranger") is None
    assert await credentials.match(known, "alice", "open", "stranger")
    new = asyncio.create_task(credentials.match(known, "bob", "x", "other"))
    assert await guessing is await new is False
    (thread,) = (each for each in threading.enumerate() if each.name.startswith("bcrypt"))
    assert os.getpriority(os.PRIO_PROCESS, thread.native_id or 0) > os.getpriority(
        os.PRIO_PROCESS, 0
    )
    credentials.close()


OF_ALICE = users(ALICE)


async def reloaded(url: str, value: float, tls: ssl.SSLContext) -> None:
    said = f"\nshadow_pleg_web_config_last_reload_successful {value}"
    await answered(url + "metrics", lambda page: said in page.text, f"reloaded: {value}", tls=tls)


async def test_a_rotated_certificate_is_used_once_it_is_complete(
    web_files: WebFiles, log: list[EventDict]
) -> None:
    """As cert-manager writes it. Half a rotation keeps the old one, and is logged."""

    async def shown() -> bytes:
        context = ssl.SSLContext(ssl.PROTOCOL_TLS_CLIENT)
        context.check_hostname, context.verify_mode = False, ssl.CERT_NONE
        async with connection(url, tls=context) as (_, writer):
            agreed: ssl.SSLObject = writer.get_extra_info("ssl_object")
            return agreed.getpeercert(binary_form=True) or b""

    async with web_files.served(TLS) as url:
        tls, before = web_files.client(), await shown()
        key = web_files.folder / "server.key"
        own = key.read_bytes()
        web_files.put(key, web_files.authority.issue_cert("x").private_key_pem.bytes())
        await reloaded(url, 0.0, tls)
        assert await shown() == before
        web_files.put(key, own)
        await reloaded(url, 1.0, tls)
        new = web_files.certify("server", "localhost", "127.0.0.1")

        async def is_new() -> bool:
            # A reload ends all connections.
            with contextlib.suppress(OSError):
                return await shown() == new
            return False

        await until(is_new, "the new certificate is shown")
    assert before != new
    (refused,) = (line["error"] for line in log if "not reloaded" in line["event"])
    assert "(key values mismatch)" in refused


async def test_a_reload_ends_open_connections(web_files: WebFiles) -> None:
    """When the authority changes, a client has to show its certificate again."""
    async with web_files.served(MTLS) as url:
        client = web_files.client("prometheus")
        async with connection(url, tls=client) as (reader, writer):
            await probed(reader, writer)
            trustme.CA().cert_pem.write_to_path(str(web_files.folder / "ca.crt"))
            async with asyncio.timeout(DEADLINE):
                with pytest.raises((ConnectionError, asyncio.IncompleteReadError)):
                    await reader.readexactly(1)
        assert await is_turned_away(url, client)


@contextlib.asynccontextmanager
async def followed(files: WebFiles, text: str = OF_ALICE) -> AsyncIterator[tuple[WebPolicy, Node]]:
    files.write(text)
    node = Node()
    policy = WebPolicy(str(files.config), node)
    await policy.settle()
    async with tasks(policy.keep_up()):
        yield policy, node


WHOLE = MTLS + SANS + OF_ALICE
# What a reload refuses, and what it says.
REFUSED = {
    "": "sets nothing: add a section",
    "basic_auth_users:": "expected a name and its bcrypt hash",
    OF_ALICE: "tls_server_config: gone: restart",
    MTLS + SANS: "basic_auth_users: gone: restart",
    TLS + OF_ALICE: "client_auth_type: gone: restart",
    MTLS + OF_ALICE: "client_allowed_sans: gone: restart",
}


@pytest.mark.virtual_time
@pytest.mark.parametrize(("text", "said"), REFUSED.items(), ids=range(len(REFUSED)))
async def test_a_file_that_is_emptied_or_broken_or_protects_less_is_logged_once_and_not_taken(
    web_files: WebFiles, log: list[EventDict], text: str, said: str
) -> None:
    """As an editor, a script that opens with O_TRUNC, or an emptied Secret leaves it.

    A whole file that protects less may be half of one that does not; a restart reads it.
    """
    async with followed(web_files, WHOLE) as (policy, node):
        before = policy.policy
        web_files.config.write_text(text)
        await asyncio.sleep(30)
        assert policy.policy is before
        assert not node.web_reloaded
        assert ["not reloaded" in line["event"] for line in log] == [True]
        assert said in log[0]["error"]
        web_files.write(WHOLE)
        await asyncio.sleep(3)
        assert node.web_reloaded


@pytest.mark.virtual_time
async def test_files_that_cannot_be_loaded_for_a_while_are_loaded_again(
    web_files: WebFiles, log: list[EventDict]
) -> None:
    """On a node without a free descriptor, a certificate that was renewed must not be forgotten."""
    async with followed(web_files, TLS) as (policy, node):
        before = policy.policy

        def refuse(*_: object) -> int:
            raise OSError(errno.EMFILE, os.strerror(errno.EMFILE))

        with pytest.MonkeyPatch.context() as patch:
            patch.setattr(os, "memfd_create", refuse)
            web_files.certify("server", "localhost")
            await asyncio.sleep(200)
            assert policy.policy is before
            assert not node.web_reloaded
            assert ["cert, key: not loaded" in line["error"] for line in log] == [True]
        await asyncio.sleep(65)
        assert policy.policy is not before
        assert node.web_reloaded


@pytest.mark.virtual_time
async def test_a_file_that_is_still_being_written_is_not_read(web_files: WebFiles) -> None:
    """Half of it may name fewer users, or a name that is only the beginning of the right one."""
    whole = users(ALICE, BOB)
    async with followed(web_files) as (policy, node):
        with web_files.config.open("w") as file:
            for half in (whole[:40], whole[40:90], whole[90:]):
                await asyncio.sleep(1)
                assert list(policy.policy.users) == [ALICE[0]]
                assert node.web_reloaded
                file.write(half)
                file.flush()
        await asyncio.sleep(2.1)
        assert list(policy.policy.users) == [ALICE[0], BOB[0]]


@pytest.mark.virtual_time
@pytest.mark.parametrize("half", ["", TLS[:30], TLS])
async def test_a_file_that_is_half_written_at_the_start_is_waited_for(
    web_files: WebFiles, half: str
) -> None:
    web_files.write(half)
    access = WebPolicy(str(web_files.config), Node())
    settling = asyncio.create_task(access.settle())
    await asyncio.sleep(0.5)
    web_files.write(TLS + OF_ALICE)
    await asyncio.sleep(1)
    assert not settling.done()
    await settling
    assert list(access.policy.users) == [ALICE[0]]


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
        assert (await fetch(url, login=ALICE)).status == 200
        (tmp_path / "next").symlink_to(new)
        (tmp_path / "next").replace(link)
        await answered(url, lambda page: page.status == 200, "Bob is let in", login=BOB)
        assert (await fetch(url, login=ALICE)).status == 401


DOCS = ROOT / "docs"
NAME = "prometheus-k8s.monitoring.svc"


async def test_prometheus_scrapes_what_the_example_protects(web_files: WebFiles) -> None:
    web_files.name_as_in_the_example()
    web_files.certify("client", NAME)
    (web_files.folder / "password").write_text("change me")
    page = (DOCS / "access-control.md").read_text(encoding="utf-8")
    [block] = [each for each in page.split("```yaml\n") if each.startswith("scrape_configs")]
    block = block.partition("```")[0].replace("/etc/prometheus/shadow-pleg", str(web_files.folder))
    config = yaml.safe_load(block.replace("_name: shadow-pleg", "_name: localhost"))
    config["global"] = {"scrape_interval": "200ms", "scrape_timeout": "200ms"}
    file = web_files.folder / "prometheus.yml"
    example = (DOCS / "web-config.example.yml").read_text(encoding="utf-8")
    async with web_files.served(example) as url:
        [job] = config["scrape_configs"]
        job["static_configs"] = [{"targets": [f"127.0.0.1:{port_of(url)}"]}]
        file.write_text(yaml.safe_dump(config))
        async with servers.prometheus((part("prometheus"),), web_files.folder, file) as at:
            asked = f"{at}/api/v1/query?query=up{{job='localhost'}}"
            await answered(asked, lambda page: ',"1"]' in page.text, "the target is up")


async def test_a_failed_handshake_leaves_nothing_for_the_collector(web_files: WebFiles) -> None:
    """In a flood, what waited for it took 20 MiB."""
    async with web_files.served(TLS) as url:
        gc.collect()
        gc.disable()
        try:
            for _ in range(20):
                async with connection(url):
                    pass
            await counted(url, "handshake", 20, web_files.client())
            kept = sum(isinstance(each, SSLProtocol) for each in gc.get_objects())
        finally:
            gc.enable()
    assert kept < 10
