"""One reading over real HTTP and TLS: what is asked, what goes wrong, and what is said of it."""

import asyncio
import gzip
import os
import re
import ssl
import subprocess
import sys
import time
from dataclasses import dataclass, replace
from pathlib import Path
from typing import Any

import pytest
import trustme
from aiohttp import web
from hypothesis import given
from hypothesis import strategies as st

from alerts.terms import RENAMED
from exporter.errors import KubeletError
from exporter.kubelet.client import KubeletClient
from exporter.kubelet.page import Page
from exporter.kubelet.state import KubeletReading
from exporter.model.labels import Gate
from exporter.settings.config import Config, KubeletTls
from tests.support import kubelets as server
from tests.support.kubelets import MIB, Answer, FakeKubelet, KubeletPage, kubelet
from tests.support.peers import http_peer


@dataclass(frozen=True, slots=True)
class Papers:
    """A certificate for 127.0.0.1, the file of its authority, and a file with a token."""

    server: ssl.SSLContext
    ca: Path
    token: Path
    authority: trustme.CA


@pytest.fixture
def papers(tmp_path: Path) -> Papers:
    """Files for the client, and a context for the kubelet."""
    authority = trustme.CA()
    server = ssl.create_default_context(ssl.Purpose.CLIENT_AUTH)
    authority.issue_cert("127.0.0.1").configure_cert(server)
    ca, token = tmp_path / "ca.crt", tmp_path / "token"
    authority.cert_pem.write_to_path(str(ca))
    token.write_text("first-token\n", encoding="ascii")
    return Papers(server, ca, token, authority)


RUBBISH = b"\xff\x00\x01" * 1000


def config_of(fake: FakeKubelet, **others: Any) -> Config:  # noqa: ANN401 - as many types as settings
    """Settings that name this kubelet."""
    return Config(kubelet_metrics_url=fake.url, **others)


def trusting(fake: FakeKubelet, papers: Papers) -> Config:
    """The token, and the authority of its certificate."""
    return config_of(fake, kubelet_token_file=papers.token, kubelet_ca_file=papers.ca)


async def refusal(config: Config) -> tuple[str, str]:
    """Why a reading fails: the reason that is counted, and the words."""
    with pytest.raises(KubeletError) as caught:
        await KubeletClient(config).read()
    said = str(caught.value)
    assert "\n" not in said
    return caught.value.reason, said


async def test_a_page_is_read_over_http() -> None:
    """As from the read-only port: no token, nothing compressed, no more than the text format."""
    async with kubelet(KubeletPage(gate=True)) as fake:
        before = time.monotonic()
        said = await KubeletClient(config_of(fake)).read()
        assert said.gate is Gate.ON
        assert before <= said.requested <= time.monotonic()
        ((_, headers),) = fake.requests
    assert "Authorization" not in headers
    assert headers["Accept-Encoding"] == "identity"
    assert headers["Accept"] == "text/plain;version=0.0.4"


async def test_a_page_is_read_over_tls_with_the_token_and_the_authority_of_now(
    papers: Papers,
) -> None:
    """A projected token is rotated: the next reading takes the new one.

    What is in the CA's file now is trusted, root or not, as Go has it, and nothing from before.
    """
    async with kubelet(tls=papers.server) as fake:
        client = KubeletClient(trusting(fake, papers))
        await client.read()
        papers.token.write_text("second-token", encoding="ascii")
        await client.read()
        sent = [headers["Authorization"] for _, headers in fake.requests]
        assert sent == ["Bearer first-token", "Bearer second-token"]
        child = papers.authority.create_child_ca()
        child.cert_pem.write_to_path(str(papers.ca))
        with pytest.raises(KubeletError, match="not trusted"):
            await client.read()
        child.issue_cert("127.0.0.1").configure_cert(papers.server)
        assert (await client.read()).gate is Gate.OFF


async def test_a_certificate_of_its_own_is_taken_where_that_is_wished(papers: Papers) -> None:
    """As kubelets without a signed one have it; the token is sent all the same."""
    async with kubelet(tls=papers.server) as fake:
        wish = KubeletTls.INSECURE_SKIP_VERIFY
        client = KubeletClient(config_of(fake, kubelet_tls=wish, kubelet_token_file=papers.token))
        assert (await client.read()).gate is Gate.OFF
        assert fake.requests[0][1]["Authorization"] == "Bearer first-token"


