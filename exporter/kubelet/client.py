"""One reading of the kubelet's metrics: new connection, freshly read token, bounded size.

Law: the token is sent to the configured host only (no redirect, no proxy), and never appears in a
message. Every reading opens a new connection, so the kubelet that listens now answers, with its
current certificate.
"""

import asyncio
import os
import socket
import ssl
import time
from collections.abc import Callable
from pathlib import Path
from typing import Any, Final

import aiohttp

from exporter import __version__
from exporter.errors import KubeletError
from exporter.kubelet.page import Page
from exporter.kubelet.state import KubeletReading, Problem
from exporter.settings.config import Config, KubeletTls
from exporter.settings.files import read_file

_TIMEOUT_SECONDS: Final = 10.0
# So much is parsed without looking at anything else.
_AT_ONCE_BYTES: Final = 1 << 16
# What may come beyond twice the content, as headers and sizes of chunks, or is not parsed yet.
# Chunks of one byte would take half a core for as long as the timeout lasts.
_OVERHEAD_BYTES: Final = 1 << 18
_TOKEN_BYTES: Final = 1 << 16
_CA_BYTES: Final = 1 << 20
_OK: Final = 200
_REDIRECTS: Final = range(300, 400)
_RULE: Final = "allow `get` on `nodes/metrics` by a ClusterRole that is bound to its ServiceAccount"
_STATUSES: Final = {
    400: (Problem.STATUS, "HTTP 400: does --kubelet-metrics-url need https?"),
    401: (Problem.UNAUTHORIZED, "HTTP 401, no valid credentials: give --kubelet-token-file"),
    403: (Problem.FORBIDDEN, f"HTTP 403, the token may not read metrics: {_RULE}"),
    404: (Problem.STATUS, "HTTP 404: the path of --kubelet-metrics-url is usually /metrics"),
}
_DISTRUST: Final = (
    "name the CA that signed it with --kubelet-ca-file; where the kubelet signed it itself, see"
    " docs/kubelet.md"
)


class KubeletClient:
    """Polls the kubelet named in the settings."""

    def __init__(self, config: Config) -> None:
        self._url = config.kubelet_metrics_url
        self._token_file = config.kubelet_token_file
        self._ca_file = config.kubelet_ca_file
        self._verify = config.kubelet_tls is KubeletTls.VERIFY
        # Loading a CA's certificates is slow, so do it once per content of the file.
        self._trusted: tuple[bytes, ssl.SSLContext] | None = None

    async def read(self) -> KubeletReading:
        """The kubelet's current state; KubeletError gives the reason for a failure in one line."""
        requested = time.monotonic()
        try:
            async with asyncio.timeout(_TIMEOUT_SECONDS):
                headers, tls = await asyncio.to_thread(self._headers_and_tls)
                page = await self._page(headers, tls)
        except TimeoutError:
            raise KubeletError(
                Problem.TIMEOUT.value, f"no whole answer within {_TIMEOUT_SECONDS:g} s"
            ) from None
        except (aiohttp.ClientError, OSError, ValueError) as error:
            raise _translated(error) from None
        return page.reading(requested, time.monotonic())

    async def _page(self, headers: dict[str, str], tls: ssl.SSLContext | None) -> Page:
        page = Page()
        meter = _Meter(page)
        async with (
            meter,
            aiohttp.ClientSession(
                connector=aiohttp.TCPConnector(ssl=tls or True, force_close=True, limit=1),
                cookie_jar=aiohttp.DummyCookieJar(),
                # A compressed page could expand to any size, and costs the kubelet more.
                auto_decompress=False,
                timeout=aiohttp.ClientTimeout(total=None),
                request_class=meter.request_class(),
            ) as session,
            session.get(self._url, headers=headers, allow_redirects=False) as answer,
        ):
            _require_ok(answer)
            async for piece in answer.content.iter_any():
                page.feed(piece)
        return page

    def _headers_and_tls(self) -> tuple[dict[str, str], ssl.SSLContext | None]:
        """Headers and TLS context from the current files: both are rotated at run time."""
        headers = {
            "Accept": "text/plain;version=0.0.4",
            "Accept-Encoding": "identity",
            "User-Agent": f"shadow-pleg/{__version__}",
        }
        if self._token_file is not None:
            headers["Authorization"] = f"Bearer {_token(self._token_file)}"
        return headers, self._tls_context() if self._url.startswith("https:") else None

    def _tls_context(self) -> ssl.SSLContext:
        path = self._ca_file
        content = _read("--kubelet-ca-file", path, _CA_BYTES) if path else b""
        if self._trusted is None or self._trusted[0] != content:
            self._trusted = (content, self._context(content))
        return self._trusted[1]

    def _context(self, authorities: bytes) -> ssl.SSLContext:
        if not self._verify:
            context = ssl.create_default_context()
            context.check_hostname = False
            context.verify_mode = ssl.CERT_NONE
            return context
        if self._ca_file is None:
            return ssl.create_default_context()
        # Not the default context: with an empty file, that trusts every public CA.
        context = ssl.SSLContext(ssl.PROTOCOL_TLS_CLIENT)
        try:
            context.load_verify_locations(cadata=authorities.decode("ascii"))
        except (ssl.SSLError, ValueError):
            why = f"{str(self._ca_file)!r} holds no certificate in PEM"
            raise _credentials_error("--kubelet-ca-file", why) from None
        # Like Go: trust every certificate in the file, even if it is not a root.
        context.verify_flags |= ssl.VERIFY_X509_PARTIAL_CHAIN
        return context


