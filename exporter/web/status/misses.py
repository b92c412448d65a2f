"""The newest evidence, as JSON for programs and as a page for people.

A record's JSON is what --evidence-dir keeps of it. The page shows a few of the newest records. Both
are rendered outside the loop, one at a time.
"""

import asyncio
import json
import re
from typing import Final

from aiohttp import web

from exporter.evidence.case import Case, Document, document_of, written
from exporter.evidence.cases import Cases
from exporter.node.state import Dropped, Node
from exporter.settings.config import Config
from exporter.web.rendering import POLICY, templates

# More than a person reads; each is a table of up to sixty rows.
_SHOWN: Final = 12
_SMALL: Final = 1024
_FORMATS: Final = ("json", "html")
_NUMBER: Final = re.compile(r"[1-9][0-9]{0,14}")


class Misses:
    """`/debug/misses`."""

    def __init__(self, config: Config, node: Node, cases: Cases) -> None:
        self._config = config
        self._node = node
        self._cases = cases
        self._one_at_a_time = asyncio.Lock()
        # The last rendered page and its input, so that a reload costs nothing.
        self._made_of: Document = {}
        self._made = b""

    async def page(self, request: web.Request) -> web.Response:
        """By `?format=json` or `html`, else by Accept; JSON if neither is asked for."""
        wish = request.query.get("format")
        if wish is None:
            wish = "html" if "text/html" in request.headers.get("Accept", "") else "json"
        if wish not in _FORMATS:
            return web.Response(status=400, text="format: give json or html\n")
        record = request.query.get("record", "")
        if record and not _NUMBER.fullmatch(record):
            return web.Response(status=400, text="record: give the number of a record\n")
        if wish == "json":
            body, kind = await self._document(), "application/json"
        else:
            body, kind = await self._page(int(record or 0)), "text/html"
        # Compressing all of it takes milliseconds, so leave that to a thread.
        response = web.Response(
            body=body, content_type=kind, charset="utf-8", zlib_executor_size=_SMALL
        )
        response.headers.update(POLICY)
        response.headers["Vary"] = "Accept"
        response.enable_compression()
        return response

    def _dropped(self) -> dict[str, int]:
        return {reason.value: self._node.evidence_dropped[reason] for reason in Dropped}

    async def _document(self) -> bytes:
        async with self._one_at_a_time:
            counts = {"made": self._node.evidence_records, "dropped": self._dropped()}
            return await asyncio.to_thread(_document, counts, self._cases.newest)

    async def _page(self, record: int) -> bytes:
        """The page starting at that record if it still exists, else at the newest."""
        async with self._one_at_a_time:
            newest = self._cases.newest
            # Numbers have no gaps, and the newest record has the highest.
            newer = self._node.evidence_records - record if record else 0
            begin = newer if 0 <= newer < len(newest) else 0
            view = {
                "records": newest[begin : begin + _SHOWN],
                "newer": begin,
                "kept": len(newest),
                "made": self._node.evidence_records,
                "dropped": self._dropped(),
                "node_name": self._config.node_name,
                "evidence_dir": self._config.evidence_dir,
            }
            if view != self._made_of:
                self._made = await asyncio.to_thread(_render, view)
                self._made_of = view
            return self._made


def _document(counts: Document, cases: tuple[Case, ...]) -> bytes:
    """The counts, then one record per line."""
    head = json.dumps(counts).encode()[:-1]
    return head + b', "records": [' + b",\n".join(map(written, cases)) + b"]}\n"


def _render(view: Document) -> bytes:
    records = [document_of(case) for case in view["records"]]
    page = templates().get_template("misses.html").render({**view, "records": records})
    return page.encode("utf-8", "backslashreplace")
