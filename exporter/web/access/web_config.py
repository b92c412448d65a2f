"""The web configuration file, in the format of Prometheus' exporter-toolkit, and the TLS in it.

An error is one line that names the key, never a secret. Settings of Go's TLS that Python's OpenSSL
cannot implement are refused, never silently ignored.
"""

import ipaddress
import os
import re
import ssl
from asyncio import sslproto
from collections.abc import Iterator, Mapping
from contextlib import ExitStack, contextmanager
from dataclasses import dataclass
from pathlib import Path
from typing import Annotated, Any, Final, Literal, NoReturn

import msgspec
from msgspec import UNSET, UnsetType

from exporter.errors import ConfigError
from exporter.settings.files import parsed_yaml, read_file

_LARGEST_BYTES: Final = 128 * 1024
_LARGEST_PEM_BYTES: Final = 1024 * 1024
# TLS buffer of each connection. asyncio's 256 KiB took 300 MiB in a flood, because the buffers of
# closed connections wait for Python's cycle collector.
_BUFFER_BYTES: Final = 16 * 1024
_VERSIONS: Final = {"TLS12": ssl.TLSVersion.TLSv1_2, "TLS13": ssl.TLSVersion.TLSv1_3}
_CLIENT_AUTH: Final = {
    None: ssl.CERT_NONE,
    "NoClientCert": ssl.CERT_NONE,
    "VerifyClientCertIfGiven": ssl.CERT_OPTIONAL,
    "RequireAndVerifyClientCert": ssl.CERT_REQUIRED,
}
_PRINTABLE: Final = r"^[ -~]*\Z"
# A cost from 4, which bcrypt requires, to 14: above it one login takes more than a second of CPU
# time. The 22nd character ends the salt, and only two of its bits are used.
_BCRYPT: Final = r"^\$2[abxy]\$(0[4-9]|1[0-4])\$[./A-Za-z0-9]{21}[.Oeu][./A-Za-z0-9]{31}\Z"

_PEMS: Final = ("cert", "key", "client_ca")
_Version = Literal["TLS12", "TLS13"]
_Bcrypt = Annotated[str, msgspec.Meta(pattern=_BCRYPT)]
_Text = Annotated[str, msgspec.Meta(pattern=_PRINTABLE)]


class _Section(msgspec.Struct, frozen=True, forbid_unknown_fields=True, kw_only=True):
    """A mapping without unknown keys."""


class TlsSettings(_Section, frozen=True):
    """`tls_server_config`: each certificate or key is in a file or inline."""

    cert: str | None = None
    cert_file: str | None = None
    key: str | None = None
    key_file: str | None = None
    client_ca: str | None = None
    client_ca_file: str | None = None
    client_auth_type: (
        Literal["NoClientCert", "VerifyClientCertIfGiven", "RequireAndVerifyClientCert"] | None
    ) = None
    client_allowed_sans: list[str] | None = None
    min_version: _Version = "TLS12"
    max_version: _Version = "TLS13"

    def files(self, folder: Path) -> dict[str, Path]:
        """The files that the settings name; relative paths start in `folder`."""
        named = {pem: getattr(self, f"{pem}_file") for pem in _PEMS}
        return {pem: folder / file for pem, file in named.items() if file}


class _Headers(_Section, frozen=True):
    csp: _Text | None = msgspec.field(name="Content-Security-Policy", default=None)
    hsts: _Text | None = msgspec.field(name="Strict-Transport-Security", default=None)
    sniffing: Literal["nosniff"] | None = msgspec.field(name="X-Content-Type-Options", default=None)
    frames: Literal["deny", "sameorigin"] | None = msgspec.field(
        name="X-Frame-Options", default=None
    )
    xss: _Text | None = msgspec.field(name="X-XSS-Protection", default=None)


class _Http(_Section, frozen=True):
    """`http_server_config`."""

    # Without effect: only HTTP/1.1 is served.
    http2: bool | None = None
    headers: _Headers | None = None


