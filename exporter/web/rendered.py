"""Rendered pages: templates, and bytes that are made once for all who ask.

Rendering takes some milliseconds, in which no events are read, so no page is rendered more often
than twice a second, however many clients ask.
"""

from __future__ import annotations

import functools
import gzip
import time
from typing import TYPE_CHECKING, Final

from aiohttp import hdrs, web

if TYPE_CHECKING:
    from collections.abc import Callable

    import jinja2

_FRESH_SECONDS: Final = 0.5


class RenderedPage:
    """A page, plain and compressed; rendered again for the first request after half a second."""

    def __init__(self, content_type: str, render: Callable[[], bytes]) -> None:
        self._headers = {hdrs.CONTENT_TYPE: content_type, hdrs.VARY: "Accept, Accept-Encoding"}
        self._render = render
        self._made = float("-inf")
        self._plain = self._compressed = b""

    async def page(self, request: web.Request) -> web.Response:
        """The page, compressed if the client accepts that."""
        if time.monotonic() - self._made >= _FRESH_SECONDS:
            self._plain = self._render()
            # A ninth larger than at level 9, for a tenth of the CPU.
            self._compressed = gzip.compress(self._plain, compresslevel=1, mtime=0)
            self._made = time.monotonic()
        if "gzip" not in request.headers.get(hdrs.ACCEPT_ENCODING, "").lower():
            return web.Response(body=self._plain, headers=self._headers)
        headers = {**self._headers, hdrs.CONTENT_ENCODING: "gzip"}
        return web.Response(body=self._compressed, headers=headers)


@functools.cache
def templates() -> jinja2.Environment:
    """The directory `templates`, autoescaped; an undefined name is an error."""
    import jinja2  # noqa: PLC0415 - two MiB, so it is loaded on the first request

    return jinja2.Environment(
        loader=jinja2.PackageLoader("exporter.web"),
        autoescape=True,
        undefined=jinja2.StrictUndefined,
        trim_blocks=True,
        lstrip_blocks=True,
    )


def html_page(template: str, shown: Callable[[], dict[str, object]]) -> RenderedPage:
    """That template with what is to be shown then. A lone surrogate in a name is shown escaped."""

    def render() -> bytes:
        html = templates().get_template(template).render(shown())
        return html.encode("utf-8", "backslashreplace")

    return RenderedPage("text/html; charset=utf-8", render)
