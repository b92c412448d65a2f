"""Counts that neither scrapes nor restarts nor upgrades of a runtime may falsify."""

from collections.abc import AsyncIterator, Iterator, Mapping
from dataclasses import dataclass

import aiohttp
import pytest
import pytest_asyncio

from dashboards import queries
from tests.dashboards.conftest import CHOSEN
from tests.support.boards import filled
from tests.support.prometheus import PARTS, Asker, knowing
from tests.support.real.fixtures import part

pytestmark = pytest.mark.asyncio(loop_scope="module")

BEGAN, HOUR, STEP, SCRAPE = 1_767_225_600, 3600, 120, 30
# Seconds from a point to the next scrape.
PHASES = range(0, SCRAPE, 6)
CHOICE = CHOSEN | {
    "__interval": f"{STEP}s",
    "__interval_ms": f"{1000 * STEP}",
    "__range": f"{HOUR}s",
}


@dataclass(frozen=True, slots=True)
class Process:
    """An exporter, scraped in a part of the hour: its silent misses from each second on."""

    misses: Mapping[int, int]
    first: int = -SCRAPE
    last: int = HOUR
    started: int = -600
    runtime: str = "2.1.9"

    def samples(self, node: str, phase: int) -> Iterator[str]:
        """What Prometheus would have scraped."""
        labels = f'job="shadow-pleg",cluster="c",node="{node}",instance="{node}"'
        for at in range(self.first + phase, self.last + 1, SCRAPE):
            count = self.misses[max(since for since in self.misses if since <= at)]
            yield f'{queries.MISSED}{{cause="silent",{labels}}} {count} {BEGAN + at}\n'
            started, when = BEGAN + self.started, BEGAN + at
            yield f"process_start_time_seconds{{{labels}}} {started} {when}\n"
            runtime = f'name="containerd",version="{self.runtime}",stream="broadcast"'
            yield f"{queries.RUNTIME}{{{runtime},{labels}}} 1 {when}\n"


# Each node's processes, and how many misses they counted in the hour.
NODES = {
    "first": ([Process({-600: 0, 1000: 1})], 1),
    "some": ([Process({-600: 7, 480: 8, 1000: 9, 1090: 12})], 5),
    "upgraded": (
        [
            Process({-600: 4, 900: 7}, last=1499, runtime="2.0.0"),
            Process({1500: 2, 2000: 3}, first=1500, started=1500),
        ],
        6,
    ),
    "unscraped": ([Process({-600: 5}, last=900), Process({-600: 5}, first=1800)], 0),
}


@pytest_asyncio.fixture(scope="module", loop_scope="module")
async def asker(tmp_path_factory: pytest.TempPathFactory) -> AsyncIterator[Asker]:
    """A Prometheus that scraped each node at every phase."""
    for each in PARTS:
        part(each)
    file = tmp_path_factory.mktemp("counting") / "scraped"
    with file.open("w") as out:
        for name, (processes, _) in NODES.items():
            for phase in PHASES:
                for process in processes:
                    out.writelines(process.samples(f"{name}-{phase}", phase))
        out.write("# EOF\n")
    # No connection stays open between two tests.
    closing = aiohttp.TCPConnector(force_close=True)
    async with knowing(file) as url, aiohttp.ClientSession(connector=closing) as session:
        yield Asker(url, session, BEGAN + STEP, BEGAN + HOUR)


@pytest.mark.parametrize("phase", PHASES)
async def test_every_miss_is_in_one_bar(asker: Asker, phase: int) -> None:
    """Whole ones, whenever it was scraped; a pause of the scrapes is not a miss."""
    expr = queries.counted(queries.own(queries.MISSED), "node")
    nodes = CHOICE | {"node": f".+-{phase}"}
    bars = {
        each["metric"]["node"]: [float(number) for _, number in each["values"]]
        for each in await asker.ranged(filled(expr, nodes), STEP)
    }
    assert {node: sum(each) for node, each in bars.items()} == {
        f"{name}-{phase}": happened for name, (_, happened) in NODES.items()
    }
    assert all(bar == int(bar) for each in bars.values() for bar in each)


async def test_the_losses_of_an_upgraded_node_are_held_against_no_version(asker: Asker) -> None:
    """Those of the others are held against theirs."""
    expr = filled(queries.of_version(queries.silent(queries.NODE)), CHOICE)
    found = {
        each["metric"]["version"]: float(each["value"][1]) for each in await asker.instant(expr)
    }
    (happened,) = found.values()
    assert list(found) == ["2.1.9"]
    assert happened == pytest.approx(len(PHASES) * (1 + 5), rel=0.02)
