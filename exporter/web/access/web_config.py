"""The web configuration file, in the format of Prometheus' exporter-toolkit.

An error is one line that names the key, and never a secret.
"""

import os
import re
from collections.abc import Mapping
from pathlib import Path
from typing import Annotated, Any, Final, Literal, NoReturn

import msgspec
from yaml.error import YAMLError

from exporter.errors import ConfigError
from exporter.settings.files import read_file

_LARGEST_BYTES: Final = 128 * 1024
# Printable, and each quote has its end: a policy that was cut has none.
_HEADER: Final = r"^[ -&(-~]*('[ -&(-~]*'[ -&(-~]*)*$"
# A cost from 4, which bcrypt requires, to 14: above it one login takes more than a second of CPU
# time. The 22nd character ends the salt, and only two of its bits are used.
_BCRYPT: Final = r"^\$2[abxy]\$(0[4-9]|1[0-4])\$[./A-Za-z0-9]{21}[.Oeu][./A-Za-z0-9]{31}$"

Pem = Literal["cert", "key", "client_ca"]
_Version = Literal["TLS12", "TLS13"]
_Bcrypt = Annotated[str, msgspec.Meta(pattern=_BCRYPT)]
_Text = Annotated[str, msgspec.Meta(pattern=_HEADER)]


class _Section(msgspec.Struct, frozen=True, forbid_unknown_fields=True, kw_only=True):
    """A mapping that has no other keys than these."""


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

    def files(self, folder: Path) -> dict[Pem, Path]:
        """The files that it names, relative ones in that folder."""
        named: dict[Pem, str | None] = {
            "cert": self.cert_file,
            "key": self.key_file,
            "client_ca": self.client_ca_file,
        }
        return {pem: folder / file for pem, file in named.items() if file}


class _Headers(_Section, frozen=True):
    """The headers that may be set."""

    csp: _Text | None = msgspec.field(name="Content-Security-Policy", default=None)
    hsts: _Text | None = msgspec.field(name="Strict-Transport-Security", default=None)
    sniffing: Literal["nosniff"] | None = msgspec.field(name="X-Content-Type-Options", default=None)
    frames: Literal["deny", "sameorigin"] | None = msgspec.field(
        name="X-Frame-Options", default=None
    )
    xss: _Text | None = msgspec.field(name="X-XSS-Protection", default=None)


class _Http(_Section, frozen=True):
    """`http2` changes nothing: there is none here."""

    http2: bool | None = None
    headers: _Headers | None = None


class WebConfig(_Section, frozen=True):
    """One file. `basic_auth_users`: name to bcrypt hash."""

    tls_server_config: TlsSettings | None = None
    http_server_config: _Http | None = None
    basic_auth_users: dict[str, _Bcrypt] | None = None

    @property
    def headers(self) -> Mapping[str, str]:
        """Those that are set, by name."""
        given = self.http_server_config and self.http_server_config.headers
        found: dict[str, Any] = msgspec.to_builtins(given) if given else {}
        return {name: value for name, value in found.items() if value}


def complain(path: Path, why: str) -> NoReturn:
    """Raise ConfigError with the flag and the file."""
    raise ConfigError(f"--web.config.file: {str(path)!r}: {why}") from None


def read_web_config(path: Path) -> WebConfig:
    """The settings in that file; ConfigError names the key, or the line of what is not YAML."""
    try:
        content = read_file(path, _LARGEST_BYTES)
    except OSError as error:
        complain(path, f"cannot be read: {os.strerror(error.errno or 0)}")
    except ValueError as error:
        complain(path, str(error))
    try:
        return msgspec.yaml.decode(content, type=WebConfig | None) or WebConfig()
    except msgspec.ValidationError as error:
        complain(path, _without_secrets(str(error)))
    except (msgspec.DecodeError, YAMLError, ValueError, RecursionError) as error:
        complain(path, f"is not YAML: {' '.join(str(error).split())}")


def _without_secrets(said: str) -> str:
    """A pattern says nothing to people."""
    if "_users" in said:
        return "basic_auth_users: expected a name and its bcrypt hash: htpasswd -nBC 10"
    words = " of printable characters, with an end to each quote - "
    return re.sub(r" matching regex .*? - ", words, said)
