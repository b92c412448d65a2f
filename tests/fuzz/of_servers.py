"""What servers answer: a kubelet's page, a Prometheus' JSON, and their HTTP."""

import contextlib
import functools
import json
import re
from collections.abc import AsyncIterator, Iterator, Mapping
from dataclasses import dataclass, field
from typing import Final, Self, cast

import aiohttp

from exporter.errors import KubeletError, PrometheusError
from exporter.kubelet.client import KubeletClient
from exporter.kubelet.page import Page
from exporter.kubelet.state import KubeletReading
from exporter.recording.gzip_members import member
from exporter.settings.config import Config
from fleet.gather import gather
from fleet.options import ReportFormat, Request
from fleet.prometheus import Prometheus
from fleet.writing import written
from tests.fleet.conftest import recorded_answers
from tests.fuzz.judging import Target, completed, only, require_printable
from tests.fuzz.peers import http_peer
from tests.support.kubelet_pages import KubeletPage
from tests.support.report_fleets import START, WINDOW

_URL: Final = "http://prometheus.example"


def _kubelet_page(data: bytes) -> bool:
    """The first byte is the size of the pieces in which the rest comes."""
    size, page = 1 + (data[0] if data else 0), data[1:]
    whole = _page_in(page, len(page) or 1)
    assert _page_in(page, size) == whole
    if whole is not None:
        assert len(whole.version) <= 64
    return whole is not None


def _page_in(content: bytes, size: int) -> KubeletReading | None:
    page = Page()
    try:
        for at in range(0, len(content), size):
            page.feed(content[at : at + size])
        return page.reading(7.0)
    except KubeletError as error:
        assert error.reason in {"malformed", "too_large"}  # noqa: PT017 - it need not be raised
        return None


def _page_seeds() -> Iterator[bytes]:
    for page in (KubeletPage(gate=True, stream_errors=2, events=41), KubeletPage(gate=None)):
        # What is read of it: nothing else is worth a change.
        wanted = re.findall(
            r"^(?:kubelet_[ep]|kubernetes_|process_).*\n", page.text(), re.MULTILINE
        )
        yield b"\x40" + "".join(line for line in wanted if "_bucket" not in line).encode()


def _http_answers(data: bytes) -> bool:
    """All that a kubelet and a Prometheus could send, from the line of the status on."""

    async def asked() -> bool:
        accepted = False
        async with http_peer(data) as url:
            with only(KubeletError):
                await KubeletClient(Config(kubelet_metrics_url=f"{url}/metrics")).read()
                accepted = True
            async with aiohttp.ClientSession() as session:
                with only(PrometheusError):
                    await Prometheus(url, session, 60.0, lambda _: None).vector("up", 1)
                    accepted = True
        return accepted

    return completed(asked())


def _http_seeds() -> Iterator[bytes]:
    page = next(iter(_page_seeds()))[1:]
    head = b"HTTP/1.1 200 OK\r\nContent-Type: text/plain\r\n"
    yield head + b"Content-Length: %d\r\n\r\n" % len(page) + page
    yield head + b"Transfer-Encoding: chunked\r\n\r\n%x\r\n" % len(page) + page + b"\r\n0\r\n\r\n"
    yield b"HTTP/1.1 307 Temporary Redirect\r\nLocation: http://x.example/\r\n\r\n"
    yield head + b"Content-Encoding: gzip\r\n\r\n" + member(page)
    known = _honest()[0]
    yield b"HTTP/1.0 422 Unprocessable\r\nContent-Type: application/json\r\n\r\n" + known


@dataclass(slots=True)
class _Answers:
    """Stands for a session with a Prometheus, and for its answers: one body for each query."""

    bodies: list[bytes]
    status: int = 200

    headers: Mapping[str, str] = field(default_factory=dict)

    @contextlib.asynccontextmanager
    async def request(self, _method: str, _url: str, **_sent: object) -> AsyncIterator[Self]:
        """The answer to the next query."""
        yield self

    @property
    def content(self) -> Self:
        """Its body."""
        return self

    async def iter_any(self) -> AsyncIterator[bytes]:
        """In one chunk."""
        yield self.bodies.pop(0) if self.bodies else b""


@functools.cache
def _honest() -> list[bytes]:
    """What a real Prometheus answered to each query of a report."""
    data = [{"resultType": "vector", "result": each.result} for each in recorded_answers()]
    return [json.dumps({"status": "success", "data": each}).encode() for each in data]


def _prometheus(data: bytes) -> bool:
    """The first byte chooses the query to which the rest is the answer."""
    bodies = list(_honest())
    bodies[(data[0] if data else 0) % len(bodies)] = data[1:]
    # Templates take longer than all else.
    form = ReportFormat.MARKDOWN if len(data) % 8 else ReportFormat.JSON
    request = Request(prometheus_url=_URL, window=WINDOW, end=START + WINDOW, output_format=form)
    session = cast(aiohttp.ClientSession, _Answers(bodies))
    with only(PrometheusError):
        fleet = completed(gather(Prometheus(_URL, session, 60.0, lambda _: None), request))
        require_printable(written(fleet, request.standard, form))
        return True
    return False


def _prometheus_seeds() -> Iterator[bytes]:
    for number, body in enumerate(_honest()):
        yield bytes([number]) + body
    yield b'\0{"status": "error", "error": "no", "warnings": ["x"]}'


TARGETS: Final = {
    "kubelet-page": Target(_kubelet_page, _page_seeds),
    "prometheus": Target(_prometheus, _prometheus_seeds),
    "http-answers": Target(_http_answers, _http_seeds),
}