class WebConfig(_Section, frozen=True):
    """The whole file. A section must not be empty: an emptied section would open the server."""

    tls_server_config: TlsSettings | UnsetType = UNSET
    http_server_config: _Http | UnsetType = UNSET
    # Name to bcrypt hash.
    basic_auth_users: Annotated[dict[str, _Bcrypt], msgspec.Meta(min_length=1)] | UnsetType = UNSET

    @property
    def headers(self) -> Mapping[str, str]:
        """The headers to set, by name."""
        given = self.http_server_config and self.http_server_config.headers
        found: dict[str, Any] = msgspec.to_builtins(given) if given else {}
        return {name: value for name, value in found.items() if value}


def complain(path: Path, why: str) -> NoReturn:
    """Raise ConfigError with the flag and the file."""
    raise ConfigError(f"--web.config.file: {str(path)!r}: {why}") from None


def read_web_config(path: Path) -> WebConfig:
    """Read that file; ConfigError names the key, or the line that is not YAML."""
    try:
        said = parsed_yaml(read_file(path, _LARGEST_BYTES))
    except ValueError as error:
        complain(path, str(error))
    try:
        config = msgspec.convert(said, WebConfig)
    except (msgspec.ValidationError, RecursionError) as error:
        complain(path, _without_secrets(str(error)))
    if config == WebConfig():
        complain(path, "sets nothing: add a section, or leave the flag out")
    return config


def _without_secrets(said: str) -> str:
    """The message without any hash, and with words instead of a regular expression."""
    if "_users" in said:
        return "basic_auth_users: expected a name and its bcrypt hash: htpasswd -nBC 10"
    return re.sub(r" matching regex .*? - ", " of printable characters - ", said)


@dataclass(frozen=True, slots=True)
class Tls:
    """The settings for a handshake."""

    context: ssl.SSLContext
    # A client's certificate must have one of these names, if there are any.
    allowed: frozenset[str] = frozenset()

    @property
    def requires_client(self) -> bool:
        """Whether every client needs a certificate."""
        return self.context.verify_mode is ssl.CERT_REQUIRED

    def admits(self, certificate: Mapping[str, Any] | None) -> bool:
        """Whether a verified certificate, as returned by `getpeercert()`, has an allowed name."""
        names = (certificate or {}).get("subjectAltName", ())
        return not self.allowed or any(
            # A name of the type DirName is a tuple.
            isinstance(name, str) and _plain(name) in self.allowed
            for _, name in names
        )


def _plain(text: str) -> str:
    """An IP address in its shortest form, anything else unchanged."""
    try:
        return str(ipaddress.ip_address(text.strip()))
    except ValueError:
        return text


def tls_of(path: Path, settings: TlsSettings, files: Mapping[str, Path]) -> Tls:
    """Load the certificates and keys that the settings name; ConfigError names `path` and key."""
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


def _pem(settings: TlsSettings, files: Mapping[str, Path], name: str) -> bytes:
    """A certificate or key; ValueError if it cannot be read, or is given twice."""
    inline = getattr(settings, name)
    if inline and name in files:
        raise ValueError(f"{name}: set {name} or {name}_file, not both")
    if name not in files:
        return (inline or "").encode()
    try:
        return read_file(files[name], _LARGEST_PEM_BYTES)
    except ValueError as error:
        raise ValueError(f"{name}_file: {str(files[name])!r} {error}") from None


def _set_clients(context: ssl.SSLContext, settings: TlsSettings, ca: bytes) -> None:
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
    # Like Go: trust every certificate in the file, even if it is not a root.
    context.verify_flags |= ssl.VERIFY_X509_PARTIAL_CHAIN
    context.verify_mode = mode


def _set_versions(context: ssl.SSLContext, settings: TlsSettings) -> None:
    low, high = _VERSIONS[settings.min_version], _VERSIONS[settings.max_version]
    if low > high:
        raise ValueError("max_version: is lower than min_version")
    context.minimum_version, context.maximum_version = low, high


def _set_certificate(context: ssl.SSLContext, cert: bytes, key: bytes) -> None:
    with ExitStack() as stack:
        try:
            files = [stack.enter_context(_in_memory(each)) for each in (cert, key)]
        except OSError as error:
            raise ValueError(f"cert, key: not loaded: {os.strerror(error.errno or 0)}") from None
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