@pytest.mark.parametrize("name", ["localhost", "10.11.12.13"], ids=["name", "address"])
async def test_a_certificate_for_another_host_is_not_trusted(papers: Papers, name: str) -> None:
    """Signed by the right authority, and somebody else's: it does not get the token."""
    papers.authority.issue_cert(name).configure_cert(papers.server)
    async with kubelet(tls=papers.server) as fake:
        reason, said = await refusal(trusting(fake, papers))
        assert (reason, fake.requests) == ("tls", [])
    assert "certificate is not trusted" in said
    assert "--kubelet-ca-file" in said


async def test_a_certificate_of_an_unknown_authority_is_not_trusted(papers: Papers) -> None:
    """Without --kubelet-ca-file the system's authorities decide; what to do is said."""
    async with kubelet(tls=papers.server) as fake:
        reason, said = await refusal(config_of(fake, kubelet_token_file=papers.token))
        assert (reason, fake.requests) == ("tls", [])
    assert said == (
        "its certificate is not trusted (unable to get local issuer certificate): name"
        " the CA that signed it with --kubelet-ca-file; where the kubelet signed it itself, see"
        " docs/kubelet.md"
    )


async def test_http_where_tls_is_expected_and_the_other_way_round(papers: Papers) -> None:
    """A wrong scheme is a TLS error, or at least no answer."""
    async with kubelet() as fake:
        config = config_of(fake)
        secure = replace(
            config, kubelet_metrics_url=config.kubelet_metrics_url.replace("p:", "ps:")
        )
        reason, said = await refusal(secure)
        assert (reason, fake.requests) == ("tls", [])
        assert said.startswith("the TLS handshake failed (")
    async with kubelet(tls=papers.server) as fake:
        plain = Config(kubelet_metrics_url=fake.url.replace("https:", "http:"))
        reason, _ = await refusal(plain)
        assert reason in ("absent", "malformed")


ZIPPED = {"body": gzip.compress(b"kubelet_x 1\n"), "headers": {"Content-Encoding": "gzip"}}
WAYS: dict[str, tuple[Answer, str, str]] = {
    "bad_request": (server.status(400), "status", "HTTP 400: does --kubelet-metrics-url need http"),
    "unauthorized": (server.status(401), "unauthorized", "HTTP 401, no valid credentials: give"),
    "forbidden": (server.status(403), "forbidden", "allow `get` on `nodes/metrics` by a Cluster"),
    "busy": (server.status(503), "status", "HTTP 503"),
    "rubbish": (server.answering(body=RUBBISH), "malformed", "no metric of a kubelet"),
    "long_line": (server.answering(body=RUBBISH * 100), "malformed", "a line longer than 64 KiB"),
    "zipped": (server.answering(**ZIPPED), "malformed", "the answer is compressed"),
    "endless": (server.endless, "too_large", "the answer is larger than 16 MiB"),
    "breaks_off": (server.breaks_off, "malformed", "the answer is not whole"),
}


@pytest.mark.parametrize("way", WAYS)
async def test_each_kind_of_failed_answer_has_its_own_reason(way: str) -> None:
    """By what an operator does about it."""
    answer, reason, words = WAYS[way]
    async with kubelet() as fake:
        fake.answer = answer
        found, said = await refusal(config_of(fake))
    assert found == reason
    assert words in said


@pytest.mark.parametrize("answer", [server.hangs, server.dribbles], ids=["hangs", "dribbles"])
@pytest.mark.virtual_time
async def test_a_kubelet_that_is_too_slow_is_left(answer: Answer) -> None:
    """Also where a line comes every now and then."""
    async with kubelet() as fake:
        fake.answer = answer
        began = time.monotonic()
        reason, said = await refusal(config_of(fake))
        assert time.monotonic() - began == pytest.approx(10, abs=0.1)
    assert (reason, said) == ("timeout", "no whole answer within 10 s")


async def test_a_kubelet_that_is_not_there_is_absent() -> None:
    """Nothing listens there, or the host does not exist."""
    async with kubelet() as fake:
        config = config_of(fake)
    assert await refusal(config) == ("absent", "no answer: Connection refused")
    reason, _ = await refusal(Config(kubelet_metrics_url="http://kubelet.invalid:10250/metrics"))
    assert reason == "absent"


