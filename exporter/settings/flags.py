"""Parsers of flags' texts, one for each kind of value; ConfigError says what was expected."""

import re
from collections.abc import Callable
from dataclasses import dataclass
from enum import Enum
from pathlib import Path
from typing import Final, TypeVar
from urllib.parse import SplitResult, urlsplit

import durationpy

from exporter.errors import ConfigError
from exporter.settings.routes import is_taken

_T = TypeVar("_T")
_Choice = TypeVar("_Choice", bound=Enum)

_PORTS: Final = range(65536)
_WHOLE: Final = 100
_UNITS: Final = {"MiB": 2**20, "GiB": 2**30}
_LARGEST: Final = 2**40
# Go's grammar, plus Prometheus' days and weeks; the library accepts more than that.
_DURATION = re.compile(r"0|(?:(?:\d+(?:\.\d*)?|\.\d+)(?:ns|us|µs|ms|s|m|h|d|w))+", re.ASCII)
_PERCENT = re.compile(r"(?P<percent>[0-9]{1,3}(?:\.[0-9]{1,6})?)%")
_INTEGER = re.compile(r"0|-?[1-9][0-9]{0,19}")
_HOST_PORT = re.compile(r"(?P<host>\[[0-9a-fA-F:.%]+\]|[^:\[\]]*):(?P<port>[0-9]{1,5})")
# sockaddr_un.sun_path holds 108 bytes including the terminating NUL.
_LONGEST_SOCKET_PATH: Final = 107


@dataclass(frozen=True, slots=True)
class ListenAddress:
    """Where to listen; an empty host means all addresses, port 0 any free port."""

    host: str
    port: int

    def __str__(self) -> str:
        host = f"[{self.host}]" if ":" in self.host else self.host
        return f"{host}:{self.port}"


def duration(text: str) -> float:
    """Seconds of a duration such as `10s`, `1m30s`, `500ms` or `7d`."""
    try:
        if _DURATION.fullmatch(text):
            seconds = float(durationpy.from_str(text).total_seconds())
            # A duration that rounds to 0 is refused: 0 switches a limit off.
            if seconds or not re.search("[1-9]", text):
                return seconds
    except (durationpy.DurationError, ValueError, OverflowError):
        pass
    raise ConfigError(f"{text!r} is not a duration: write it like 10s, 1m30s, 500ms or 7d")


def positive_duration(text: str) -> float:
    """Seconds of a duration greater than zero."""
    if seconds := duration(text):
        return seconds
    raise ConfigError(f"{text!r} must be greater than zero, like 10s")


def share(text: str) -> float:
    """A percentage such as `5%`, `0.5%` or `0`, as a fraction of 1."""
    match = _PERCENT.fullmatch(text)
    percent = float(match["percent"]) if match else 0.0
    if percent > _WHOLE or not (match or text == "0"):
        raise ConfigError(f"{text!r} is not a percentage from 0% to 100%: write it like 5%")
    return percent / _WHOLE


def positive_share(text: str) -> float:
    """A percentage greater than zero, as a fraction of 1."""
    if fraction := share(text):
        return fraction
    raise ConfigError(f"{text!r} must be greater than 0%, like 1%")


def whole(least: int, most: int) -> Callable[[str], int]:
    """Parser for integers within these bounds."""

    def parse(text: str) -> int:
        if _INTEGER.fullmatch(text) and least <= int(text) <= most:
            return int(text)
        raise ConfigError(f"{text!r} is not a whole number from {least} to {most}")

    return parse


def byte_count(text: str) -> int:
    """Bytes of a size such as `16MiB`, from 1MiB to 1TiB."""
    match = re.fullmatch(r"(?P<number>[1-9][0-9]{0,5})(?P<unit>MiB|GiB)", text)
    size = int(match["number"]) * _UNITS[match["unit"]] if match else 0
    if not 0 < size <= _LARGEST:
        raise ConfigError(f"{text!r} is not a size from 1MiB to 1024GiB: write it like 16MiB")
    return size


def optional(parse: Callable[[str], _T]) -> Callable[[str], _T | None]:
    """The same parser, except that an empty text gives None."""
    return lambda text: parse(text) if text else None


def absolute_path(example: str) -> Callable[[str], Path]:
    """Parser for the absolute path of a file or directory, like the example."""

    def parse(text: str) -> Path:
        if text.startswith("/") and text.isprintable():
            return Path(text)
        raise ConfigError(f"{text!r} is not an absolute path: write it like {example}")

    return parse


def http_parts(url: str) -> SplitResult | None:
    """The parts of an http or https URL; None for any other text."""
    try:
        parts = urlsplit(url)
        good = parts.scheme in ("http", "https") and parts.hostname and parts.port != 0
    except ValueError:
        return None
    return parts if good and url.isprintable() and " " not in url else None


def folder_url(text: str) -> str:
    """The address of a folder of pages, without the slash at its end."""
    parts = http_parts(text)
    if parts is None or parts.query or parts.fragment:
        raise ConfigError(
            f"{text!r} is not the address of a folder: write it like https://wiki.example/runbooks"
        )
    return text.rstrip("/")


def listen_address(text: str) -> ListenAddress:
    """`:13386`, `127.0.0.1:13386` or `[::1]:13386`."""
    match = _HOST_PORT.fullmatch(text)
    if match is None or int(match["port"]) not in _PORTS:
        raise ConfigError(
            f"{text!r} is not an address: write it like :13386, 127.0.0.1:13386 or [::1]:13386"
        )
    return ListenAddress(match["host"].strip("[]"), int(match["port"]))


def url_path(text: str) -> str:
    """An absolute URL path such as `/metrics`."""
    # Clients resolve `/./` and `/../`, and would ask for another page.
    if not re.fullmatch(r"(/(?!\.\.?(/|\Z))[A-Za-z0-9._~-]*)+", text):
        raise ConfigError(
            f"{text!r} is not a path: it starts with / and holds letters, digits, ._~-/,"
            " but neither /./ nor /../"
        )
    if is_taken(text):
        raise ConfigError(f"{text!r} is the path of another page: choose another, like /metrics")
    return text


def socket_path(text: str, like: str = "/run/containerd/containerd.sock") -> Path:
    """The path of a unix socket, given as `unix:///run/...` or as a bare absolute path."""
    scheme, separator, rest = text.partition("://")
    if not separator:
        scheme, rest = "unix", text.removeprefix("unix:")
    if scheme != "unix" or not rest.startswith("/") or not rest.isprintable():
        raise ConfigError(f"{text!r} is not a unix socket: write it like unix://{like}")
    if len(rest.encode()) > _LONGEST_SOCKET_PATH:
        raise ConfigError(
            f"{text!r} is longer than a unix socket's path may be ({_LONGEST_SOCKET_PATH} bytes)"
        )
    return Path(rest)


def truth(text: str) -> bool:
    """Parser for `true` and `false`."""
    if text not in ("true", "false"):
        raise ConfigError(f"{text!r} is not one of true, false")
    return text == "true"


def one_of(kind: type[_Choice]) -> Callable[[str], _Choice]:
    """Parser for the values of an Enum."""

    def parse(text: str) -> _Choice:
        try:
            return kind(text)
        except ValueError:
            words = ", ".join(str(choice.value) for choice in kind)
            raise ConfigError(f"{text!r} is not one of {words}") from None

    return parse
