"""Parses the web configuration file; an error is one line that names the key.

The format is that of Prometheus' exporter-toolkit. The file cannot create objects, and duplicate
keys are refused. Certificates and TLS are handled in `tls`.
"""

import os
import re
from collections.abc import Hashable, Iterator, Mapping
from dataclasses import MISSING, dataclass, field, fields
from pathlib import Path
from types import MappingProxyType
from typing import Any, Final, NoReturn

from yaml.constructor import ConstructorError
from yaml.error import MarkedYAMLError, YAMLError
from yaml.loader import BaseLoader
from yaml.nodes import MappingNode

from exporter.errors import ConfigError
from exporter.settings.files import read_file

FLAG: Final = "--web.config.file"
_LARGEST_BYTES: Final = 128 * 1024
_TLS: Final = "tls_server_config"
_HTTP: Final = "http_server_config"
_USERS: Final = "basic_auth_users"
_PEMS: Final = ("cert", "key", "client_ca")
_BLANK: Final = ("", "~", "null", "Null", "NULL")
_BOOLEANS: Final = MappingProxyType(
    {"true": True, "yes": True, "on": True, "false": False, "no": False, "off": False}
)
_WORDS: Final[Mapping[type, str]] = MappingProxyType(
    {str: "a text", list: "a list of texts", bool: "true or false", dict: "a mapping"}
)
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
    """`tls_server_config` as written, with its defaults."""

    cert: Pem
    key: Pem
    client_ca: Pem | None = None
    client_auth_type: str = "NoClientCert"
    client_allowed_sans: list[str] = field(default_factory=list)
    min_version: str = "TLS12"
    max_version: str = "TLS13"
    cipher_suites: list[str] = field(default_factory=list)
    prefer_server_cipher_suites: bool = True
    curve_preferences: list[str] = field(default_factory=list)


# The type of each setting is that of its default.
TLS_KEYS: Final[Mapping[str, type]] = MappingProxyType(
    dict.fromkeys((*_PEMS, *(f"{pem}_file" for pem in _PEMS)), str)
    | {
        each.name: list if each.default is MISSING else type(each.default)
        for each in fields(TlsSettings)
        if each.name not in _PEMS
    }
)


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
        pems = (self.tls.cert, self.tls.key, self.tls.client_ca) if self.tls else ()
        return (self.path, *(pem.path for pem in pems if pem and pem.path))


class _Loader(BaseLoader):
    """Reads every scalar as a text."""


def _mapping(loader: _Loader, node: MappingNode) -> dict[Hashable, object]:
    """A mapping; a key that is given twice is an error."""
    found = loader.construct_mapping(node, deep=True)
    if len(found) == len(node.value):
        return found
    keys = [loader.construct_object(key) for key, _ in node.value]
    twice = next(place for place, key in enumerate(keys) if key in keys[:place])
    problem = f"{keys[twice]!r} is given twice: keep one"
    raise ConstructorError(None, None, problem, node.value[twice][0].start_mark)


_Loader.add_constructor("tag:yaml.org,2002:map", _mapping)


def complain(path: Path, why: str) -> NoReturn:
    """Raise ConfigError with the flag and the file."""
    raise ConfigError(f"{FLAG}: {str(path)!r}: {why}") from None


def read_web_config(path: Path) -> WebConfig:
    """The settings in that file; ConfigError names the key, or the line of what is not YAML."""
    try:
        content = read_file(path, _LARGEST_BYTES).decode()
        sections = dict.fromkeys((_TLS, _HTTP, _USERS), dict)
        file = _checked(_Loader(content).get_single_data(), "", sections)
        http = _checked(file.get(_HTTP), _HTTP, {"http2": bool, "headers": dict})
        return WebConfig(
            path,
            _tls(path.parent, file[_TLS]) if file.get(_TLS) else None,
            dict(_headers(http.get("headers"))),
            dict(_users(file.get(_USERS, {}))),
        )
    except OSError as error:
        complain(path, f"cannot be read: {os.strerror(error.errno or 0)}")
    except UnicodeDecodeError:
        complain(path, "is not UTF-8")
    except MarkedYAMLError as error:
        mark = error.problem_mark or error.context_mark
        line = f"line {mark.line + 1}: " if mark else ""
        complain(path, f"{line}is not YAML: {' '.join(str(error.problem).split())}")
    except YAMLError:
        complain(path, "is not YAML: it holds characters that YAML does not allow")
    except RecursionError:
        complain(path, "is nested too deeply")
    except ValueError as error:
        complain(path, str(error))


def _checked(given: object, where: str, kinds: Mapping[str, type]) -> dict[str, Any]:
    """The settings of a section without the empty ones; ValueError if a key or type is wrong."""
    if given is None or given in _BLANK:
        return {}
    if not isinstance(given, dict):
        raise ValueError(f"{where or 'the file'}: is not a mapping")  # noqa: TRY004 - of the file
    found = {}
    for name, value in given.items():
        if name not in kinds:
            place = f"{where}: " if where else ""
            raise ValueError(f"{place}{name!r} is not a key here: choose from {', '.join(kinds)}")
        if value in _BLANK:
            continue
        kind, texts = kinds[name], value if isinstance(value, list) else ()
        found[name] = _boolean(value) if kind is bool else value
        if not isinstance(found[name], kind) or not all(isinstance(each, str) for each in texts):
            raise ValueError(f"{where}.{name}: is not {_WORDS[kind]}".lstrip("."))
    return found


def _boolean(value: object) -> bool | None:
    # Only of a text: a list of references to lists has few bytes, and no end as a text.
    return _BOOLEANS.get(value.lower()) if isinstance(value, str) else None


def _tls(folder: Path, given: object) -> TlsSettings:
    settings = _checked(given, _TLS, TLS_KEYS)
    for name in _PEMS:
        text, file = settings.get(name), settings.pop(f"{name}_file", None)
        if text and file:
            raise ValueError(f"{_TLS}: has both {name} and {name}_file: keep one")
        if file and "\0" in file:
            raise ValueError(f"{_TLS}.{name}_file: is not a path")
        if file:
            settings[name] = Pem(f"{_TLS}.{name}_file", path=folder / file)
        elif text:
            settings[name] = Pem(f"{_TLS}.{name}", text=text)
        elif name != "client_ca":
            raise ValueError(f"{_TLS}: has neither {name} nor {name}_file: name one")
    return TlsSettings(**settings)


def _headers(given: object) -> Iterator[tuple[str, str]]:
    where = f"{_HTTP}.headers"
    for name, value in _checked(given, where, dict.fromkeys(_HEADERS, str)).items():
        if _HEADERS[name] and value not in _HEADERS[name]:
            raise ValueError(f"{where}.{name}: is not one of {', '.join(_HEADERS[name])}")
        if not (value.isascii() and value.isprintable()):
            raise ValueError(f"{where}.{name}: holds characters that no header may have")
        yield name, value


def _users(given: Mapping[str, object]) -> Iterator[tuple[str, str]]:
    for name, hashed in given.items():
        where = f"{_USERS}: {name!r}"
        if ":" in name:
            raise ValueError(f"{where}: holds a colon, which no user name may")
        found = _BCRYPT.fullmatch(hashed) if isinstance(hashed, str) else None
        if not found:
            raise ValueError(f"{where}: has no bcrypt hash: make one with htpasswd -nBC 10")
        if int(found["cost"]) not in _COSTS:
            raise ValueError(
                f"{where}: has a hash of cost {found['cost']}: choose one from 4 to 14"
            )
        yield name, found[0]
