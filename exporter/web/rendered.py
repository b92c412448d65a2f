"""Rendered pages: metrics, cases, templates.

Rendering blocks the event loop, which reads the events, for some milliseconds. So each page is
rendered at most twice a second, for all clients.
"""

from __future__ import annotations

import functools
import gzip
import json
import re
import time
from collections.abc import Callable
from typing import TYPE_CHECKING, Final

from aiohttp import hdrs, web
from prometheus_client.openmetrics import exposition as openmetrics
from prometheus_client.registry import Collector, CollectorRegistry

from exporter.errors import printable
from exporter.evidence.cases import Cases, Document
from exporter.model.findings import Verdict
from exporter.node.judgement import STANDING
from exporter.node.state import Node
from exporter.settings.config import Config

if TYPE_CHECKING:
    import jinja2

_FRESH_SECONDS: Final = 0.5
# Skip the escaping of names: our own need none, and it takes over half of a page's CPU time.
_AS_THEY_ARE: Final = ""
_WEIGHT: Final = re.compile(r"q\s*=\s*([01](?:\.\d{0,3})?)")
# Verdicts about a state, not an event: nothing died if a container is frozen, or survives a kill.
_OF_STATES: Final = frozenset(each.value for each in (*STANDING, Verdict.OOM))
# How many cases their page shows; each is a table of up to sixty rows.
SHOWN: Final = 12


def prefers(header: str, name: str, rather_than: str) -> bool:
    """Whether the header names this type or coding, with at least the weight of `rather_than`.

    `rather_than` is the default: a client that accepts any type (`*/*`) gets it.
    """
    weights = {name: 0.0, rather_than: 0.0}
    for each in header.lower().split(","):
        wanted, *parameters = [part.strip() for part in each.split(";")]
        if wanted in weights:
            given = [match for part in parameters if (match := _WEIGHT.fullmatch(part))]
            weights[wanted] = max(weights[wanted], float(given[0][1]) if given else 1.0)
    return 0 < weights[name] >= weights[rather_than]


def _header(request: web.Request, name: str) -> str:
    return ",".join(request.headers.getall(name, []))


class RenderedPage:
    """A page, plain and compressed; rendered again if it is older than half a second."""

    def __init__(self, content_type: str, render: Callable[[], bytes]) -> None:
        self._headers = {hdrs.CONTENT_TYPE: content_type, hdrs.VARY: "Accept, Accept-Encoding"}
        self._render = render
        self._made = float("-inf")
        self._plain = self._compressed = b""

    async def page(self, request: web.Request) -> web.Response:
        """The page, compressed if the client accepts that."""
        if time.monotonic() - self._made >= _FRESH_SECONDS:
            self._plain = self._render()
            # A ninth larger than at level 9, for a tenth of the CPU time.
            self._compressed = gzip.compress(self._plain, compresslevel=1, mtime=0)
            self._made = time.monotonic()
        if not prefers(_header(request, hdrs.ACCEPT_ENCODING), "gzip", "identity"):
            return web.Response(body=self._plain, headers=self._headers)
        headers = {**self._headers, hdrs.CONTENT_ENCODING: "gzip"}
        return web.Response(body=self._compressed, headers=headers)


@functools.cache
def templates() -> jinja2.Environment:
    """The templates of the directory `templates`, autoescaped; an undefined name is an error."""
    import jinja2  # noqa: PLC0415 - two MiB, so it is loaded on the first request

    made = jinja2.Environment(
        loader=jinja2.PackageLoader("exporter.web"),
        autoescape=True,
        undefined=jinja2.StrictUndefined,
        trim_blocks=True,
        lstrip_blocks=True,
    )
    made.globals["of_states"] = _OF_STATES
    return made


def html_page(template: str, shown: Callable[[], dict[str, object]]) -> RenderedPage:
    """A template, filled with what `shown` returns; safe to print on a terminal."""

    def render() -> bytes:
        html = templates().get_template(template).render(shown())
        # By line, because `printable` walks a text that is not printable letter by letter.
        return "\n".join(map(printable, html.split("\n"))).encode()

    return RenderedPage("text/html; charset=utf-8", render)


class Exposition:
    """A registry's metrics. Without `exemplars`, which name pods, only in the text format."""

    def __init__(self, registry: CollectorRegistry, *, exemplars: bool) -> None:
        self._exemplars = exemplars
        self._text = RenderedPage(
            "text/plain; version=0.0.4; charset=utf-8", lambda: as_text(registry)
        )
        self._openmetrics = RenderedPage(
            openmetrics.CONTENT_TYPE_LATEST, lambda: as_openmetrics(registry)
        )

    async def page(self, request: web.Request) -> web.Response:
        """OpenMetrics if the client prefers it, else Prometheus' text format."""
        accepted = _header(request, hdrs.ACCEPT)
        accepts = prefers(accepted, "application/openmetrics-text", "text/plain")
        page = self._openmetrics if accepts and self._exemplars else self._text
        return await page.page(request)


def as_openmetrics(registry: Collector) -> bytes:
    """The metrics with exemplars."""
    page: bytes = openmetrics.generate_latest(registry, _AS_THEY_ARE)  # type: ignore[no-untyped-call] # a gap
    return page


def as_text(registry: Collector) -> bytes:
    """The metrics without exemplars."""
    # This import loads web servers and TLS, 5 MiB: only for scrapers that want text.
    from prometheus_client.exposition import generate_latest  # noqa: PLC0415 - see above

    return generate_latest(registry, _AS_THEY_ARE)


class CasesPage:
    """The newest cases, by `?format=json` or `html`, else by Accept; JSON is the default."""

    def __init__(self, config: Config, node: Node, cases: Cases) -> None:
        self._config = config
        self._node = node
        self._cases = cases
        self._pages = {
            "json": RenderedPage("application/json; charset=utf-8", self._as_json),
            "html": html_page("cases.html", self._shown),
        }

    async def page(self, request: web.Request) -> web.Response:
        """The page in the requested format."""
        wish = request.query.get("format")
        if wish is None:
            accepted = _header(request, hdrs.ACCEPT)
            wish = "html" if prefers(accepted, "text/html", "application/json") else "json"
        if wish not in self._pages:
            return web.Response(status=400, text="format: give json or html\n")
        return await self._pages[wish].page(request)

    def _as_json(self) -> bytes:
        # The counts, then one record per line.
        head = json.dumps(self._counts()).encode()[:-1]
        return head + b', "records": [' + b",\n".join(self._cases.newest) + b"]}\n"

    def _shown(self) -> Document:
        return self._counts() | {
            "node_name": self._config.node_name,
            "kept": len(self._cases.newest),
            "records": self._cases.first(SHOWN),
        }

    def _counts(self) -> Document:
        return {"made": self._node.evidence_records, "dropped": self._node.evidence_dropped}
