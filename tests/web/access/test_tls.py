"""TLS and client certificates, with a real client."""

import ssl

import aiohttp
import pytest
import trustme

from tests.support.commands import fetch
from tests.support.secured import MTLS, TLS, WebFiles
from tests.support.web_clients import PROBE, counted, is_turned_away, negotiated, says

SANS = "  client_allowed_sans: [prometheus.monitoring, '2001:DB8::7', 'spiffe://c/prometheus']\n"


async def test_pages_come_over_tls_only(web_files: WebFiles) -> None:
    """The URL that is logged says so; a client that does not trust the certificate is counted."""
    async with web_files.served(TLS) as url:
        assert url.startswith("https://")
        answer = await fetch(url + "metrics", tls=web_files.client())
        assert answer.status == 200
        assert "kube_pod_missed_events_total" in answer.text
        with pytest.raises(aiohttp.ClientError):
            await fetch(url.replace("https", "http") + "metrics")
        assert await is_turned_away(url, ssl.create_default_context())
        await counted(url, "handshake", 2, web_files.client())


async def test_certificate_and_key_may_be_inline(web_files: WebFiles) -> None:
    """As a template may write them; no file is made of them."""
    indented = {
        name: (web_files.folder / f"server.{end}").read_text().replace("\n", "\n    ")
        for name, end in (("cert", "crt"), ("key", "key"))
    }
    text = "tls_server_config:\n" + "".join(f"  {k}: |\n    {v}\n" for k, v in indented.items())
    async with web_files.served(text) as url:
        assert (await fetch(url + "livez", tls=web_files.client())).status == 200


@pytest.mark.parametrize(
    ("text", "accepted", "refused"),
    [
        (MTLS, ["anyone"], [""]),
        (MTLS.replace("RequireAndVerifyClientCert", "VerifyClientCertIfGiven"), ["", "anyone"], []),
    ],
    ids=["required", "optional"],
)
async def test_client_certificates_are_verified(
    web_files: WebFiles, text: str, accepted: list[str], refused: list[str]
) -> None:
    """Not one byte of HTTP is answered without one; another authority's is always refused."""
    async with web_files.served(text) as url:
        for names in accepted:
            client = web_files.client(*names.split())
            assert (await fetch(url + "metrics", tls=client)).status == 200
        for names in refused:
            assert await is_turned_away(url, web_files.client(*names.split()))
        assert await is_turned_away(url, web_files.client("anyone", by=trustme.CA()))
        await counted(url, "handshake", len(refused) + 1, web_files.client(accepted[-1]))


async def test_only_allowed_names_get_in(web_files: WebFiles) -> None:
    """One of a certificate's names is enough; an address is the same however it is written."""
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


SUITE = "TLS_ECDHE_ECDSA_WITH_AES_128_GCM_SHA256"
CHACHA = "TLS_ECDHE_ECDSA_WITH_CHACHA20_POLY1305_SHA256"


@pytest.mark.parametrize(
    ("lines", "versions", "cipher"),
    [
        ("", ["TLSv1.2", "TLSv1.3"], None),
        ("  min_version: TLS13\n", ["TLSv1.3"], None),
        ("  max_version: TLS12\n", ["TLSv1.2"], None),
        ("  cipher_suites: [TLS_AES_128_GCM_SHA256]\n", ["TLSv1.3"], None),
        (
            f"  cipher_suites: [{SUITE}, TLS_AES_128_GCM_SHA256]\n",
            ["TLSv1.2", "TLSv1.3"],
            "ECDHE-ECDSA-AES128-GCM-SHA256",
        ),
        (
            f"  cipher_suites: [{CHACHA}]\n  max_version: TLS12\n",
            ["TLSv1.2"],
            "ECDHE-ECDSA-CHACHA20-POLY1305",
        ),
    ],
    ids=lambda value: str(value).strip()[:40],
)
async def test_versions_and_ciphers_are_those_that_were_chosen(
    web_files: WebFiles, lines: str, versions: list[str], cipher: str | None
) -> None:
    """A client of one version alone is let in or is not."""
    found = []
    async with web_files.served(TLS + lines) as url:
        for version in (ssl.TLSVersion.TLSv1_2, ssl.TLSVersion.TLSv1_3):
            context = web_files.client()
            context.minimum_version = context.maximum_version = version
            try:
                spoken = await negotiated(url, context)
            except (ssl.SSLError, ConnectionError):
                continue
            found.append(spoken.version())
            used = (spoken.cipher() or ("",))[0]
            assert version is ssl.TLSVersion.TLSv1_3 or used == (cipher or used)
    assert found == versions
