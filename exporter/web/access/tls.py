"""Builds an SSLContext from the settings, or explains in one line why it cannot.

It also returns the names of allowed clients. Settings of Go's TLS that Python's OpenSSL cannot
implement are rejected, never silently ignored.
"""

import ipaddress
import os
import ssl
from collections.abc import Iterator, Mapping
from contextlib import contextmanager
from dataclasses import dataclass
from pathlib import Path
from types import MappingProxyType
from typing import Any, Final, NoReturn

from exporter.settings.files import read_file
from exporter.web.access.configfile import Pem, TlsSettings, complain

_LARGEST_BYTES: Final = 1024 * 1024
_VERSIONS: Final = MappingProxyType(
    {"TLS12": ssl.TLSVersion.TLSv1_2, "TLS13": ssl.TLSVersion.TLSv1_3}
)
_RETIRED: Final = frozenset({"TLS10", "TLS11"})
_CLIENT_AUTH: Final = MappingProxyType(
    {
        "NoClientCert": ssl.CERT_NONE,
        "VerifyClientCertIfGiven": ssl.CERT_OPTIONAL,
        "RequireAndVerifyClientCert": ssl.CERT_REQUIRED,
    }
)
_UNVERIFIED: Final = frozenset({"RequestClientCert", "RequireAnyClientCert", "RequireClientCert"})
# Go's names and OpenSSL's. Those of TLS 1.3 may be listed, but are always enabled.
_CIPHERS: Final = MappingProxyType(
    {
        f"TLS_ECDHE_{certificate}_WITH_{go}": f"ECDHE-{certificate}-{openssl}"
        for certificate in ("ECDSA", "RSA")
        for go, openssl in (
            ("AES_128_CBC_SHA", "AES128-SHA"),
            ("AES_256_CBC_SHA", "AES256-SHA"),
            ("AES_128_GCM_SHA256", "AES128-GCM-SHA256"),
            ("AES_256_GCM_SHA384", "AES256-GCM-SHA384"),
            ("CHACHA20_POLY1305_SHA256", "CHACHA20-POLY1305"),
        )
    }
)
_CIPHERS_13: Final = frozenset(
    {"TLS_AES_128_GCM_SHA256", "TLS_AES_256_GCM_SHA384", "TLS_CHACHA20_POLY1305_SHA256"}
)
_CURVES: Final = MappingProxyType(
    {
        "CurveP256": "prime256v1",
        "CurveP384": "secp384r1",
        "CurveP521": "secp521r1",
        "X25519": "X25519",
    }
)


@dataclass(frozen=True, slots=True)
class Tls:
    """What a handshake needs. `allowed`: a client's certificate must have one of these names."""

    context: ssl.SSLContext
    allowed: frozenset[str] = frozenset()

    @property
    def requires_client(self) -> bool:
        """Whether every client needs a certificate."""
        return self.context.verify_mode is ssl.CERT_REQUIRED

    @property
    def ciphers(self) -> frozenset[str]:
        """Names of the cipher suites that a client may choose from."""
        return frozenset(cipher["name"] for cipher in self.context.get_ciphers())

    def admits(self, certificate: Mapping[str, Any] | None) -> bool:
        """Whether a verified certificate, as returned by `getpeercert()`, has an allowed name."""
        if not self.allowed:
            return True
        names = (certificate or {}).get("subjectAltName", ())
        return any(_name(kind, value) in self.allowed for kind, value in names)


def _name(kind: str, value: str) -> str:
    return _plain(value) if kind == "IP Address" else value


def _plain(text: str) -> str:
    """An IP address in its shortest form, anything else unchanged."""
    try:
        return str(ipaddress.ip_address(text.strip()))
    except ValueError:
        return text


def tls_of(path: Path, settings: TlsSettings) -> Tls:
    """The TLS settings of that file as a `Tls`; ConfigError names the key."""
    build = _Builder(path, settings)
    build.clients()
    build.versions()
    build.ciphers()
    build.curves()
    build.certificate()
    return Tls(build.context, frozenset(map(_plain, settings.client_allowed_sans)))


