"""One reading of the kubelet's metrics, with the token and the CA that the files hold now.

Every reading opens a new connection, so the kubelet that listens now answers, with its current
certificate.
"""

import asyncio
import os
import ssl
import time
from pathlib import Path
from typing import Final

from exporter.errors import KubeletError
from exporter.http_client import (
    OK,
    REDIRECTS,
    Answer,
    HttpError,
    answer_of,
    session_with,
    token_in,
    trusting,
)
from exporter.kubelet.page import Page
from exporter.kubelet.state import KubeletReading
from exporter.model.labels import Problem
from exporter.settings.config import Config, KubeletTls
from exporter.settings.files import read_file

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
                session_with(tls, headers) as session,
                answer_of(session, self._url, _TIMEOUT_SECONDS) as answer,
            ):
                _require_ok(answer)
                async for piece in answer.pieces:
                    page.feed(piece)
        except HttpError as error:
            words = f"{error}: {_DISTRUST}" if error.untrusted else str(error)
            raise KubeletError(error.kind.value, words) from None
        return page.reading(requested)

    def _headers_and_tls(self) -> tuple[dict[str, str], ssl.SSLContext | None]:
        """Headers and TLS context from the current files: both are rotated at run time."""
        headers = {"Accept": "text/plain;version=0.0.4"}
        flag, path = "--kubelet-token-file", self._token_file
        try:
            if path is not None:
                headers["Authorization"] = f"Bearer {token_in(path)}"
            flag, path = "--kubelet-ca-file", self._ca_file
            return headers, self._tls_context(path)
        except (OSError, ValueError) as error:
            why = str(error)
            if isinstance(error, OSError):
                why = f"cannot be read: {os.strerror(error.errno or 0)}"
            said = f"{flag}: {str(path)!r} {why}"
            raise KubeletError(Problem.CREDENTIALS.value, said) from None

    def _tls_context(self, path: Path | None) -> ssl.SSLContext | None:
        if self._insecure:
            context = ssl.SSLContext(ssl.PROTOCOL_TLS_CLIENT)
            context.check_hostname, context.verify_mode = False, ssl.CERT_NONE
            return context
        # None trusts the system's.
        return trusting(read_file(path, _CA_BYTES)) if path else None


def _require_ok(answer: Answer) -> None:
    if answer.status != OK:
        problem, words = _STATUSES.get(answer.status, (Problem.STATUS, f"HTTP {answer.status}"))
        if answer.status in REDIRECTS:
            words += ": redirects are not followed, to protect the token"
        raise KubeletError(problem.value, words)
