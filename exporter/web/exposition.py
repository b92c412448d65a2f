"""The metrics page, in one of two formats."""

from typing import Final

from aiohttp import hdrs, web
from prometheus_client.openmetrics import exposition as openmetrics
from prometheus_client.registry import Collector, CollectorRegistry

from exporter.web.rendered import RenderedPage

# No scheme for the names of metrics and labels: ours need none, and the library's default walks
# each of them letter by letter, which is more than half of a page's CPU.
_AS_THEY_ARE: Final = ""


class Exposition:
    """A registry's metrics. Without `exemplars`, which name pods, they come only as text."""

    def __init__(self, registry: CollectorRegistry, *, exemplars: bool) -> None:
        self._exemplars = exemplars
        self._text = RenderedPage(
            "text/plain; version=0.0.4; charset=utf-8", lambda: as_text(registry)
        )
        self._openmetrics = RenderedPage(
            openmetrics.CONTENT_TYPE_LATEST, lambda: as_openmetrics(registry)
        )

    async def page(self, request: web.Request) -> web.Response:
        """OpenMetrics for who accepts it, else Prometheus' text format."""
        accepted = ",".join(request.headers.getall(hdrs.ACCEPT, [])).lower()
        accepts = "application/openmetrics-text" in accepted
        page = self._openmetrics if accepts and self._exemplars else self._text
        return await page.page(request)


def as_openmetrics(registry: Collector) -> bytes:
    """The page, with exemplars. Names are not escaped."""
    page: bytes = openmetrics.generate_latest(registry, _AS_THEY_ARE)  # type: ignore[no-untyped-call] # a gap
    return page


def as_text(registry: Collector) -> bytes:
    """The page. Names are not escaped."""
    # With web servers and TLS: 5 MiB, so it is loaded for the first scraper that wants text.
    from prometheus_client.exposition import generate_latest  # noqa: PLC0415 - see above

    return generate_latest(registry, _AS_THEY_ARE)
