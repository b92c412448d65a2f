"""The newest evidence, as JSON for programs and as a page for people.

The page shows a few of the newest records. Both
are rendered outside the loop.
"""

import asyncio
import json
import re
from typing import Final

from aiohttp import web

from exporter.evidence.case import Case, Document, document_of, written
from exporter.evidence.cases import Cases
from exporter.node.state import Node
from exporter.settings.config import Config
from exporter.web.pages import Page, Pages
from exporter.web.rendering import POLICY, html_page, templates

# More than a person reads; each is a table of up to sixty rows.
_SHOWN: Final = 12
_NUMBER: Final = re.compile(r"[1-9][0-9]{0,14}")


class Misses:
    """`/debug/misses`."""

    def __init__(self, config: Config, node: Node, cases: Cases, pages: Pages) -> None:
        self._config = config
        self._node = node
        self._cases = cases
        self._pages = pages
        # The last rendered page of each format and what it shows: while that lasts, it is fresh.
        self._made: dict[str, tuple[Document, Page]] = {}

    async def page(self, request: web.Request) -> web.Response:
        """By `?format=json` or `html`, else by Accept; JSON if neither is asked for."""
        wish = request.query.get("format")
        if wish is None:
            wish = "html" if "text/html" in request.headers.get("Accept", "") else "json"
        if wish not in _RENDERERS:
            return web.Response(status=400, text="format: give json or html\n")
        record = request.query.get("record", "")
        if record and not _NUMBER.fullmatch(record):
            return web.Response(status=400, text="record: give the number of a record\n")
        first = int(record or 0) if wish == "html" else 0

        def fresh() -> Page | None:
            shown, page = self._made.get(wish, ({}, None))
            return page if shown == self._shown(first) else None

        async def render() -> Page:
            shown = self._shown(first)
            newest = self._cases.newest
            # Rendering and compressing take milliseconds, so leave that to a thread.
            page = await asyncio.to_thread(_RENDERERS[wish], shown, newest)
            self._made[wish] = shown, page
            return page

        return await self._pages.answer(request, fresh, render)

    def _shown(self, record: int) -> Document:
        """What a page from that record on says, besides records; from the newest if it is gone."""
        # Numbers have no gaps, and the newest record has the highest.
        newer = self._node.evidence_records - record if record else 0
        return {
            "newer": newer if 0 <= newer < len(self._cases.newest) else 0,
            "made": self._node.evidence_records,
            "dropped": self._node.evidence_dropped,
            "node_name": self._config.node_name,
        }


def _as_json(shown: Document, newest: tuple[Case, ...]) -> Page:
    """The counts, then one record per line."""
    head = json.dumps({key: shown[key] for key in ("made", "dropped")}).encode()[:-1]
    body = head + b', "records": [' + b",\n".join(map(written, newest)) + b"]}\n"
    return Page.of(body, "application/json; charset=utf-8", POLICY)


def _as_html(shown: Document, newest: tuple[Case, ...]) -> Page:
    records = [document_of(case) for case in newest[shown["newer"] :][:_SHOWN]]
    template = templates().get_template("misses.html")
    html = template.render(**shown, kept=len(newest), records=records)
    return html_page(html)


_RENDERERS: Final = {"json": _as_json, "html": _as_html}
