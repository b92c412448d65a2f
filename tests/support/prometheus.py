"""Prometheus for tests: a real one that knows what files say, and a stand-in with fixed answers."""

import asyncio
import contextlib
import itertools
import subprocess
import tempfile
from collections import defaultdict
from collections.abc import AsyncIterator, Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass, field
from functools import partial
from pathlib import Path
from typing import Any

import aiohttp
from aiohttp import web

from alerts.values import seconds
from testbed import servers
from testbed.fixtures import part
from tests.support.expressions import metrics_of
from tests.support.peers import answered_by

Result = list[dict[str, Any]]


@dataclass(frozen=True, slots=True)
class Recorded:
    """Groups of recording rules, evaluated from `began` to `ended` (unix seconds)."""

    groups: list[dict[str, Any]]
    began: float
    ended: float

    def turns(self) -> Iterator[list[dict[str, Any]]]:
        """Those of each turn read only what earlier ones recorded."""
        reads = defaultdict[str, set[str]](set)
        for rule in (rule for group in self.groups for rule in group["rules"] if "record" in rule):
            reads[rule["record"]] |= metrics_of(rule["expr"])
        while reads:
            now = {record for record, read in reads.items() if reads.keys().isdisjoint(read)}
            assert now, f"these read each other: {sorted(reads)}"
            made = ([it for it in each["rules"] if it.get("record") in now] for each in self.groups)
            yield [group | {"rules": some} for group, some in zip(self.groups, made, strict=True)]
            for record in now:
                del reads[record]


Series = tuple[Mapping[str, str], Iterable[float], Iterable[float]]


def write_scrapes(file: Path, series: Iterable[Series]) -> Path:
    """Write series as OpenMetrics: labels with `__name__`, times, values."""
    with file.open("w", encoding="utf-8") as out:
        for labels, times, values in series:
            text = ",".join(f'{name}="{of}"' for name, of in labels.items() if name != "__name__")
            head = f"{labels['__name__']}{{{text}}}"
            out.writelines(
                f"{head} {value} {at}\n" for at, value in zip(times, values, strict=True)
            )
        out.write("# EOF\n")
    return file


@contextlib.asynccontextmanager
async def knowing(*scraped: Path, recorded: Sequence[Recorded] = ()) -> AsyncIterator[str]:
    """The URL of a real Prometheus that knows these OpenMetrics files, and what rules recorded."""
    # They are short-lived: some memory is cheaper than a tenth of their time.
    prometheus, promtool = (("env", "GOGC=400", part(it)) for it in ("prometheus", "promtool"))
    with tempfile.TemporaryDirectory(prefix="sp-prom-") as folder:
        home = Path(folder)
        (home / "prometheus.yml").write_text("{}\n")
        # The samples have fixed times, which will be long ago one day.
        keep = "--storage.tsdb.retention.time=100y"
        serve = partial(servers.prometheus, prometheus, home, home / "prometheus.yml", keep)

        async def learn(file: Path) -> None:
            # It reads all of a file for each block.
            made = (*promtool, "tsdb", "create-blocks-from", "--max-block-duration=30d")
            run = partial(subprocess.run, check=True, stdout=subprocess.DEVNULL)
            await asyncio.to_thread(run, (*made, "openmetrics", file, home / "data"))

        for each in scraped:
            await learn(each)
        for turn in itertools.zip_longest(*(each.turns() for each in recorded), fillvalue=[]):
            async with serve() as url, aiohttp.ClientSession() as session:
                found = [
                    each
                    for groups, what in zip(turn, recorded, strict=True)
                    for group in groups
                    for rule in group["rules"]
                    for each in await _evaluated(
                        Asker(url, session, what.began, what.ended), rule, group["interval"]
                    )
                ]
            await learn(write_scrapes(home / "recorded", found))
        async with serve() as url:
            yield url


async def _evaluated(asker: "Asker", rule: Mapping[str, Any], interval: str) -> list[Series]:
    """What a rule records; promtool would ask, and make a block, for each two hours of it."""
    own = {"__name__": rule["record"]} | rule.get("labels", {})
    found = await asker.ranged(rule["expr"], seconds(interval))
    return [(each["metric"] | own, *zip(*each["values"], strict=True)) for each in found]


