"""Reads the kubelet's metrics again and again, with the token and CA that the files hold then.

Every reading opens a new connection, so the kubelet that listens now answers, with its current
certificate. A failure changes nothing but that the last reading ages. Blind spot: a kubelet restart
between two readings is only seen by the next one.
"""

import asyncio
import random
import ssl
import time
from collections.abc import Awaitable, Callable
from pathlib import Path
from typing import Final

import structlog

from exporter import http_client
from exporter.errors import KubeletError
from exporter.kubelet.page import Page
from exporter.kubelet.state import Kubelet, KubeletReading
from exporter.model.labels import Problem
from exporter.settings.config import Config, KubeletTls
from exporter.settings.files import read_file

_log = structlog.get_logger()

_SPREAD: Final = 0.2
_TIMEOUT_SECONDS: Final = 10.0
_CA_BYTES: Final = 1 << 20
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
        self._insecure = config.kubelet_tls is KubeletTls.INSECURE_SKIP_VERIFY

    async def read(self) -> KubeletReading:
        """The kubelet's current state; KubeletError gives the reason for a failure in one line."""
        requested = time.monotonic()
        headers, tls = await asyncio.to_thread(self._headers_and_tls)
        page = Page()
        try:
            async with (
                http_client.session_with(tls, headers) as session,
                http_client.answer_of(session, self._url, _TIMEOUT_SECONDS) as answer,
            ):
                _require_ok(answer)
                async for piece in answer.pieces:
                    page.feed(piece)
        except http_client.HttpError as error:
            words = f"{error}: {_DISTRUST}" if error.untrusted else str(error)
            raise KubeletError(error.kind.value, words) from None
        return page.reading(requested)

    def _headers_and_tls(self) -> tuple[dict[str, str], ssl.SSLContext | None]:
        """Headers and TLS context from the current files: both are rotated at run time."""
        headers = {"Accept": "text/plain;version=0.0.4"}
        flag, path = "--kubelet-token-file", self._token_file
        try:
            if path is not None:
                headers["Authorization"] = f"Bearer {http_client.token_in(path)}"
            flag, path = "--kubelet-ca-file", self._ca_file
            return headers, self._tls_context(path)
        except ValueError as error:
            said = f"{flag}: {str(path)!r} {error}"
            raise KubeletError(Problem.CREDENTIALS.value, said) from None

    def _tls_context(self, path: Path | None) -> ssl.SSLContext | None:
        if self._insecure:
            context = ssl.SSLContext(ssl.PROTOCOL_TLS_CLIENT)
            context.check_hostname, context.verify_mode = False, ssl.CERT_NONE
            return context
        # None trusts the system's.
        return http_client.trusting(read_file(path, _CA_BYTES)) if path else None


async def poll(read: Callable[[], Awaitable[KubeletReading]], kubelet: Kubelet) -> None:
    """Read into `kubelet` until cancelled; a kind of failure is logged once until it answers."""
    # Kinds of failures since the last answer.
    failing: set[str] = set()
    while True:
        began, before = time.monotonic(), kubelet.reading
        try:
            reading = await read()
        except KubeletError as error:
            kubelet.failed(Problem(error.reason), str(error))
            write = _log.debug if error.reason in failing else _log.warning
            failing.add(error.reason)
            write("kubelet not scraped", reason=error.reason, error=str(error))
        else:
            kubelet.record(reading, time.time())
            if before is None or failing or before.gate is not reading.gate:
                _log.info("the kubelet answers", status=reading.describe())
            failing.clear()
        dice = random.random()  # noqa: S311 - jitter, not a secret
        now, due = time.monotonic(), began + kubelet.period * (1 + _SPREAD * (dice - 0.5))
        # The period runs from start to start, but a reading takes at most half of the time.
        await asyncio.sleep(max(due - now, now - began))


def _require_ok(answer: http_client.Answer) -> None:
    if answer.status != http_client.OK:
        problem, words = _STATUSES.get(answer.status, (Problem.STATUS, f"HTTP {answer.status}"))
        if answer.status in http_client.REDIRECTS:
            words += ": redirects are not followed, to protect the token"
        raise KubeletError(problem.value, words)
