"""A client for Prometheus' HTTP API; every failure becomes a one-line PrometheusError.

It limits the time and size of each answer.
"""

from __future__ import annotations

import asyncio
import json
import math
import ssl
from base64 import b64encode
from collections.abc import AsyncIterator, Callable, Mapping
from contextlib import asynccontextmanager
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any, Final, TypeVar
from urllib.parse import unquote, urlsplit, urlunsplit

import aiohttp

from exporter.errors import ConfigError, PrometheusError
from exporter.report.options import Request, Span

_MOST_BYTES: Final = 16 << 20
_LONGEST_TOKEN: Final = 1 << 16
_CONNECT: Final = 10.0
_SAID: Final = 300
_UNAUTHORISED: Final = (401, 403, 407)

Read = TypeVar("Read")


@dataclass(frozen=True, slots=True)
class Sample:
    """One series at one time; `labels` are sorted by name."""

    labels: tuple[tuple[str, str], ...]
    value: float

    def label(self, name: str) -> str:
        """A label's value, empty if missing."""
        return dict(self.labels).get(name, "")


@dataclass(frozen=True, slots=True)
class Series:
    """One series over time: (unix time, value) by point."""

    labels: tuple[tuple[str, str], ...]
    points: tuple[tuple[float, float], ...]

    def label(self, name: str) -> str:
        """A label's value, empty if missing."""
        return dict(self.labels).get(name, "")


@dataclass(slots=True)
class Prometheus:
    """A connection; `url` has no password, `warnings` came along with the answers."""

    url: str
    session: aiohttp.ClientSession
    timeout: float
    warnings: set[str] = field(default_factory=set)

    async def vector(self, expr: str, span: Span) -> list[Sample]:
        """Query at the end of the span. NaN values are dropped."""
        sent = {"query": expr, "time": str(span.end)}
        samples = await self._ask("query", sent, "vector", _sample)
        return [sample for sample in samples if math.isfinite(sample.value)]

    async def matrix(self, expr: str, span: Span, step: int) -> list[Series]:
        """Query every `step` seconds, up to the end of the span."""
        first = span.end - (max(1, span.seconds // step) - 1) * step
        sent = {"query": expr, "start": str(first), "end": str(span.end), "step": str(step)}
        return await self._ask("query_range", sent, "matrix", _series)

    async def _ask(
        self, how: str, sent: Mapping[str, str], kind: str, read: Callable[[Any], Read]
    ) -> list[Read]:
        body = {**sent, "timeout": f"{math.ceil(self.timeout)}s"}
        try:
            status, text = await self._post(f"{self.url}/api/v1/{how}", body)
        except TimeoutError:
            raise PrometheusError(
                f"{self.url} did not answer within {self.timeout:g} s: raise --query-timeout, or"
                " shorten --window"
            ) from None
        except (aiohttp.ClientError, OSError) as error:
            raise PrometheusError(f"{self.url} cannot be reached: {error}") from None
        if status in _UNAUTHORISED:
            raise PrometheusError(
                f"{self.url} does not let us in (HTTP {status}): give --prometheus-token-file, or"
                " user:password@ in the URL"
            )
        return self._answer(status, text, kind, read)

    async def _post(self, url: str, body: Mapping[str, str]) -> tuple[int, bytes]:
        async with asyncio.timeout(self.timeout), self.session.post(url, data=body) as answer:
            text = b""
            async for chunk in answer.content.iter_any():
                text += chunk
                if len(text) > _MOST_BYTES:
                    raise PrometheusError(
                        f"{self.url} answers with more than {_MOST_BYTES >> 20} MiB: choose fewer"
                        " nodes with --selector"
                    )
            return answer.status, text

    def _answer(
        self, status: int, text: bytes, kind: str, read: Callable[[Any], Read]
    ) -> list[Read]:
        try:
            answer = json.loads(text)
            if answer["status"] == "error":
                said = " ".join(str(answer["error"]).split())[:_SAID]
                raise PrometheusError(f"{self.url} refuses a query ({status}): {said}")
            self.warnings.update(map(str, answer.get("warnings", ())))
            if answer["data"]["resultType"] == kind:
                return [read(each) for each in answer["data"]["result"]]
        except (ValueError, LookupError, TypeError, AttributeError, RecursionError):
            pass
        raise PrometheusError(
            f"{self.url} does not answer as a Prometheus does (HTTP {status}): see --prometheus-url"
        )


@asynccontextmanager
async def connected(request: Request) -> AsyncIterator[Prometheus]:
    """Open a session; it is closed on exit."""
    parts = urlsplit(request.prometheus_url)
    if request.token_file and parts.username:
        raise ConfigError("--prometheus-token-file: the URL names a user already: leave one out")
    bare = urlunsplit(parts._replace(netloc=parts.netloc.rpartition("@")[2]))
    connector = aiohttp.TCPConnector(ssl=_tls(request))
    async with aiohttp.ClientSession(
        connector=connector,
        headers=_password(parts.username, parts.password) or _token(request.token_file),
        timeout=aiohttp.ClientTimeout(total=None, sock_connect=_CONNECT),
    ) as session:
        yield Prometheus(bare, session, request.query_timeout)


def _password(user: str | None, password: str | None) -> dict[str, str]:
    if not user:
        return {}
    pair = f"{unquote(user)}:{unquote(password or '')}"
    return {"Authorization": f"Basic {b64encode(pair.encode()).decode()}"}


def _token(path: Path | None) -> dict[str, str]:
    if path is None:
        return {}
    try:
        with path.open("rb") as file:
            token = file.read(_LONGEST_TOKEN).decode("ascii").strip()
    except (OSError, UnicodeDecodeError) as error:
        raise ConfigError(f"--prometheus-token-file: cannot be read: {error}") from None
    if not token or not token.isprintable():
        raise ConfigError(f"--prometheus-token-file: {path} holds no token: one line is expected")
    return {"Authorization": f"Bearer {token}"}


def _tls(request: Request) -> ssl.SSLContext | bool:
    if request.ca_file is None:
        return True
    try:
        return ssl.create_default_context(cafile=str(request.ca_file))
    except (OSError, ssl.SSLError) as error:
        raise ConfigError(f"--prometheus-ca-file: {request.ca_file}: {error}") from None


def _sample(found: Any) -> Sample:  # noqa: ANN401 - JSON
    return Sample(tuple(sorted(found["metric"].items())), float(found["value"][1]))


def _series(found: Any) -> Series:  # noqa: ANN401 - JSON
    points = tuple((float(at), float(value)) for at, value in found["values"])
    return Series(tuple(sorted(found["metric"].items())), points)
