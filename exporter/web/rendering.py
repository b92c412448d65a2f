"""The pages' templates and static files: a style, two scripts, a picture.

URLs of static files contain a digest of the content, so a browser may cache them indefinitely, even
one that sees many nodes and versions at one address. idiomorph is the unmodified upstream file, see
`static/README.md`.
"""

from __future__ import annotations

import functools
import hashlib
from importlib import resources
from typing import TYPE_CHECKING, Final

from aiohttp import web

from exporter.settings.routes import STATIC
from exporter.web.pages import Page

if TYPE_CHECKING:
    import jinja2

# Nothing external, nothing inline: even injected runtime text could not run.
POLICY: Final = {
    "Content-Security-Policy": "default-src 'none'; script-src 'self'; style-src 'self';"
    " img-src 'self'; connect-src 'self'; base-uri 'none'; form-action 'none';"
    " frame-ancestors 'none'",
    "Referrer-Policy": "no-referrer",
    "X-Content-Type-Options": "nosniff",
}
STATIC_TYPES: Final = {
    "page.css": "text/css",
    "page.js": "text/javascript",
    "idiomorph.min.js": "text/javascript",
    "icon.svg": "image/svg+xml",
}
_STATIC_HEADERS: Final = {
    "Cache-Control": "private, max-age=31536000, immutable",
    "X-Content-Type-Options": "nosniff",
}


@functools.cache
def templates() -> jinja2.Environment:
    """The directory `templates`, autoescaped; an undefined name is an error."""
    import jinja2  # noqa: PLC0415 - two MiB, so it is loaded on the first request

    environment = jinja2.Environment(
        loader=jinja2.PackageLoader("exporter.web"),
        autoescape=True,
        undefined=jinja2.StrictUndefined,
        trim_blocks=True,
        lstrip_blocks=True,
    )
    environment.globals["address"] = _address
    return environment


def html_page(html: str) -> Page:
    """A page of HTML under the policy. A lone surrogate in a runtime's name is shown escaped."""
    return Page.of(html.encode("utf-8", "backslashreplace"), "text/html; charset=utf-8", POLICY)


async def static_file(request: web.Request) -> web.Response:
    """Serve one static file; only files with a route get here."""
    return _file(request.path.removeprefix(STATIC)).response(request)


@functools.cache
def _file(name: str) -> Page:
    return Page.of(_content(name), f"{STATIC_TYPES[name]}; charset=utf-8", _STATIC_HEADERS)


@functools.cache
def _content(name: str) -> bytes:
    return resources.files("exporter.web").joinpath("static", name).read_bytes()


@functools.cache
def _address(name: str) -> str:
    """The URL below the root; pages know their own depth, because proxies add path prefixes."""
    return f"{STATIC}{name}?{hashlib.sha256(_content(name)).hexdigest()[:12]}"