@pytest.mark.parametrize(
    ("words", "reason"), [(b"", "absent"), (b"220 mail.invalid ESMTP\r\n", "malformed")]
)
async def test_what_speaks_no_http_is_no_kubelet(words: bytes, reason: str) -> None:
    """A port may belong to anybody: it hangs up, or says something else."""
    async with http_peer(words) as url:
        found, _ = await refusal(Config(kubelet_metrics_url=f"{url}/metrics"))
    assert found == reason


@pytest.mark.parametrize("number", [301, 302, 303, 307, 308])
async def test_a_redirect_is_not_followed(papers: Papers, number: int) -> None:
    """The host it leads to would get the token."""
    async with kubelet() as other, kubelet(tls=papers.server) as fake:
        fake.answer = server.status(number, Location=other.url)
        reason, said = await refusal(trusting(fake, papers))
        assert (reason, other.requests) == ("status", [])
    assert said == f"HTTP {number}: redirects are not followed, to protect the token"


async def test_no_proxy_gets_the_token(monkeypatch: pytest.MonkeyPatch, papers: Papers) -> None:
    """Whatever the environment says: the kubelet is on this node."""
    async with kubelet() as proxy, kubelet() as fake:
        for name in ("http_proxy", "HTTP_PROXY", "all_proxy"):
            monkeypatch.setenv(name, proxy.url.removesuffix("/metrics"))
        await KubeletClient(config_of(fake, kubelet_token_file=papers.token)).read()
        assert (len(fake.requests), proxy.requests) == (1, [])


PIPE = b"a pipe"
GONE = "cannot be read: No such file or directory"
ONE_LINE = "holds no token: one line is expected"
NO_PEM = "holds no certificate in PEM"
UNUSABLE: dict[str, tuple[str, bytes | None, str]] = {
    **{f"{it} missing": (it, None, GONE) for it in ("token", "ca")},
    **{
        f"token {content!r}": ("token", content, ONE_LINE)
        for content in (b"", b" \n", b"first\nsecond", "tökén".encode())
    },
    "token large": ("token", b"x" * 70_000, "is larger than 64 KiB"),
    # Not waited for: another process may never write into it.
    "token pipe": ("token", PIPE, "is not a file"),
    **{f"ca {content!r}": ("ca", content, NO_PEM) for content in (b"", b"no", b"\xff\xfe")},
}


@pytest.mark.parametrize("case", UNUSABLE)
async def test_a_file_that_cannot_be_used_is_named_and_not_shown(papers: Papers, case: str) -> None:
    """By flag and path; nothing is sent without it."""
    name, content, says = UNUSABLE[case]
    path = papers.token if name == "token" else papers.ca
    path.unlink()
    if content is PIPE:
        os.mkfifo(path)
    elif content is not None:
        path.write_bytes(content)
    async with kubelet(tls=papers.server) as fake, asyncio.timeout(5):
        reason, said = await refusal(trusting(fake, papers))
        assert (reason, fake.requests) == ("credentials", [])
    assert said == f"--kubelet-{name}-file: '{path}' {says}"


async def test_no_message_shows_the_token(papers: Papers) -> None:
    """Whatever goes wrong, and however the other side repeats it."""
    secret = "very-secret"  # noqa: S105 - of no use to anybody
    papers.token.write_text(secret, encoding="ascii")

    async def echo(request: web.Request) -> web.StreamResponse:
        return web.Response(status=403, text=request.headers["Authorization"])

    async with kubelet(tls=papers.server) as fake:
        for answer in (
            echo,
            server.breaks_off,
            server.endless,
            server.answering(body=b"Bearer very-secret"),
        ):
            fake.answer = answer
            _, said = await refusal(trusting(fake, papers))
            assert secret not in said
        assert len(fake.requests) == 4


ASKED = 7.0


def said_of(text: str, piece: int = 1 << 16) -> KubeletReading:
    """The reading of a page that comes in pieces of that many bytes."""
    content, page = text.encode(errors="surrogateescape"), Page()
    for at in range(0, len(content), piece):
        page.feed(content[at : at + piece])
    return page.reading(ASKED)


