"""A real Prometheus that knows fleets which have lived (`lives`).

Here: making its blocks, starting it, asking. Not here: what should be seen.
"""

from __future__ import annotations

import asyncio
import contextlib
import subprocess
import tempfile
from collections.abc import AsyncIterator
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import aiohttp

from tests.support.fleet_lives import Life
from tests.support.real import debian, servers


@dataclass(frozen=True, slots=True)
class Prometheus:
    """One that runs, asked about one fleet: from its first scrape to its last."""

    url: str
    session: aiohttp.ClientSession
    began: float
    ended: float

    async def instant(self, expr: str) -> list[dict[str, Any]]:
        """A vector at the end."""
        return await self._ask("query", expr, time=self.ended)

    async def ranged(self, expr: str, step: float) -> list[dict[str, Any]]:
        """A matrix over the fleet's life."""
        return await self._ask("query_range", expr, start=self.began, end=self.ended, step=step)

    async def number(self, expr: str) -> float:
        """The one value of an expression; NaN where there is none."""
        found = await self.instant(expr)
        return float(found[0]["value"][1]) if found else float("nan")

    async def values(self, label: str, series: str) -> list[str]:
        """The values of a label."""
        sent = {"match[]": series, "start": str(self.began), "end": str(self.ended)}
        async with self.session.get(f"{self.url}/api/v1/label/{label}/values", params=sent) as got:
            answer = await got.json()
        assert answer["status"] == "success", answer
        return list(answer["data"])

    async def _ask(self, how: str, expr: str, **sent: float) -> list[dict[str, Any]]:
        params = {"query": expr} | {name: str(value) for name, value in sent.items()}
        async with self.session.post(f"{self.url}/api/v1/{how}", data=params) as got:
            answer = await got.json()
        assert answer["status"] == "success", (answer.get("error"), expr)
        # A warning is a mistake in the expression; an info may be a guess.
        assert not answer.get("warnings"), (answer["warnings"], expr)
        return list(answer["data"]["result"])


def _written(life: Life, home: Path) -> None:
    """Blocks of what was scraped, in `home`/data."""
    promtool = debian.find("promtool")
    assert promtool is not None
    subprocess.run(
        [promtool, "tsdb", "create-blocks-from", "openmetrics", life.scraped, home / "data"],
        check=True,
        stdout=subprocess.DEVNULL,
    )


@contextlib.asynccontextmanager
async def knowing(*lives: Life) -> AsyncIterator[list[Prometheus]]:
    """One Prometheus that knows all these fleets, to be asked about each; ends with the block."""
    binary = debian.find("prometheus")
    assert binary is not None
    with tempfile.TemporaryDirectory(prefix="sp-dash-") as folder:
        home = Path(folder)
        for life in lives:
            await asyncio.to_thread(_written, life, home)
        (home / "prometheus.yml").write_text("{}\n")
        # The fleets live at a fixed time, which is long ago one day.
        keep = "--storage.tsdb.retention.time=100y"
        async with (
            servers.prometheus((binary,), home, home / "prometheus.yml", keep) as url,
            # No connection is left open between two tests.
            aiohttp.ClientSession(
                connector=aiohttp.TCPConnector(force_close=True),
                timeout=aiohttp.ClientTimeout(30),
            ) as session,
        ):
            yield [Prometheus(url, session, life.began, life.ended) for life in lives]
