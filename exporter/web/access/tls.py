"""Builds an SSLContext from the settings, or explains in one line why it cannot.

Settings of Go's TLS that Python's OpenSSL cannot implement are refused, never silently ignored.
"""

import ipaddress
import os
import ssl
from asyncio import sslproto
from collections.abc import Iterator, Mapping
from contextlib import ExitStack, contextmanager
from dataclasses import dataclass
from pathlib import Path
from types import MappingProxyType
from typing import Any, Final

from exporter.settings.files import read_file
from exporter.web.access.web_config import Pem, TlsSettings, complain

_LARGEST_BYTES: Final = 1024 * 1024
# Of each connection, instead of 256 KiB: those that a flood has ended wait for Python's collector
# of cycles, and took 300 MiB.
_BUFFER_BYTES: Final = 16 * 1024
_VERSIONS: Final = MappingProxyType(
    {"TLS12": ssl.TLSVersion.TLSv1_2, "TLS13": ssl.TLSVersion.TLSv1_3}
)
_CLIENT_AUTH: Final = MappingProxyType(
    {
        None: ssl.CERT_NONE,
        "NoClientCert": ssl.CERT_NONE,
        "VerifyClientCertIfGiven": ssl.CERT_OPTIONAL,
        "RequireAndVerifyClientCert": ssl.CERT_REQUIRED,
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

    def admits(self, certificate: Mapping[str, Any] | None) -> bool:
        """Whether a verified certificate, as returned by `getpeercert()`, has an allowed name."""
        names = (certificate or {}).get("subjectAltName", ())
        return not self.allowed or any(_plain(name) in self.allowed for _, name in names)


def _plain(text: str) -> str:
    """An IP address in its shortest form, anything else unchanged."""
    try:
        return str(ipaddress.ip_address(text.strip()))
    except ValueError:
        return text


def tls_of(path: Path, settings: TlsSettings, files: Mapping[Pem, Path]) -> Tls:
    """The TLS settings of that file; ConfigError names the key. `files`: what it names."""
    sslproto.SSLProtocol.max_size = _BUFFER_BYTES
    context = ssl.SSLContext(ssl.PROTOCOL_TLS_SERVER)
    context.set_alpn_protocols(["http/1.1"])
    context.options |= ssl.OP_NO_RENEGOTIATION
    try:
        _set_clients(context, settings, _pem(settings, files, "client_ca"))
        _set_versions(context, settings)
        _set_certificate(context, *(_pem(settings, files, name) for name in ("cert", "key")))
    except ValueError as error:
        complain(path, f"tls_server_config.{error}")
    return Tls(context, frozenset(map(_plain, settings.client_allowed_sans or ())))


def _pem(settings: TlsSettings, files: Mapping[Pem, Path], name: Pem) -> bytes:
    """A certificate or key; ValueError if it is not there, or there twice."""
    inline = getattr(settings, name)
    if inline and name in files:
        raise ValueError(f"{name}: set {name} or {name}_file, not both")
    if name not in files:
        return (inline or "").encode()
    try:
        return read_file(files[name], _LARGEST_BYTES)
    except OSError as error:
        why = f"cannot be read: {os.strerror(error.errno or 0)}"
        raise ValueError(f"{name}_file: {str(files[name])!r} {why}") from None
    except ValueError as error:
        raise ValueError(f"{name}_file: {str(files[name])!r} {error}") from None


def _set_clients(context: ssl.SSLContext, settings: TlsSettings, ca: bytes) -> None:
    """Which clients must present a certificate, and from which CA."""
    mode = _CLIENT_AUTH[settings.client_auth_type]
    if bool(ca) != (mode is not ssl.CERT_NONE):
        raise ValueError("client_auth_type: set it and client_ca_file, or neither")
    if settings.client_allowed_sans and mode is not ssl.CERT_REQUIRED:
        raise ValueError(
            "client_allowed_sans: requires client_auth_type RequireAndVerifyClientCert"
        )
    if not ca:
        return
    try:
        context.load_verify_locations(cadata=ca.decode("ascii"))
    except (ssl.SSLError, ValueError):
        raise ValueError("client_ca: holds no certificate in PEM") from None
    context.verify_mode = mode
    # Like Go: trust every certificate in the file, even if it is not a root.
    context.verify_flags |= ssl.VERIFY_X509_PARTIAL_CHAIN


def _set_versions(context: ssl.SSLContext, settings: TlsSettings) -> None:
    """Minimum and maximum version."""
    low, high = _VERSIONS[settings.min_version], _VERSIONS[settings.max_version]
    if low > high:
        raise ValueError("max_version: is lower than min_version")
    context.minimum_version, context.maximum_version = low, high


def _set_certificate(context: ssl.SSLContext, cert: bytes, key: bytes) -> None:
    """The server's certificate."""
    with ExitStack() as stack:
        files = [stack.enter_context(_in_memory(each)) for each in (cert, key)]
        try:
            # Without a callback, OpenSSL would prompt for the password of an encrypted key.
            context.load_cert_chain(files[0], files[1], password=lambda: "")
        except (ssl.SSLError, OSError, ValueError) as error:
            reason = getattr(error, "reason", None) or "no PEM"
            hint = "expected a certificate and its key, in PEM, without a password"
            raise ValueError(f"cert, key: {hint} ({reason.lower().replace('_', ' ')})") from None


@contextmanager
def _in_memory(content: bytes) -> Iterator[str]:
    """A path from which OpenSSL can read the content; in memory only, since it may be a key."""
    descriptor = os.memfd_create("pem", os.MFD_CLOEXEC)
    with os.fdopen(descriptor, "wb") as memory:
        memory.write(content)
        memory.flush()
        yield f"/proc/self/fd/{descriptor}"
