"""Long windows are read from recordings: the same numbers, at a cost that a large fleet can pay."""

from collections.abc import AsyncIterator
from pathlib import Path
from typing import Any

import msgspec
import pytest
import pytest_asyncio

from tests.fleet.conftest import reported
from tests.support import report_fleets as fleets
from tests.support.expressions import groups
from tests.support.prometheus import Recorded, knowing, witnessed
from tests.support.report_fleets import ReportNode

pytestmark = [
    pytest.mark.asyncio(loop_scope="module"),
    pytest.mark.xdist_group("tests/fleet/test_queries"),
]
HOURS = 26
END = fleets.START + HOURS * fleets.HOUR
WEEK = 7

NODES = msgspec.yaml.decode(
    Path(__file__).with_name("recorded.yaml").read_bytes(), type=list[ReportNode]
)


@pytest_asyncio.fixture(scope="module", loop_scope="module")
async def url(tmp_path_factory: pytest.TempPathFactory) -> AsyncIterator[str]:
    """A Prometheus with those nodes' scrapes, and what the project's own rules record of them."""
    scrapes = tmp_path_factory.mktemp("recorded") / "fleet.om"
    lines = fleets.scrapes_of(NODES, "blue", HOURS * 60)
    # The rules read the jobs of alerts/values.yaml.
    jobs = {True: "kubelet", False: "shadow-pleg"}
    named = (line.replace("{", f'{{job="{jobs[line.startswith("kubelet")]}",', 1) for line in lines)
    scrapes.write_text("".join([*named, "# EOF\n"]), encoding="utf-8")
    report = groups("shadow_pleg.recording.report")
    async with knowing(scrapes, recorded=[Recorded(report, fleets.START, END)]) as found:
        yield found


async def report_on(url: str, *flags: str) -> dict[str, Any]:
    """About the last 25 hours."""
    return (await reported(url, "--window=25h", *flags, end=END)).data


def like(data: Any) -> Any:
    """The same report: counts that are large may differ a little, and what is measured."""
    if isinstance(data, dict):
        return {key: like(value) for key, value in data.items()}
    if isinstance(data, list):
        return list(map(like, data))
    return pytest.approx(data, rel=0.03 if isinstance(data, float) else 0.005)


async def test_recordings_have_the_same_numbers_as_scrapes(url: str) -> None:
    """But for transitions: a process' first minutes may be lost."""
    recorded = await report_on(url, '--selector=job="shadow-pleg"')
    # A label that recordings do not have: they cannot be chosen by it.
    scraped = await report_on(url, '--selector=pod=""')
    assert (recorded["window"].pop("recorded"), scraped["window"].pop("recorded")) == (True, False)
    # They have numbers in words.
    for each in (*recorded["runtimes"], *scraped["runtimes"]):
        del each["reasons"]
    assert recorded == like(scraped)
    lost = [(each["node"], each["number"]) for each in recorded["nodes"] if each["what"] == "lost"]
    assert lost == [("blue/bad", 54), ("blue/new", 1)]


async def test_rules_that_came_later_than_the_exporters_are_not_read(tmp_path: Path) -> None:
    """Half of the window would be missing: the scrapes have all of it."""
    scrapes = tmp_path / "fleet.om"
    lines = list(fleets.scrapes_of(NODES[:1], "blue", HOURS * 60, step=4))
    half = fleets.START + HOURS * fleets.HOUR // 2
    lines += [
        f'shadow_pleg:process:undecided_events:sum{{cluster="blue",node="{name}"}} 1 {at}\n'
        for name in NODES[0].names
        for at in range(half, END + 1, 5 * fleets.MINUTE)
    ]
    scrapes.write_text("".join([*lines, "# EOF\n"]), encoding="utf-8")
    async with knowing(scrapes) as later:
        assert (await report_on(later))["window"]["recorded"] is False


async def test_a_week_of_3000_nodes_is_within_prometheus_limits(tmp_path: Path) -> None:
    """Counted by Prometheus itself for a few nodes: as many times as much at most."""
    nodes = 4
    week = fleets.write_recorded_fleet(tmp_path / "week", nodes, WEEK)
    async with knowing(week) as url, witnessed(url) as witness:
        week.unlink()
        flags = ("--window=7d", "--min-time=6d", f"--min-nodes={nodes}")
        data = (await reported(witness.url, *flags, end=fleets.START + WEEK * fleets.DAY)).data
    assert max(witness.peaks) * fleets.LARGE / nodes < fleets.MOST_SAMPLES / 10
    assert max(witness.read) * fleets.LARGE / nodes < fleets.MOST_READ
    fleet = data["fleet"]
    assert (
        fleet["judged"]
        == fleet["transitions"]
        == nodes * fleets.TRANSITIONS * WEEK * fleets.DAY // 300
    )
    assert fleet["missed_by_cause"]["silent"] == fleets.LOST * -(-nodes // fleets.BAD_ONE_IN)
    assert (data["verdict"], data["coverage"]["kubelets"]) == ("NOT YET", nodes)