@dataclass(frozen=True, slots=True)
class Asker:
    """Asks a Prometheus about the time from `began` to `ended`; warnings fail the test."""

    url: str
    session: aiohttp.ClientSession
    began: float
    ended: float

    async def instant(self, expr: str) -> Result:
        return await self._ask("query", expr, time=self.ended)

    async def ranged(self, expr: str, step: float) -> Result:
        return await self._ask("query_range", expr, start=self.began, end=self.ended, step=step)

    async def number(self, expr: str) -> float:
        """The one value of an expression; NaN where there is none."""
        found = await self.instant(expr)
        return float(found[0]["value"][1]) if found else float("nan")

    async def _ask(self, how: str, expr: str, **sent: float) -> Result:
        params = {"query": expr} | {name: str(value) for name, value in sent.items()}
        async with self.session.post(f"{self.url}/api/v1/{how}", data=params) as got:
            answer = await got.json()
        assert answer["status"] == "success", (answer.get("error"), expr)
        # A warning is a mistake in the expression; an info may be a guess.
        assert not answer.get("warnings"), (answer["warnings"], expr)
        return list(answer["data"]["result"])


@contextlib.asynccontextmanager
async def asking(
    *scraped: Path, began: float, ended: float, recorded: Sequence[Recorded] = ()
) -> AsyncIterator[Asker]:
    # No connection stays open between two tests.
    closing, timeout = aiohttp.TCPConnector(force_close=True), aiohttp.ClientTimeout(30)
    async with (
        knowing(*scraped, recorded=recorded) as url,
        aiohttp.ClientSession(connector=closing, timeout=timeout) as session,
    ):
        yield Asker(url, session, began, ended)


_HOW = ("timeout", "partial_response")


@dataclass(frozen=True, slots=True)
class Answered:
    """What was asked of a Prometheus, and the vector; without how it is to be answered."""

    sent: Mapping[str, str]
    result: Result


@dataclass(slots=True)
class Witness:
    """A way to a Prometheus that notes all answers.

    Of each answer: samples that Prometheus read for it (`read`), had in memory at once (`peaks`).
    """

    url: str
    answers: list[Answered] = field(default_factory=list)
    read: list[int] = field(default_factory=list)
    peaks: list[int] = field(default_factory=list)


@contextlib.asynccontextmanager
async def witnessed(url: str) -> AsyncIterator[Witness]:
    witness = Witness("")
    async with aiohttp.ClientSession() as session:

        async def forward(request: web.Request) -> web.Response:
            sent = {name: str(value) for name, value in (await request.post()).items()}
            async with session.post(url + request.path, data=sent | {"stats": "all"}) as answer:
                text, data = await answer.read(), (await answer.json())["data"]
            result, samples = data["result"], data["stats"]["samples"]
            witness.read.append(samples["totalQueryableSamples"])
            witness.peaks.append(samples["peakSamples"])
            asked = {name: value for name, value in sent.items() if name not in _HOW}
            witness.answers.append(Answered(asked, result))
            return web.Response(body=text, status=answer.status, content_type="application/json")

        async with answered_by(forward) as witness.url:
            yield witness


def standing_in(
    *answers: Answered, warnings: tuple[str, ...] = ()
) -> contextlib.AbstractAsyncContextManager[str]:
    """The URL of a stand-in: it has these answers, and refuses to be asked anything else."""
    known = {tuple(sorted(each.sent.items())): each.result for each in answers}

    async def handler(request: web.Request) -> web.Response:
        sent = {n: str(value) for n, value in (await request.post()).items() if n not in _HOW}
        result = known.get(tuple(sorted(sent.items())))
        if result is None:
            error = f"the stand-in has no answer to {sent}"
            return web.json_response({"status": "error", "error": error}, status=422)
        data = {"resultType": "vector", "result": result}
        return web.json_response({"status": "success", "data": data, "warnings": list(warnings)})

    return answered_by(handler)
