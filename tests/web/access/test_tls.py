"""TLS and client certificates, with a real client."""

from __future__ import annotations

import ssl

import aiohttp
import pytest
import trustme

from exporter.errors import ConfigError
from tests.support.secured import MTLS, TLS, Papers, is_turned_away, knock, metrics, refused, spoken

V12, V13 = ssl.TLSVersion.TLSv1_2, ssl.TLSVersion.TLSv1_3
SANS = "  client_allowed_sans: [prometheus.monitoring, '2001:DB8::7', 'spiffe://c/prometheus']\n"


async def test_pages_come_over_tls(papers: Papers) -> None:
    """The URL that is logged says so, and the certificate is the one that was named."""
    async with papers.served(TLS) as url:
        assert url.startswith("https://")
        answer = await knock(url + "metrics", papers.client())
    assert answer.status == 200
    assert "kube_pod_missed_events_total" in answer.text


async def test_nobody_is_served_without_tls(papers: Papers) -> None:
    """A request in the clear gets no answer."""
    async with papers.served(TLS) as url:
        with pytest.raises(aiohttp.ClientError):
            await knock(url.replace("https", "http") + "metrics")


async def test_a_client_of_another_world_does_not_trust_us(papers: Papers) -> None:
    """It is the client who refuses, and that is counted."""
    async with papers.served(TLS) as url:
        assert await is_turned_away(url, ssl.create_default_context())
        text = (await knock(metrics(url), papers.client())).text
    assert refused(text, "handshake") == 1


async def test_certificate_and_key_may_stand_in_the_file(papers: Papers) -> None:
    """Inline, as a template may put them; no file is made of them."""
    indented = {
        name: (papers.folder / f"server.{end}").read_text().replace("\n", "\n    ")
        for name, end in (("cert", "crt"), ("key", "key"))
    }
    text = "tls_server_config:\n" + "".join(f"  {k}: |\n    {v}\n" for k, v in indented.items())
    async with papers.served(text) as url:
        assert (await knock(url + "livez", papers.client())).status == 200


async def test_client_certificates_are_demanded(papers: Papers) -> None:
    """One of our authority comes in; none, or one of another's, does not."""
    stranger = trustme.CA()
    async with papers.served(MTLS) as url:
        assert (await knock(url + "metrics", papers.client("anybody"))).status == 200
        assert await is_turned_away(url + "metrics", papers.client())
        assert await is_turned_away(url + "metrics", papers.client("anybody", by=stranger))
        text = (await knock(metrics(url), papers.client("anybody"))).text
    assert refused(text, "handshake") == 2


@pytest.mark.parametrize(
    "names",
    [("prometheus.monitoring",), ("2001:db8:0::7",), ("other", "prometheus.monitoring")],
    ids=str,
)
async def test_a_client_with_an_allowed_name_comes_in(
    papers: Papers, names: tuple[str, ...]
) -> None:
    """One of its names is enough; an address is the same however it is written."""
    async with papers.served(MTLS + SANS) as url:
        assert (await knock(url + "metrics", papers.client(*names))).status == 200


@pytest.mark.parametrize(
    "name", ["grafana.monitoring", "x.prometheus.monitoring", "2001:db8::8", "*.monitoring"]
)
async def test_a_client_with_no_allowed_name_stays_out(papers: Papers, name: str) -> None:
    """Our authority's word is not enough: not one byte of HTTP is answered."""
    async with papers.served(MTLS + SANS) as url:
        assert await is_turned_away(url + "metrics", papers.client(name))
        text = (await knock(metrics(url), papers.client("prometheus.monitoring"))).text
    assert refused(text, "handshake") == 1


async def test_a_certificate_is_verified_if_it_is_given(papers: Papers) -> None:
    """Nobody needs one, but a wrong one is not overlooked."""
    text = MTLS.replace("RequireAndVerifyClientCert", "VerifyClientCertIfGiven")
    async with papers.served(text) as url:
        assert (await knock(url, papers.client())).status == 200
        assert (await knock(url, papers.client("anybody"))).status == 200
        assert await is_turned_away(url, papers.client("anybody", by=trustme.CA()))


@pytest.mark.parametrize(
    ("lines", "spoken_by_us"),
    [
        ("", (True, True)),
        ("  min_version: TLS13\n", (False, True)),
        ("  max_version: TLS12\n", (True, False)),
        ("  cipher_suites: [TLS_AES_128_GCM_SHA256]\n", (False, True)),
    ],
    ids=lambda value: str(value).strip(),
)
async def test_versions_are_those_that_were_chosen(
    papers: Papers, lines: str, spoken_by_us: tuple[bool, bool]
) -> None:
    """A client of one version alone comes in or does not."""
    async with papers.served(TLS + lines) as url:
        for version, name, ours in zip(
            (V12, V13), ("TLSv1.2", "TLSv1.3"), spoken_by_us, strict=True
        ):
            if ours:
                assert (await spoken(url, version, papers))[0] == name
            else:
                with pytest.raises((ssl.SSLError, ConnectionError)):
                    await spoken(url, version, papers)


@pytest.mark.parametrize(
    ("go", "openssl"),
    [
        ("TLS_ECDHE_ECDSA_WITH_AES_128_GCM_SHA256", "ECDHE-ECDSA-AES128-GCM-SHA256"),
        ("TLS_ECDHE_ECDSA_WITH_CHACHA20_POLY1305_SHA256", "ECDHE-ECDSA-CHACHA20-POLY1305"),
    ],
)
async def test_a_suite_has_gos_name_and_is_spoken(papers: Papers, go: str, openssl: str) -> None:
    """The only one that is left for TLS 1.2."""
    async with papers.served(TLS + f"  cipher_suites: [{go}, TLS_AES_128_GCM_SHA256]\n") as url:
        assert await spoken(url, V12, papers) == ("TLSv1.2", openssl)


def _sets_x25519() -> bool:
    """Whether this Python does: older ones know only the curves of EC keys."""
    try:
        ssl.SSLContext(ssl.PROTOCOL_TLS_SERVER).set_ecdh_curve("X25519")
    except ssl.SSLError:
        return False
    return True


async def test_a_curve_that_this_python_cannot_set_is_refused(papers: Papers) -> None:
    """In one line, not with a trace; one that it can set is served."""
    config = TLS + "  curve_preferences: [X25519]\n"
    if _sets_x25519():
        async with papers.served(config) as url:
            assert (await knock(url, papers.client())).status == 200
        return
    with pytest.raises(ConfigError, match="curve_preferences: this Python cannot set X25519"):
        async with papers.served(config):
            pass


@pytest.mark.parametrize("curve", ["CurveP256", "CurveP384", "CurveP521"])
async def test_a_curve_can_be_chosen(papers: Papers, curve: str) -> None:
    """A client that knows it comes in; one that knows another only does not."""
    async with papers.served(TLS + f"  curve_preferences: [{curve}]\n") as url:
        assert (await knock(url, papers.client())).status == 200
        other = papers.client()
        other.set_ecdh_curve("secp384r1" if curve == "CurveP256" else "prime256v1")
        assert await is_turned_away(url, other)
