"""A client for Prometheus' HTTP API: what fails is a PrometheusError of one line.

Laws: credentials go to the address that was named, so there is no redirect, no proxy and no cookie,
and no line holds them; an answer is bounded in time and size.
"""

import asyncio
import math
import ssl
from base64 import b64encode
from collections.abc import AsyncIterator
from contextlib import asynccontextmanager
from dataclasses import dataclass, field
from pathlib import Path
from typing import Final, Literal
from urllib.parse import unquote, urlsplit, urlunsplit

import aiohttp
import msgspec

from exporter import __version__
from exporter.errors import ConfigError, PrometheusError
from exporter.settings.files import read_file
from fleet.request import Request

_MOST_BYTES: Final = 16 << 20
_TOKEN_BYTES: Final = 1 << 16
_CA_BYTES: Final = 1 << 20
# Of what Prometheus says about a query.
_MOST_CHARACTERS: Final = 300
_MOST_WARNINGS: Final = 5
# No count of a fleet is larger, and no time is later.
_MOST: Final = 1e12
_UNAUTHORISED: Final = (401, 403, 407)
_REDIRECTS: Final = range(300, 400)


class BadQueryError(PrometheusError):
    """Prometheus cannot parse the query."""


class Series(msgspec.Struct, frozen=True):
    """One series of an answer. `sample`: its time and value, a number from 0 to 10^12 in text."""

    metric: dict[str, str]
    sample: tuple[float, str] = msgspec.field(name="value")

    def label(self, name: str) -> str:
        """A label's value, empty if missing."""
        return self.metric.get(name, "")

    @property
    def value(self) -> float:
        """Its number."""
        return float(self.sample[1])


class _Vector(msgspec.Struct, rename={"kind": "resultType"}):
    kind: Literal["vector"]
    result: list[Series]


class _Success(msgspec.Struct, tag_field="status", tag="success"):
    data: _Vector
    warnings: list[str] = []


class _Failure(msgspec.Struct, tag_field="status", tag="error", rename="camel"):
    error: str = ""
    error_type: str = ""


@dataclass(slots=True)
class Prometheus:
    """A connection; `url` has no password, `warnings` came along with the answers."""

    url: str
    session: aiohttp.ClientSession
    timeout: float
    warnings: set[str] = field(default_factory=set)

    async def vector(self, expr: str, at: int) -> list[Series]:
        """Query at a unix time. NaN and infinite values are dropped."""
        url = f"{self.url}/api/v1/query"
        body = {"query": expr, "time": str(at), "timeout": f"{math.ceil(self.timeout)}s"}
        # By default, Thanos omits clusters that it cannot reach. Prometheus ignores this parameter.
        body["partial_response"] = "false"
        try:
            async with (
                asyncio.timeout(self.timeout),
                self.session.post(url, data=body, allow_redirects=False) as answer,
            ):
                status, text = answer.status, await self._content(answer)
        except TimeoutError:
            raise PrometheusError(
                f"{self.url}: no whole answer within {self.timeout:g} s",
                "raise --query-timeout, shorten --window, or load the recording rules (alerts/)",
            ) from None
        except (aiohttp.ClientError, OSError, ValueError) as error:
            # aiohttp's own words name TLS where there is none.
            below = getattr(error, "os_error", error)
            said = getattr(below, "strerror", "") or str(error)
            why = _short(said) or type(error).__name__
            raise PrometheusError(f"{self.url}: no answer: {why}") from None
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
        return self._series(status, text)

    async def _content(self, answer: aiohttp.ClientResponse) -> bytes:
        content = bytearray()
        async for piece in answer.content.iter_any():
            content += piece
            if len(content) > _MOST_BYTES:
                too_large = f"{self.url}: the answer is larger than {_MOST_BYTES >> 20} MiB"
                raise PrometheusError(too_large, "choose fewer nodes with --selector")
        return bytes(content)

    def _series(self, status: int, text: bytes) -> list[Series]:
        try:
            answer = msgspec.json.decode(text, type=_Success | _Failure)
            found = answer.data.result if isinstance(answer, _Success) else []
            finite = [each for each in found if math.isfinite(each.value)]
            good = all(0 <= each.value <= _MOST for each in finite)
        except (msgspec.DecodeError, RecursionError, ValueError):
            good = False
        if not good:
            raise PrometheusError(
                f"{self.url} does not answer like Prometheus (HTTP {status}): see --prometheus-url"
            )
        if isinstance(answer, _Failure):
            failed = BadQueryError if answer.error_type == "bad_data" else PrometheusError
            raise failed(f"{self.url} refuses a query ({status}): {_short(answer.error)}")
        self.warnings.update(map(_short, answer.warnings[: _MOST_WARNINGS - len(self.warnings)]))
        return finite


@asynccontextmanager
async def connected(request: Request) -> AsyncIterator[Prometheus]:
    """Open a session; it is closed on exit."""
    parts = urlsplit(request.prometheus_url)
    if request.token_file and parts.username:
        raise ConfigError("--prometheus-token-file: the URL names a user already: leave one out")
    # What is compressed could expand to any size.
    headers = {"Accept-Encoding": "identity", "User-Agent": f"shadow-pleg/{__version__}"}
    if parts.username:
        pair = f"{unquote(parts.username)}:{unquote(parts.password or '')}"
        headers["Authorization"] = f"Basic {b64encode(pair.encode()).decode()}"
    flag, path, tls = "--prometheus-token-file", request.token_file, None
    try:
        if path is not None:
            headers["Authorization"] = f"Bearer {_token_in(path)}"
        flag, path = "--prometheus-ca-file", request.ca_file
        if path is not None:
            tls = _trusting(read_file(path, _CA_BYTES))
    except ValueError as error:
        raise ConfigError(f"{flag}: {path} {error}") from None
    bare = urlunsplit(parts._replace(netloc=parts.netloc.rpartition("@")[2]))
    async with aiohttp.ClientSession(
        # Without a context it trusts the system's authorities.
        connector=aiohttp.TCPConnector(ssl=tls or True),
        cookie_jar=aiohttp.DummyCookieJar(),
        headers=headers,
        auto_decompress=False,
        timeout=aiohttp.ClientTimeout(total=None),
    ) as session:
        yield Prometheus(bare, session, request.query_timeout)


def _token_in(path: Path) -> str:
    """The one line of that file; ValueError that does not show it."""
    token = read_file(path, _TOKEN_BYTES).strip().decode("ascii", "replace")
    if not (token and token.isascii() and token.isprintable()):
        raise ValueError("holds no token: one line is expected")
    return token


def _trusting(authorities: bytes) -> ssl.SSLContext:
    """A context that trusts these certificates in PEM alone; ValueError if there is none."""
    context = ssl.SSLContext(ssl.PROTOCOL_TLS_CLIENT)
    try:
        context.load_verify_locations(cadata=authorities.decode("ascii"))
    except (ssl.SSLError, ValueError):
        raise ValueError("holds no certificate in PEM") from None
    # Like Go: trust every certificate in the file, even if it is not a root.
    context.verify_flags |= ssl.VERIFY_X509_PARTIAL_CHAIN
    return context


def _short(said: str) -> str:
    return " ".join(said.split())[:_MOST_CHARACTERS]
