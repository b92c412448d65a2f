"""The metrics page, in one of two formats."""

import re
from enum import Enum
from typing import Final

from aiohttp import hdrs, web
from prometheus_client.openmetrics import exposition as openmetrics
from prometheus_client.registry import Collector, CollectorRegistry

from exporter.web.rendered import RenderedPage

# No scheme for the names of metrics and labels: ours need none, and the library's default walks
# each of them letter by letter, which is more than half of a page's CPU.
_AS_THEY_ARE: Final = ""
_QUALITY: Final = re.compile(r"0(\.[0-9]{0,3})?|1(\.0{0,3})?")


class Format(Enum):
    """What a client can get: media type, versions of it that are the same here, content type."""

    OPENMETRICS = "application/openmetrics-text", ("", "1.0.0"), openmetrics.CONTENT_TYPE_LATEST
    TEXT = "text/plain", ("", "0.0.4", "1.0.0"), "text/plain; version=0.0.4; charset=utf-8"


class Exposition:
    """A registry's metrics. Without `exemplars`, which name pods, they come only as text."""

    def __init__(self, registry: CollectorRegistry, *, exemplars: bool) -> None:
        self._exemplars = exemplars
        self._pages = {
            form: RenderedPage(form.value[2], lambda form=form: encoded(registry, form))  # type: ignore[misc] # a lambda's default
            for form in Format
        }

    async def page(self, request: web.Request) -> web.Response:
        """Prometheus' text format, or OpenMetrics."""
        accepted = ",".join(request.headers.getall(hdrs.ACCEPT, []))
        form = format_for(accepted) if self._exemplars else Format.TEXT
        return await self._pages[form].page(request)


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
