"""A client for Prometheus' HTTP API: limits of time and size, one-line PrometheusErrors.

Law: a token or password goes to the configured address only, so no redirect is followed.
"""

import asyncio
import json
import math
import os
import ssl
from base64 import b64encode
from collections.abc import AsyncIterator, Callable, Mapping
from contextlib import asynccontextmanager
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any, Final
from urllib.parse import unquote, urlsplit, urlunsplit

import aiohttp

from exporter.errors import ConfigError, PrometheusError
from fleet.options import Request

_MOST_BYTES: Final = 16 << 20
_MOST_TOKEN_BYTES: Final = 1 << 16
_CONNECT_SECONDS: Final = 10.0
# Of what Prometheus says about a query.
_MOST_CHARACTERS: Final = 300
_MOST_WARNINGS: Final = 5
# No count of a fleet is larger, and no time is later.
_MOST: Final = 1e12
# What reading JSON of another form raises.
_MALFORMED: Final = (
    *(ArithmeticError, AttributeError, LookupError),
    *(RecursionError, TypeError, ValueError),
)
_UNAUTHORISED: Final = (401, 403, 407)
_REDIRECTS: Final = range(300, 400)


@dataclass(frozen=True, slots=True)
class Series:
    """One series of an answer: its labels, and its value, from 0 to 10^12."""

    labels: Mapping[str, str]
    value: float

    def label(self, name: str) -> str:
        """A label's value, empty if missing."""
        return self.labels.get(name, "")


@dataclass(slots=True)
class Prometheus:
    """A connection; `url` has no password, `warnings` came along with the answers.

    `asking` is called before each query with its number.
    """

    url: str
    session: aiohttp.ClientSession
    timeout: float
    asking: Callable[[int], None]
    asked: int = 0
    warnings: set[str] = field(default_factory=set)

    async def vector(self, expr: str, at: int) -> list[Series]:
        """Query at a unix time. NaN and infinite values are dropped."""
        self.asked += 1
        self.asking(self.asked)
        body = {"query": expr, "time": str(at), "timeout": f"{math.ceil(self.timeout)}s"}
        try:
            status, text = await self._post(f"{self.url}/api/v1/query", body)
        except TimeoutError:
            raise PrometheusError(
                f"{self.url} did not answer within {self.timeout:g} s: raise --query-timeout,"
                " shorten --window, or load the recording rules (alerts/)"
            ) from None
        except (aiohttp.ClientError, OSError) as error:
            raise PrometheusError(f"{self.url} cannot be reached: {_why(error)}") from None
        if status in _UNAUTHORISED:
            raise PrometheusError(
                f"{self.url} rejected the credentials (HTTP {status}): give"
                " --prometheus-token-file, or user:password@ in the URL"
            )
        if status in _REDIRECTS:
            raise PrometheusError(
                f"{self.url} redirects (HTTP {status}), which is not followed: credentials go to"
                " this address only; set --prometheus-url to the final one"
            )
        return [each for each in self._answer(status, text) if math.isfinite(each.value)]

    async def _post(self, url: str, body: Mapping[str, str]) -> tuple[int, bytes]:
        async with (
            asyncio.timeout(self.timeout),
            self.session.post(url, data=body, allow_redirects=False) as answer,
        ):
            text = b""
            async for chunk in answer.content.iter_any():
                text += chunk
                if len(text) > _MOST_BYTES:
                    raise PrometheusError(
                        f"{self.url} answers with more than {_MOST_BYTES >> 20} MiB: choose fewer"
                        " nodes with --selector"
                    )
            return answer.status, text

    def _answer(self, status: int, text: bytes) -> list[Series]:
        try:
            answer = json.loads(text)
            if answer["status"] == "error":
                said = _short(answer["error"])
                raise PrometheusError(f"{self.url} refuses a query ({status}): {said}")
            for said in answer.get("warnings", ()):
                if len(self.warnings) < _MOST_WARNINGS:
                    self.warnings.add(_short(said))
            if answer["data"]["resultType"] == "vector":
                return [_series(each) for each in answer["data"]["result"]]
        except _MALFORMED:
            pass
        raise PrometheusError(
            f"{self.url} does not answer as a Prometheus does (HTTP {status}): see --prometheus-url"
        )


@asynccontextmanager
async def connected(request: Request, asking: Callable[[int], None]) -> AsyncIterator[Prometheus]:
    """Open a session; it is closed on exit."""
    parts = urlsplit(request.prometheus_url)
    if request.token_file and parts.username:
        raise ConfigError("--prometheus-token-file: the URL names a user already: leave one out")
    headers = {}
    if parts.username:
        pair = f"{unquote(parts.username)}:{unquote(parts.password or '')}"
        headers["Authorization"] = f"Basic {b64encode(pair.encode()).decode()}"
    elif request.token_file:
        headers["Authorization"] = f"Bearer {_token(request.token_file)}"
    bare = urlunsplit(parts._replace(netloc=parts.netloc.rpartition("@")[2]))
    async with aiohttp.ClientSession(
        connector=aiohttp.TCPConnector(ssl=_tls(request)),
        headers=headers,
        timeout=aiohttp.ClientTimeout(total=None, sock_connect=_CONNECT_SECONDS),
    ) as session:
        yield Prometheus(bare, session, request.query_timeout, asking)


def _token(path: Path) -> str:
    try:
        with path.open("rb") as file:
            token = file.read(_MOST_TOKEN_BYTES).decode("ascii").strip()
    except (OSError, UnicodeDecodeError) as error:
        raise ConfigError(f"--prometheus-token-file: cannot be read: {error}") from None
    if not token or not token.isprintable():
        raise ConfigError(f"--prometheus-token-file: {path} holds no token: one line is expected")
    return token


def _tls(request: Request) -> ssl.SSLContext | bool:
    if request.ca_file is None:
        return True
    try:
        return ssl.create_default_context(cafile=str(request.ca_file))
    except (OSError, ssl.SSLError) as error:
        raise ConfigError(f"--prometheus-ca-file: {request.ca_file}: {error}") from None


def _why(error: Exception) -> str:
    """In the kernel's words; aiohttp's speak of TLS where there is none."""
    if not isinstance(error, aiohttp.ClientConnectorError):
        return _short(error)
    cause = error.os_error
    known = cause.errno and cause.errno > 0 and not isinstance(error, aiohttp.ClientSSLError)
    return os.strerror(cause.errno or 0) if known else _short(cause.strerror or cause)


def _short(said: object) -> str:
    return " ".join(str(said).split())[:_MOST_CHARACTERS]


def _series(found: Any) -> Series:  # noqa: ANN401 - JSON
    """ValueError, TypeError and others if it is not what Prometheus sends for these queries."""
    labels = dict(found["metric"])
    for text in (*labels, *labels.values()):
        # Raises if it is no text, or has lone surrogates, which no query could name.
        str.encode(text)
    _, text = found["value"]
    if not isinstance(text, str):
        raise TypeError
    value = float(text)
    if math.isfinite(value) and not 0 <= value <= _MOST:
        raise ValueError
    return Series(labels, value)