@pytest.mark.parametrize(
    ("gate", "found"), [(True, Gate.ON), (False, Gate.OFF), (None, Gate.UNLISTED)]
)
def test_the_gate_is_what_the_kubelet_says(*, gate: bool | None, found: Gate) -> None:
    """On, off, or no such gate; and the other values of PLEG."""
    page = KubeletPage(gate=gate, stream_errors=2, events=2)
    assert said_of(page.text()) == KubeletReading(
        requested=ASKED,
        gate=found,
        version="v1.33.4",
        discards=3.0,
        stream_errors=2.0,
        events=2.0,
        connections=1.0,
    )


@pytest.mark.parametrize(
    ("first", "renamed"), [(first, renamed) for first, (renamed, *_) in RENAMED.items()]
)
def test_a_counter_is_known_by_either_name(first: str, renamed: str) -> None:
    """A kubelet that calls it otherwise says the same."""
    text = KubeletPage(gate=True, stream_errors=2, events=2).text()
    other = re.sub(rf"\b{first}\b", renamed, text)
    assert other != text
    assert said_of(other) == said_of(text)


def test_what_a_kubelet_does_not_say_is_not_known() -> None:
    """A kubelet without the gate has no metrics of it, and an old one no build."""
    text = KubeletPage().text()
    said = said_of(
        re.sub(r"^(kubernetes_build_info|kubelet_pleg).*\n", "", text, flags=re.MULTILINE)
    )
    assert said == KubeletReading(requested=ASKED, gate=Gate.OFF)


@given(st.integers(min_value=1, max_value=5000))
def test_how_a_page_is_cut_does_not_matter(piece: int) -> None:
    """A piece may end in the middle of a line, or of a letter."""
    text = KubeletPage(gate=True, version="v1.33.4+é").text()
    assert said_of(text, piece) == said_of(text)


def test_a_version_is_cut() -> None:
    """It is logged."""
    assert said_of(KubeletPage(version="v1" * 20_000).text()).version == "v1" * 32


@pytest.mark.parametrize("number", ["NaN", "+Inf"])
def test_a_number_that_is_none_is_not_said(number: str) -> None:
    """It cannot be counted with."""
    text = KubeletPage().text().replace("discard_events 3", f"discard_events {number}")
    assert said_of(text).discards is None


@pytest.mark.parametrize(
    ("line", "says"),
    [
        ('kubernetes_feature_enabled{name="EventedPLEG",stage=""} 0.5', "contradicts itself"),
        ('kubernetes_feature_enabled{name="EventedPLEG",stage="BETA"} 1', "contradicts itself"),
        ('kubernetes_feature_enabled{name="EventedPLEG" 1', "not in Prometheus' text format"),
        ("kubelet_pleg_discard_events \udcff", "not in Prometheus' text format"),
        ("x" * 70_000, "a line longer than 64 KiB"),
        ("kubelet_pleg_discard_events 1\n" * 65, "repeats itself"),
    ],
)
def test_a_page_that_cannot_be_is_refused(line: str, says: str) -> None:
    """Rather than believed in parts."""
    with pytest.raises(KubeletError, match=says) as caught:
        said_of(f"{KubeletPage().text()}{line}")
    assert caught.value.reason == "malformed"


@pytest.mark.parametrize("text", ["", "<html><body>login</body></html>", "node_load1 0.5\n"])
def test_what_is_no_kubelets_page_is_named(text: str) -> None:
    """A wrong URL answers, too; a gate that is not there must not be taken for an old kubelet."""
    with pytest.raises(KubeletError, match="no metric of a kubelet: does the URL name one"):
        said_of(text)


# 3 MB, as a full node has it.
LARGE = """
import tracemalloc
from exporter.kubelet.page import Page
from tests.support.kubelets import MIB, KubeletPage
content, page = KubeletPage(bytes=3 * MIB).text().encode(), Page()
tracemalloc.start()
for at in range(0, len(content), 1 << 16):
    page.feed(content[at : at + (1 << 16)])
page.reading(7.0)
print(tracemalloc.get_traced_memory()[1])
"""


def test_a_large_page_takes_little_memory() -> None:
    """Never more than some pieces of it are held; in a process in which nothing else goes on."""
    command = [sys.executable, "-c", LARGE]
    ran = subprocess.run(command, check=True, capture_output=True, text=True)
    assert 0 < int(ran.stdout) < MIB // 2
