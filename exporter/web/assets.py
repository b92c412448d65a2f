"""What the pages load besides themselves: a style, two scripts, a picture. All of it is here.

Addresses carry a digest of the content, so that a browser may keep it for ever, also one that sees
many nodes, and versions, at one address. Here: files and their addresses. Not here: what is in
them (`static`; idiomorph is as its makers ship it, see `static/README.md`).
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
    """A file of the package."""
    return resources.files("exporter.web").joinpath("static", name).read_bytes()


@functools.cache
def address(name: str) -> str:
    """Where a page finds it, below the root; pages say how far up that is: proxies have paths."""
    return f"{FOLDER}{name}?{hashlib.sha256(content(name)).hexdigest()[:12]}"


async def asset(request: web.Request) -> web.Response:
    """One file; only those that have a route come here."""
    name = request.path.removeprefix(FOLDER)
    response = web.Response(
        body=content(name), content_type=_TYPES[name], charset="utf-8", headers=_HEADERS
    )
    response.enable_compression()
    return response
