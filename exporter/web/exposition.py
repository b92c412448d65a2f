"""The metrics page, in one of two formats.

Rendering takes some milliseconds, during which no events are read. So each format's page is cached
for twenty times what it took. With a query, like Prometheus' `?name[]=`, it is not: clients could
invent any number of them.
"""

import re
import time
from dataclasses import dataclass
from enum import Enum
from typing import Final

from aiohttp import hdrs, web
from prometheus_client.openmetrics import exposition as openmetrics
from prometheus_client.registry import Collector, CollectorRegistry

from exporter.web.pages import Page, Pages

# Share of the time for one format's page.
_PAGE_SHARE: Final = 0.05
# No scheme for the names of metrics and labels: ours need none, and the library's default walks
# each of them letter by letter, which is more than half of a page's CPU.
_AS_THEY_ARE: Final = ""
_QUALITY: Final = re.compile(r"0(\.[0-9]{0,3})?|1(\.0{0,3})?")


class Format(Enum):
    """What a client can get: media type, versions of it that are the same here, content type."""

    OPENMETRICS = "application/openmetrics-text", ("", "1.0.0"), openmetrics.CONTENT_TYPE_LATEST
    TEXT = "text/plain", ("", "0.0.4", "1.0.0"), "text/plain; version=0.0.4; charset=utf-8"


@dataclass(frozen=True, slots=True)
class _Cached:
    """`until`: monotonic time until which the page is fresh."""

    page: Page
    until: float


class Exposition:
    """A registry's metrics. Without `exemplars`, which name pods, they come only as text."""

    def __init__(self, registry: CollectorRegistry, pages: Pages, *, exemplars: bool) -> None:
        self._registry = registry
        self._pages = pages
        self._exemplars = exemplars
        self._cached: dict[Format, _Cached] = {}

    async def page(self, request: web.Request) -> web.Response:
        """Prometheus' text format, or OpenMetrics."""
        accepted = ",".join(request.headers.getall(hdrs.ACCEPT, []))
        form = format_for(accepted) if self._exemplars else Format.TEXT

        def fresh() -> Page | None:
            known = None if request.query_string else self._cached.get(form)
            return known.page if known and time.monotonic() < known.until else None

        async def render() -> Page:
            names = request.query.getall("name[]", [])
            asked = self._registry.restricted_registry(names) if names else self._registry
            began = time.monotonic()
            page = Page.of(encoded(asked, form), form.value[2])
            ended = time.monotonic()
            if not request.query_string:
                self._cached[form] = _Cached(page, ended + (ended - began) / _PAGE_SHARE)
            return page

        return await self._pages.answer(request, fresh, render)


def encoded(registry: Collector, form: Format) -> bytes:
    """The page. Names are not escaped."""
    if form is Format.OPENMETRICS:
        page: bytes = openmetrics.generate_latest(registry, _AS_THEY_ARE)  # type: ignore[no-untyped-call] # a gap
        return page
    # With web servers and TLS: 5 MiB, so it is loaded for the first scraper that wants text.
    from prometheus_client.exposition import generate_latest  # noqa: PLC0415 - see above

    return generate_latest(registry, _AS_THEY_ARE)


def format_for(accepted: str) -> Format:
    """The format that an Accept header prefers; text if it names neither."""
    qualities = dict.fromkeys(Format, 0.0)
    for each in accepted.lower().split(","):
        media, *rest = (part.strip() for part in each.split(";"))
        parameters = dict(part.partition("=")[::2] for part in rest)
        quality = parameters.get("q", "1")
        for kind in Format:
            known, versions, _ = kind.value
            if media == known and parameters.get("version", "") in versions:
                good = _QUALITY.fullmatch(quality)
                qualities[kind] = max(qualities[kind], float(quality) if good else 0.0)
    preferred = qualities[Format.OPENMETRICS]
    return (
        Format.OPENMETRICS if preferred > 0 and preferred >= qualities[Format.TEXT] else Format.TEXT
    )