class _Meter:
    """Breaks the connection off when more than content comes; KubeletError on exit says so."""

    def __init__(self, page: Page) -> None:
        self._page = page
        self._received = 0
        self._exceeded = False

    async def __aenter__(self) -> None:
        """Nothing has come yet."""

    async def __aexit__(self, *_: object) -> None:
        if self._exceeded:
            words = "the answer is mostly something else than content"
            raise KubeletError(Problem.TOO_LARGE.value, words)

    def request_class(self) -> type[aiohttp.ClientRequest]:
        """Requests whose answers are metered."""
        meter = self

        class Metered(aiohttp.ClientRequest):
            async def send(self, conn: Any) -> aiohttp.ClientResponse:  # noqa: ANN401 - not exported
                meter._attach(conn.protocol, conn.transport)
                return await super().send(conn)

        return Metered

    def _attach(self, protocol: asyncio.Protocol, transport: asyncio.Transport) -> None:
        connected: socket.socket = transport.get_extra_info("socket")
        connected.setsockopt(socket.SOL_SOCKET, socket.SO_RCVBUF, _AT_ONCE_BYTES)
        parse: Callable[[bytes], None] = protocol.data_received

        def data_received(data: bytes) -> None:
            self._received += len(data)
            self._exceeded = self._received > 2 * self._page.size + _OVERHEAD_BYTES
            if self._exceeded:
                transport.abort()
            else:
                parse(data)

        protocol.data_received = data_received  # type: ignore[method-assign]


def _token(path: Path) -> str:
    flag = "--kubelet-token-file"
    text = _read(flag, path, _TOKEN_BYTES).strip()
    if not text or not text.isascii() or not (token := text.decode("ascii")).isprintable():
        raise _credentials_error(flag, f"{str(path)!r} holds no token: one line is expected")
    return token


def _read(flag: str, path: Path, largest: int) -> bytes:
    try:
        return read_file(path, largest)
    except OSError as error:
        why = f"{str(path)!r} cannot be read: {os.strerror(error.errno or 0)}"
        raise _credentials_error(flag, why) from None
    except ValueError as error:
        raise _credentials_error(flag, f"{str(path)!r} {error}") from None


def _credentials_error(flag: str, why: str) -> KubeletError:
    return KubeletError(Problem.CREDENTIALS.value, f"{flag}: {why}")


def _require_ok(answer: aiohttp.ClientResponse) -> None:
    status = answer.status
    if status != _OK:
        problem, words = _STATUSES.get(status, (Problem.STATUS, f"HTTP {status}"))
        if status in _REDIRECTS:
            words += ": redirects are not followed, to protect the token"
        raise KubeletError(problem.value, words)
    coding = answer.headers.get("Content-Encoding", "identity")
    if coding != "identity":
        raise KubeletError(
            Problem.MALFORMED.value, "the page is compressed, which was not asked for"
        )


def _translated(error: Exception) -> KubeletError:
    """Translate a library's error into a KubeletError, by what an operator can do about it."""
    if isinstance(error, aiohttp.ClientConnectorCertificateError):
        cause = error.certificate_error
        why = getattr(cause, "verify_message", "") or str(cause)
        return KubeletError(
            Problem.TLS.value, f"the kubelet's certificate is not trusted ({why}): {_DISTRUST}"
        )
    if isinstance(error, aiohttp.ClientSSLError | ssl.SSLError):
        why = getattr(error, "reason", None) or type(error).__name__
        return KubeletError(Problem.TLS.value, f"the TLS handshake failed ({why})")
    if isinstance(error, aiohttp.ClientConnectorError | aiohttp.ServerDisconnectedError):
        return KubeletError(Problem.ABSENT.value, f"no answer: {_reason(error)}")
    if isinstance(error, aiohttp.ClientPayloadError | aiohttp.ClientResponseError | ValueError):
        return KubeletError(Problem.MALFORMED.value, "the answer is not whole, or not HTTP")
    return KubeletError(Problem.ABSENT.value, f"the connection broke: {_reason(error)}")


def _reason(error: Exception) -> str:
    number = getattr(error, "errno", None)
    return os.strerror(number) if isinstance(number, int) and number > 0 else type(error).__name__