class _Builder:
    """Builds one context."""

    def __init__(self, path: Path, settings: TlsSettings) -> None:
        self._path = path
        self._settings = settings
        self.context = ssl.SSLContext(ssl.PROTOCOL_TLS_SERVER)
        self.context.set_alpn_protocols(["http/1.1"])
        self.context.options |= ssl.OP_NO_RENEGOTIATION

    def clients(self) -> None:
        """Which clients must present a certificate, and from which CA."""
        given, ca = self._settings.client_auth_type, self._settings.client_ca
        if given in _UNVERIFIED:
            why = "asks for certificates without verifying them"
            self._fail("client_auth_type", f"{given} {why}: write RequireAndVerifyClientCert")
        mode = self._one("client_auth_type", given, _CLIENT_AUTH)
        if mode is ssl.CERT_NONE and ca:
            self._fail("client_auth_type", "is not set, and client_ca_file is: set both or none")
        if mode is not ssl.CERT_REQUIRED and self._settings.client_allowed_sans:
            why = "needs client_auth_type RequireAndVerifyClientCert"
            self._fail("client_allowed_sans", why)
        if mode is ssl.CERT_NONE:
            return
        if ca is None:
            self._fail("client_auth_type", f"{given} needs client_ca_file: name the clients' CA")
        try:
            self.context.load_verify_locations(cadata=self._bytes(ca).decode("ascii"))
        except (ssl.SSLError, ValueError):
            complain(self._path, f"{ca.where}: holds no certificate in PEM{_of(ca)}")
        self.context.verify_mode = mode
        # Like Go: trust every certificate in the file, even if it is not a root.
        self.context.verify_flags |= ssl.VERIFY_X509_PARTIAL_CHAIN

    def versions(self) -> None:
        """Minimum and maximum TLS versions."""
        lowest, highest = self._settings.min_version, self._settings.max_version
        for key, given in (("min_version", lowest), ("max_version", highest)):
            if given in _RETIRED:
                self._fail(key, f"{given} is retired (RFC 8996): choose TLS12 or TLS13")
        low = self._one("min_version", lowest, _VERSIONS)
        high = self._one("max_version", highest, _VERSIONS)
        if low > high:
            self._fail("min_version", f"{lowest} is above max_version {highest}")
        self.context.minimum_version, self.context.maximum_version = low, high

    def ciphers(self) -> None:
        """Cipher suites up to TLS 1.2, and whose preference counts."""
        if not self._settings.prefer_server_cipher_suites:
            self.context.options &= ~ssl.OP_CIPHER_SERVER_PREFERENCE
        named = self._settings.cipher_suites
        if not named:
            return
        older = [
            self._one("cipher_suites", name, _CIPHERS) for name in named if name not in _CIPHERS_13
        ]
        if older:
            self.context.set_ciphers(":".join(older))
        elif self._settings.max_version == "TLS12":
            self._fail("cipher_suites", "has suites of TLS 1.3 only, and max_version is TLS12")
        else:
            self.context.minimum_version = ssl.TLSVersion.TLSv1_3

    def curves(self) -> None:
        """The curve; OpenSSL's own order if none is given."""
        named = [
            self._one("curve_preferences", name, _CURVES)
            for name in self._settings.curve_preferences
        ]
        if len(named) > 1:
            self._fail("curve_preferences", "only one can be set here: keep one, or none for all")
        for name in named:
            try:
                self.context.set_ecdh_curve(name)
            except (ssl.SSLError, ValueError):
                self._fail("curve_preferences", f"this Python cannot set {name}: name a P curve")

    def certificate(self) -> None:
        """The server's certificate."""
        cert, key = self._settings.cert, self._settings.key
        with _in_memory(self._bytes(cert)) as cert_path, _in_memory(self._bytes(key)) as key_path:
            try:
                # Without a callback, OpenSSL would prompt for the password of an encrypted key.
                self.context.load_cert_chain(cert_path, key_path, password=lambda: "")
            except (ssl.SSLError, OSError, ValueError) as error:
                complain(self._path, _why(error, cert, key))

    def _one(self, key: str, given: str, known: Mapping[str, Any]) -> Any:  # noqa: ANN401 - of the table's type
        if given not in known:
            self._fail(key, f"{given!r} is not one of {', '.join(known)}")
        return known[given]

    def _bytes(self, pem: Pem) -> bytes:
        if pem.path is None:
            return pem.text.encode()
        try:
            return read_file(pem.path, _LARGEST_BYTES)
        except OSError as error:
            why = f"cannot be read: {os.strerror(error.errno or 0)}"
            complain(self._path, f"{pem.where}: {str(pem.path)!r} {why}")
        except ValueError as error:
            complain(self._path, f"{pem.where}: {str(pem.path)!r} {error}")

    def _fail(self, key: str, why: str) -> NoReturn:
        complain(self._path, f"tls_server_config.{key}: {why}")


def _of(pem: Pem) -> str:
    return f" ({str(pem.path)!r})" if pem.path else ""


def _why(error: Exception, cert: Pem, key: Pem) -> str:
    reason = getattr(error, "reason", None) or ""
    if "KEY_VALUES_MISMATCH" in reason or "KEY_TYPE_MISMATCH" in reason:
        return f"{key.where}: does not belong to {cert.where.rpartition('.')[2]}{_of(key)}"
    both = f"{cert.where}{_of(cert)} and {key.where}{_of(key)}"
    hint = "expected a certificate and its key, in PEM, without a password"
    return f"{both}: {hint}" + (f" ({reason.lower().replace('_', ' ')})" if reason else "")


@contextmanager
def _in_memory(content: bytes) -> Iterator[str]:
    """A path from which OpenSSL can read the content; in memory only, since it may be a key."""
    descriptor = os.memfd_create("pem", os.MFD_CLOEXEC)
    with os.fdopen(descriptor, "wb") as memory:
        memory.write(content)
        memory.flush()
        yield f"/proc/self/fd/{descriptor}"
