"""Counts that neither scrapes nor rules nor restarts nor upgrades of a runtime may falsify."""

from collections.abc import AsyncIterator, Iterator, Mapping
from dataclasses import dataclass, field, replace

import pytest
import pytest_asyncio

from dashboards import queries
from tests.dashboards.conftest import chosen
from tests.support.expressions import filled, groups
from tests.support.prometheus import Asker, Recorded, asking

pytestmark = pytest.mark.asyncio(loop_scope="module")

BEGAN, HOUR, STEP, SCRAPE = 1_767_225_600, 3600, 120, 30
# What rules keep, they keep every five minutes; and they have run for a while.
KEPT, BEFORE = 300, 600
# Seconds from a point to the next scrape.
PHASES = range(0, SCRAPE, 6)


@dataclass(frozen=True, slots=True)
class Process:
    """An exporter, scraped in a part of the hour: its misses and late events from a second on."""

    misses: Mapping[int, int]
    late: Mapping[int, int] = field(default_factory=lambda: {-BEFORE: 0})
    first: int = -BEFORE
    last: int = HOUR
    started: int = -3600
    runtime: str = "2.1.9"

    def samples(self, node: str, phase: int) -> Iterator[str]:
        """What Prometheus would have scraped."""
        labels = f'job="shadow-pleg",cluster="c",node="{node}",instance="{node}"'
        for at in range(self.first + phase, self.last + 1, SCRAPE):
            for name, each in (("kube_pod_missed", self.misses), ("shadow_pleg_late", self.late)):
                count = each[max(since for since in each if since <= at)]
                yield f'{name}_events_total{{cause="silent",{labels}}} {count} {BEGAN + at}\n'
            started, when = BEGAN + self.started, BEGAN + at
            yield f"process_start_time_seconds{{{labels}}} {started} {when}\n"
            runtime = f'name="containerd",version="{self.runtime}",stream="broadcast"'
            yield f"{queries.RUNTIME}{{{runtime},{labels}}} 1 {when}\n"


# Each node's processes, and how many events they lost for good in the hour.
NODES = {
    "first": ([Process({-600: 0, 1000: 1})], 1),
    "late": ([Process({-600: 3, 1000: 6, 2000: 7}, late={-600: 3, 1299: 4, 1700: 6})], 1),
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
    """A Prometheus that scraped each node at every phase, and kept what the rules keep."""
    home = tmp_path_factory.mktemp("counting")
    file = home / "scraped"
    with file.open("w") as out:
        for name, (processes, _) in NODES.items():
            for phase in PHASES:
                for process in processes:
                    out.writelines(process.samples(f"{name}-{phase}", phase))
        out.write("# EOF\n")
    report = groups("shadow_pleg.recording.report")
    assert [group["interval"] for group in report] == [f"{KEPT // 60}m"]
    recorded = Recorded(report, BEGAN - BEFORE, BEGAN + HOUR)
    async with asking(file, recorded=[recorded], began=BEGAN, ended=BEGAN + HOUR) as asker:
        yield asker


@pytest.mark.parametrize("phase", PHASES)
@pytest.mark.parametrize(("of", "step"), [(queries.scraped, STEP), (queries.kept, 2 * KEPT)])
async def test_every_loss_is_in_one_bar(
    asker: Asker, of: queries.Source, step: int, phase: int
) -> None:
    """Whole ones, whenever it was scraped; a pause is no loss, and what is late is taken back."""
    expr = filled(queries.losses(queries.SILENT, "node", of), chosen(step, HOUR))
    expr = expr.replace('node=~".*"', f'node=~".+-{phase}"')
    found = await replace(asker, began=BEGAN + step).ranged(expr, step)
    bars = {
        each["metric"]["node"]: [float(number) for _, number in each["values"]] for each in found
    }
    assert {node: sum(each) for node, each in bars.items()} == {
        f"{name}-{phase}": happened for name, (_, happened) in NODES.items()
    }
    assert all(bar == int(bar) for each in bars.values() for bar in each)
    assert min(bars[f"late-{phase}"]) < 0


async def test_what_was_announced_late_was_not_lost(asker: Asker) -> None:
    """As exactly as `increase()` counts over an hour of a sample in five minutes."""
    expr = filled(queries.lost(queries.SILENT, queries.NODE), chosen(KEPT, HOUR))
    found = {each["metric"]["node"]: each["value"][1] for each in await asker.instant(expr)}
    for name in ("first", "late", "some", "unscraped"):
        for phase in PHASES:
            assert float(found[f"{name}-{phase}"]) == pytest.approx(NODES[name][1], rel=0.15), name


async def test_the_losses_of_an_upgraded_node_are_held_against_no_version(asker: Asker) -> None:
    """Those of the others are held against theirs."""
    per_node = queries.lost(queries.SILENT, queries.NODE)
    expr = filled(queries.of_version(per_node), chosen(KEPT, HOUR))
    found = {
        each["metric"]["version"]: float(each["value"][1]) for each in await asker.instant(expr)
    }
    (happened,) = found.values()
    assert list(found) == ["2.1.9"]
    assert happened == pytest.approx(len(PHASES) * (1 + 1 + 5), rel=0.15)
