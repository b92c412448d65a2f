"""Asks an HTTP server something: Prometheus for the fleet's metrics.

Laws: credentials go to the address that was named, so there is no redirect, no proxy and no cookie;
an answer is bounded in time and size; what fails is one line that holds no credential.
"""

import asyncio
import os
import ssl
from collections.abc import AsyncIterator, Mapping
from contextlib import asynccontextmanager
from dataclasses import dataclass
from enum import Enum
from pathlib import Path
from typing import Final

import aiohttp

from exporter import __version__
from exporter.errors import ShadowPlegError
from exporter.settings.files import read_file

OK: Final = 200
REDIRECTS: Final = range(300, 400)
_MOST_BYTES: Final = 16 << 20
_TOKEN_BYTES: Final = 1 << 16


class HttpProblem(Enum):
    """Why there is no whole answer."""

    ABSENT = "absent"
    TIMEOUT = "timeout"
    TLS = "tls"
    TOO_LARGE = "too_large"
    MALFORMED = "malformed"


class HttpError(ShadowPlegError):
    """There is no whole answer. `untrusted`: the server's certificate is the reason."""

    def __init__(self, problem: HttpProblem, words: str, *, untrusted: bool = False) -> None:
        super().__init__(words)
        self.kind, self.untrusted = problem, untrusted


@dataclass(frozen=True, slots=True)
class Answer:
    """A status, and the content in pieces."""

    status: int
    pieces: AsyncIterator[bytes]


@asynccontextmanager
async def session_with(
    tls: ssl.SSLContext | None, headers: Mapping[str, str]
) -> AsyncIterator[aiohttp.ClientSession]:
    """A session whose requests all send these headers. `tls`: None trusts the system's CAs."""
    # What is compressed could expand to any size.
    own = {"Accept-Encoding": "identity", "User-Agent": f"shadow-pleg/{__version__}"}
    async with aiohttp.ClientSession(
        connector=aiohttp.TCPConnector(ssl=tls or True),
        cookie_jar=aiohttp.DummyCookieJar(),
        headers={**own, **headers},
        auto_decompress=False,
        timeout=aiohttp.ClientTimeout(total=None),
    ) as session:
        yield session


@asynccontextmanager
async def answer_of(
    session: aiohttp.ClientSession, url: str, seconds: float, form: Mapping[str, str] | None = None
) -> AsyncIterator[Answer]:
    """The answer to GET, or to POST of a form, while the block lasts; HttpError if it fails."""
    method = "GET" if form is None else "POST"
    try:
        async with (
            asyncio.timeout(seconds),
            session.request(method, url, data=form, allow_redirects=False) as answer,
        ):
            yield Answer(answer.status, _bounded(answer))
    except TimeoutError:
        words = f"no whole answer within {seconds:g} s"
        raise HttpError(HttpProblem.TIMEOUT, words) from None
    except (aiohttp.ClientError, OSError, ValueError) as error:
        raise _translated(error) from None


def token_in(path: Path) -> str:
    """The one line of that file; ValueError that does not show it."""
    token = read_file(path, _TOKEN_BYTES).strip().decode("ascii", "replace")
    if not (token and token.isascii() and token.isprintable()):
        raise ValueError("holds no token: one line is expected")
    return token


def trusting(authorities: bytes) -> ssl.SSLContext:
    """A context that trusts these certificates in PEM alone; ValueError if there is none."""
    context = ssl.SSLContext(ssl.PROTOCOL_TLS_CLIENT)
    try:
        context.load_verify_locations(cadata=authorities.decode("ascii"))
    except (ssl.SSLError, ValueError):
        raise ValueError("holds no certificate in PEM") from None
    # Like Go: trust every certificate in the file, even if it is not a root.
    context.verify_flags |= ssl.VERIFY_X509_PARTIAL_CHAIN
    return context


async def _bounded(answer: aiohttp.ClientResponse) -> AsyncIterator[bytes]:
    if answer.headers.get("Content-Encoding", "identity") != "identity":
        raise HttpError(HttpProblem.MALFORMED, "the answer is compressed, which was not asked for")
    left = _MOST_BYTES
    async for piece in answer.content.iter_any():
        left -= len(piece)
        if left < 0:
            words = f"the answer is larger than {_MOST_BYTES >> 20} MiB"
            raise HttpError(HttpProblem.TOO_LARGE, words)
        yield piece


def _translated(error: Exception) -> HttpError:
    """In the kernel's words where it has some; aiohttp's speak of TLS where there is none."""
    if isinstance(error, aiohttp.ClientConnectorCertificateError):
        cause = error.certificate_error
        why = getattr(cause, "verify_message", "") or str(cause)
        words = f"its certificate is not trusted ({why})"
        return HttpError(HttpProblem.TLS, words, untrusted=True)
    if isinstance(error, aiohttp.ClientSSLError | ssl.SSLError):
        why = getattr(error, "reason", None) or type(error).__name__
        return HttpError(HttpProblem.TLS, f"the TLS handshake failed ({why})")
    if isinstance(error, aiohttp.ClientPayloadError | aiohttp.ClientResponseError | ValueError):
        return HttpError(HttpProblem.MALFORMED, "the answer is not whole, or not HTTP")
    cause = error.os_error if isinstance(error, aiohttp.ClientConnectorError) else error
    number, why = getattr(cause, "errno", None), getattr(cause, "strerror", None)
    if isinstance(number, int) and number > 0:
        why = os.strerror(number)
    why = why or type(error).__name__
    return HttpError(HttpProblem.ABSENT, f"no answer: {why}")
