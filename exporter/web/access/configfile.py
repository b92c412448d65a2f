"""Parses the web configuration file; an error is one line with its location.

The format is that of Prometheus' exporter-toolkit. YAML is composed, not constructed: the file
cannot create objects, every error has a line number, and duplicate keys are detected. Certificates
and TLS are handled in `tls`.
"""

from __future__ import annotations

import os
import re
from collections.abc import Callable, Mapping
from dataclasses import dataclass, field
from pathlib import Path
from types import MappingProxyType
from typing import Final, NoReturn

import yaml

from exporter.errors import ConfigError
from exporter.settings.files import read_file

FLAG: Final = "--web.config.file"
_LARGEST: Final = 128 * 1024
_TRUE: Final = frozenset({"true", "yes", "on", "y"})
# Each header that may be set, with its values if only some make sense.
_HEADERS: Final[Mapping[str, tuple[str, ...]]] = MappingProxyType(
    {
        "Content-Security-Policy": (),
        "Strict-Transport-Security": (),
        "X-Content-Type-Options": ("nosniff",),
        "X-Frame-Options": ("deny", "sameorigin"),
        "X-XSS-Protection": (),
    }
)
# The 22nd character ends the salt, and only two of its bits are used.
_BCRYPT: Final = re.compile(
    r"\$2[abxy]\$(?P<cost>[0-9]{2})\$[./A-Za-z0-9]{21}[.Oeu][./A-Za-z0-9]{31}"
)
# bcrypt requires at least 4; above 14 one login takes more than a second of CPU time.
_COSTS: Final = range(4, 15)


@dataclass(frozen=True, slots=True)
class Pem:
    """A certificate or key, in a file or inline. `where` names the key for error messages."""

    where: str
    path: Path | None = None
    text: str = field(default="", repr=False)


@dataclass(frozen=True, slots=True, kw_only=True)
class TlsSettings:
    """`tls_server_config` as written."""

    cert: Pem
    key: Pem
    client_ca: Pem | None = None
    client_auth_type: str = "NoClientCert"
    client_allowed_sans: tuple[str, ...] = ()
    min_version: str = "TLS12"
    max_version: str = "TLS13"
    cipher_suites: tuple[str, ...] = ()
    prefer_server_cipher_suites: bool = True
    curve_preferences: tuple[str, ...] = ()

    @property
    def files(self) -> tuple[Path, ...]:
        """The files that the settings refer to."""
        pems = (self.cert, self.key, self.client_ca)
        return tuple(pem.path for pem in pems if pem and pem.path)


@dataclass(frozen=True, slots=True)
class WebConfig:
    """The settings of one file. `users`: name to bcrypt hash."""

    path: Path
    tls: TlsSettings | None = None
    headers: Mapping[str, str] = field(default_factory=dict)
    users: Mapping[str, str] = field(default_factory=dict, repr=False)

    @property
    def files(self) -> tuple[Path, ...]:
        """The file itself, and those that it refers to."""
        return (self.path, *(self.tls.files if self.tls else ()))


def complain(path: Path, why: str) -> NoReturn:
    """Raise ConfigError with the flag and the file."""
    raise ConfigError(f"{FLAG}: {str(path)!r}: {why}") from None


def read_web_config(path: Path) -> WebConfig:
    """The settings in that file; ConfigError names the line and the key."""
    try:
        text = read_file(path, _LARGEST).decode()
        root = yaml.compose(text, Loader=yaml.SafeLoader)
    except OSError as error:
        complain(path, f"cannot be read: {os.strerror(error.errno or 0)}")
    except UnicodeDecodeError:
        complain(path, "is not UTF-8")
    except yaml.MarkedYAMLError as error:
        mark = error.problem_mark or error.context_mark
        line = f"line {mark.line + 1}: " if mark else ""
        complain(path, f"{line}is not YAML: {' '.join(str(error.problem).split())}")
    except yaml.YAMLError:
        complain(path, "is not YAML: it holds characters that YAML does not allow")
    except RecursionError:
        complain(path, "is nested too deeply")
    except ValueError as error:
        complain(path, str(error))
    return _Reader(path).config(root)


