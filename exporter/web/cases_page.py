"""`/debug/misses`: the newest cases, as JSON for programs and as a page for people."""

import json
from typing import Final

from aiohttp import web

from exporter.evidence.cases import Cases, Document
from exporter.node.state import Node
from exporter.settings.config import Config
from exporter.web.rendered import RenderedPage, html_page

# More than a person reads; each is a table of up to sixty rows.
SHOWN: Final = 12


class CasesPage:
    """By `?format=json` or `html`, else by Accept; JSON if neither is asked for."""

    def __init__(self, config: Config, node: Node, cases: Cases) -> None:
        self._config = config
        self._node = node
        self._cases = cases
        self._pages = {
            "json": RenderedPage("application/json; charset=utf-8", self._as_json),
            "html": html_page("cases.html", self._shown),
        }

    async def page(self, request: web.Request) -> web.Response:
        """The newest cases."""
        wish = request.query.get("format")
        if wish is None:
            wish = "html" if "text/html" in request.headers.get("Accept", "") else "json"
        if wish not in self._pages:
            return web.Response(status=400, text="format: give json or html\n")
        return await self._pages[wish].page(request)

    def _as_json(self) -> bytes:
        """The counts, then one record per line."""
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
