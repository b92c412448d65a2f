"""Static assets of the pages: a style, two scripts, a picture. All are part of the package.

URLs contain a digest of the content, so a browser may cache them indefinitely, even one that sees
many nodes and versions at one address. idiomorph is the unmodified upstream file, see
`static/README.md`.
"""

from __future__ import annotations

import functools
import hashlib
from importlib import resources
from typing import Final

from aiohttp import web

FOLDER: Final = "/static/"
_TYPES: Final = {
    "page.css": "text/css",
    "page.js": "text/javascript",
    "idiomorph.min.js": "text/javascript",
    "icon.svg": "image/svg+xml",
}
NAMES: Final = tuple(_TYPES)
_HEADERS: Final = {
    "Cache-Control": "private, max-age=31536000, immutable",
    "X-Content-Type-Options": "nosniff",
}


@functools.cache
def content(name: str) -> bytes:
    """The content of a file of the package."""
    return resources.files("exporter.web").joinpath("static", name).read_bytes()


@functools.cache
def address(name: str) -> str:
    """Its URL below the root; pages know their own depth, because proxies add path prefixes."""
    return f"{FOLDER}{name}?{hashlib.sha256(content(name)).hexdigest()[:12]}"


async def asset(request: web.Request) -> web.Response:
    """Serve one file; only files with a route get here."""
    name = request.path.removeprefix(FOLDER)
    response = web.Response(
        body=content(name), content_type=_TYPES[name], charset="utf-8", headers=_HEADERS
    )
    response.enable_compression()
    return response