class _Reader:
    """Walks the nodes of one file."""

    def __init__(self, path: Path) -> None:
        self._path = path

    def config(self, root: yaml.Node | None) -> WebConfig:
        sections = self._mapping(root, "the file")
        self._only(sections, {"tls_server_config", "http_server_config", "basic_auth_users"}, "")
        return WebConfig(
            path=self._path,
            tls=self._tls(sections.get("tls_server_config")),
            headers=self._http(sections.get("http_server_config")),
            users=self._users(sections.get("basic_auth_users")),
        )

    def _tls(self, node: yaml.Node | None) -> TlsSettings | None:
        where = "tls_server_config"
        keys = self._mapping(node, where)
        parsers: dict[str, Callable[[yaml.Node, str], object]] = {
            "client_auth_type": self._text,
            "client_allowed_sans": self._texts,
            "min_version": self._text,
            "max_version": self._text,
            "cipher_suites": self._texts,
            "prefer_server_cipher_suites": self._boolean,
            "curve_preferences": self._texts,
        }
        pems = ("cert", "key", "client_ca")
        self._only(keys, {*parsers, *pems, *(f"{pem}_file" for pem in pems)}, where)
        if node is None or not keys:
            return None
        cert, key, client_ca = (self._pem(keys, where, name) for name in pems)
        if cert is None:
            self._fail(node, where, "has neither cert nor cert_file: name the certificate")
        if key is None:
            self._fail(node, where, "has neither key nor key_file: name the certificate's key")
        given = {
            name: parse(keys[name], f"{where}.{name}")
            for name, parse in parsers.items()
            if name in keys and not self._is_blank(keys[name])
        }
        return TlsSettings(cert=cert, key=key, client_ca=client_ca, **given)  # type: ignore[arg-type] # each parser gives what its field holds

    def _pem(self, keys: Mapping[str, yaml.Node], where: str, name: str) -> Pem | None:
        given = [k for k in (name, f"{name}_file") if k in keys and not self._is_blank(keys[k])]
        if not given:
            return None
        chosen = given[0]
        text = self._text(keys[chosen], f"{where}.{chosen}")
        if len(given) > 1:
            self._fail(keys[name], where, f"has both {name} and {name}_file: keep one")
        if chosen == name:
            return Pem(f"{where}.{chosen}", text=text)
        if "\0" in text:
            self._fail(keys[chosen], f"{where}.{chosen}", "is not a path")
        return Pem(f"{where}.{chosen}", path=self._path.parent / text)

    def _http(self, node: yaml.Node | None) -> Mapping[str, str]:
        where = "http_server_config"
        keys = self._mapping(node, where)
        self._only(keys, {"http2", "headers"}, where)
        if "http2" in keys and not self._is_blank(keys["http2"]):
            # This server has no HTTP/2 to switch off.
            self._boolean(keys["http2"], f"{where}.http2")
        where = f"{where}.headers"
        headers = self._mapping(keys.get("headers"), where)
        self._only(headers, set(_HEADERS), where)
        values = {
            name: self._header(node, where, name)
            for name, node in headers.items()
            if not self._is_blank(node)
        }
        return MappingProxyType(values)

    def _header(self, node: yaml.Node, where: str, name: str) -> str:
        value, allowed = self._text(node, f"{where}.{name}"), _HEADERS[name]
        if allowed and value not in allowed:
            self._fail(node, f"{where}.{name}", f"is not one of {', '.join(allowed)}")
        if not (value.isascii() and value.isprintable()):
            self._fail(node, f"{where}.{name}", "holds characters that no header may have")
        return value

    def _users(self, node: yaml.Node | None) -> Mapping[str, str]:
        where = "basic_auth_users"
        users = self._mapping(node, where)
        for name, hashed in users.items():
            if ":" in name:
                self._fail(hashed, f"{where}: {name!r}", "holds a colon, which no user name may")
            found = _BCRYPT.fullmatch(self._text(hashed, f"{where}: {name!r}"))
            if not found:
                self._fail(
                    hashed,
                    f"{where}: {name!r}",
                    "has no bcrypt hash: make one with htpasswd -nBC 10",
                )
            if int(found["cost"]) not in _COSTS:
                cost = f"has a hash of cost {found['cost']}: choose one from 4 to 14"
                self._fail(hashed, f"{where}: {name!r}", cost)
        return MappingProxyType({name: str(hashed.value) for name, hashed in users.items()})

    def _mapping(self, node: yaml.Node | None, where: str) -> dict[str, yaml.Node]:
        if node is None or self._is_blank(node):
            return {}
        if not isinstance(node, yaml.MappingNode):
            self._fail(node, where, "is not a mapping of keys to values")
        found: dict[str, yaml.Node] = {}
        for key, value in node.value:
            name = self._text(key, f"a key of {where}")
            if name in found:
                self._fail(key, where, f"has {name!r} twice")
            found[name] = value
        return found

    def _only(self, keys: Mapping[str, yaml.Node], known: set[str], where: str) -> None:
        for name, node in keys.items():
            if name not in known:
                words = ", ".join(sorted(known))
                self._fail(node, where, f"{name!r} is no key here: choose from {words}")

    def _text(self, node: yaml.Node, where: str) -> str:
        if not isinstance(node, yaml.ScalarNode):
            self._fail(node, where, "is not a text")
        if self._is_blank(node):
            self._fail(node, where, "is empty")
        return str(node.value)

    def _texts(self, node: yaml.Node, where: str) -> tuple[str, ...]:
        if not isinstance(node, yaml.SequenceNode):
            self._fail(node, where, "is not a list")
        return tuple(self._text(each, where) for each in node.value)

    def _boolean(self, node: yaml.Node, where: str) -> bool:
        if node.tag != "tag:yaml.org,2002:bool" or not isinstance(node, yaml.ScalarNode):
            self._fail(node, where, "is neither true nor false")
        return str(node.value).lower() in _TRUE

    @staticmethod
    def _is_blank(node: yaml.Node) -> bool:
        if not isinstance(node, yaml.ScalarNode):
            return False
        return node.tag == "tag:yaml.org,2002:null" or not node.value

    def _fail(self, node: yaml.Node, where: str, why: str) -> NoReturn:
        place = f"line {node.start_mark.line + 1}: {where}".removesuffix(": ")
        complain(self._path, f"{place}: {why}")
