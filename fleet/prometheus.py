"""A client for Prometheus' HTTP API: limits of time and size, one-line PrometheusErrors.

Invariant: a token or password goes to the configured address only, so no redirect is followed.
"""

import json
import math
from base64 import b64encode
from collections.abc import AsyncIterator, Mapping
from contextlib import asynccontextmanager
from dataclasses import dataclass, field
from typing import Any, Final
from urllib.parse import unquote, urlsplit, urlunsplit

import aiohttp

from exporter.errors import ConfigError, PrometheusError
from exporter.settings.files import read_file
from fleet import http_client
from fleet.request import Request

_CA_BYTES: Final = 1 << 20
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
_REMEDIES: Final = {
    http_client.HttpProblem.TIMEOUT: "raise --query-timeout, shorten --window, or load the"
    " recording rules (alerts/)",
    http_client.HttpProblem.TOO_LARGE: "choose fewer nodes with --selector",
}


class BadQueryError(PrometheusError):
    """Prometheus cannot parse the query."""


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
    """A connection; `url` has no password, `warnings` came along with the answers."""

    url: str
    session: aiohttp.ClientSession
    timeout: float
    warnings: set[str] = field(default_factory=set)

    async def vector(self, expr: str, at: int) -> list[Series]:
        """Query at a unix time. NaN and infinite values are dropped."""
        body = {"query": expr, "time": str(at), "timeout": f"{math.ceil(self.timeout)}s"}
        try:
            url = f"{self.url}/api/v1/query"
            async with http_client.answer_of(self.session, url, self.timeout, body) as answer:
                status, text = answer.status, b"".join([piece async for piece in answer.pieces])
        except http_client.HttpError as error:
            said = f"{self.url}: {error}"
            raise PrometheusError(said, _REMEDIES.get(error.kind, "")) from None
        if status in _UNAUTHORISED:
            raise PrometheusError(
                f"{self.url} rejected the credentials (HTTP {status}): give"
                " --prometheus-token-file, or user:password@ in the URL"
            )
        if status in http_client.REDIRECTS:
            raise PrometheusError(
                f"{self.url} redirects (HTTP {status}), which is not followed: credentials go to"
                " this address only; set --prometheus-url to the final one"
            )
        return [each for each in self._answer(status, text) if math.isfinite(each.value)]

    def _answer(self, status: int, text: bytes) -> list[Series]:
        try:
            answer = json.loads(text)
            if answer["status"] == "error":
                said = f"{self.url} refuses a query ({status}): {_short(answer['error'])}"
                bad = answer.get("errorType") == "bad_data"
                raise (BadQueryError if bad else PrometheusError)(said)
            for said in answer.get("warnings", ()):
                if len(self.warnings) < _MOST_WARNINGS:
                    self.warnings.add(_short(said))
            if answer["data"]["resultType"] == "vector":
                return [_series(each) for each in answer["data"]["result"]]
        except _MALFORMED:
            pass
        raise PrometheusError(
            f"{self.url} does not answer like Prometheus (HTTP {status}): see --prometheus-url"
        )


@asynccontextmanager
async def connected(request: Request) -> AsyncIterator[Prometheus]:
    """Open a session; it is closed on exit."""
    parts = urlsplit(request.prometheus_url)
    if request.token_file and parts.username:
        raise ConfigError("--prometheus-token-file: the URL names a user already: leave one out")
    headers = {}
    if parts.username:
        pair = f"{unquote(parts.username)}:{unquote(parts.password or '')}"
        headers["Authorization"] = f"Basic {b64encode(pair.encode()).decode()}"
    flag, path, tls = "--prometheus-token-file", request.token_file, None
    try:
        if path is not None:
            headers["Authorization"] = f"Bearer {http_client.token_in(path)}"
        flag, path = "--prometheus-ca-file", request.ca_file
        if path is not None:
            tls = http_client.trusting(read_file(path, _CA_BYTES))
    except ValueError as error:
        raise ConfigError(f"{flag}: {path} {error}") from None
    bare = urlunsplit(parts._replace(netloc=parts.netloc.rpartition("@")[2]))
    async with http_client.session_with(tls, headers) as session:
        yield Prometheus(bare, session, request.query_timeout)


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
