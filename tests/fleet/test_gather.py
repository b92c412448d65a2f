"""PromQL against a real Prometheus that knows fleets whose numbers can be worked out by hand.

Long windows are read from recordings: the same numbers, at a cost that a large fleet can pay.
"""

import asyncio
import json
import os
import subprocess
import sys
from collections.abc import AsyncIterator
from dataclasses import asdict
from itertools import chain, zip_longest
from pathlib import Path
from typing import Any

import msgspec
import pytest
import pytest_asyncio

from tests.support import report_fleets as fleets
from tests.support.expressions import groups
from tests.support.prometheus import Answered, Recorded, knowing, witnessed
from tests.support.report_fleets import (
    ANSWERS,
    DAY,
    HOUR,
    MINUTE,
    START,
    ReportNode,
    recorded_answers,
    reported,
    scrapes_of,
)

pytestmark = [
    pytest.mark.asyncio(loop_scope="module"),
    pytest.mark.xdist_group("tests/fleet/test_gather"),
]


class ReportFleet(msgspec.Struct, frozen=True, forbid_unknown_fields=True):
    """Its nodes, and what a report says about it."""

    nodes: list[ReportNode]
    report: dict[str, Any] = {}


FLEETS = msgspec.yaml.decode(
    Path(__file__).with_name("fleets.yaml").read_bytes(), type=dict[str, ReportFleet]
)


class Asked(msgspec.Struct, frozen=True, forbid_unknown_fields=True):
    """Flags, and what a report with them comes to."""

    flags: list[str]
    minute: int = 120
    report: dict[str, Any] = {}
    says: list[str] = []
    error: str = ""


REPORTS = msgspec.yaml.decode(
    Path(__file__).with_name("reports.yaml").read_bytes(), type=list[Asked]
)
# Of a window that is long enough to be read from recordings.
HOURS = 26
END = START + HOURS * HOUR
WEEK = 7
NODES = FLEETS["recorded"].nodes
NAMELESS = [ReportNode(name=name) for name in ("10.0.0.1", "[::1]")]


@pytest_asyncio.fixture(scope="module", loop_scope="module")
async def url(tmp_path_factory: pytest.TempPathFactory) -> AsyncIterator[str]:
    """A Prometheus that knows all the fleets."""
    scrapes = tmp_path_factory.mktemp("fleets") / "fleets.om"
    named = (scrapes_of(fleet.nodes, name) for name, fleet in FLEETS.items())
    scrapes.write_text("".join([*chain(*named), *scrapes_of(NAMELESS, ""), "# EOF\n"]))
    async with knowing(scrapes) as found:
        yield found


def part_of(data: Any, like: Any) -> Any:
    """What has the same keys and places as `like`; numbers are rounded."""
    if isinstance(like, dict):
        return {key: part_of(data[key], value) for key, value in like.items()}
    if isinstance(like, list) and isinstance(data, list):
        return [part_of(*pair) for pair in zip_longest(data, like)]
    return round(data, 9) if isinstance(data, float) else data


@pytest.mark.parametrize("name", [name for name, fleet in FLEETS.items() if fleet.report])
async def test_the_numbers_of_a_fleet_are_those_worked_out_by_hand(url: str, name: str) -> None:
    """Chosen by the label of its cluster, among others."""
    data = (await reported(url, f'--selector=cluster="{name}"')).data
    expected = FLEETS[name].report
    assert part_of(data, expected) == part_of(expected, expected)


async def test_the_recorded_answers_are_prometheus_own(url: str) -> None:
    """What the quick tests build on; UPDATE_GOLDEN=1 records them again."""
    async with witnessed(url) as witness:
        await reported(witness.url, '--selector=cluster="blue"')
    if os.environ.get("UPDATE_GOLDEN"):
        lines = ",\n".join(json.dumps(asdict(each)) for each in witness.answers)
        ANSWERS.write_text(f"[\n{lines}\n]\n", encoding="utf-8")
    for found, known in zip(witness.answers, recorded_answers(), strict=True):
        assert found.sent == known.sent
        assert _numbers(found) == pytest.approx(_numbers(known), rel=1e-9, abs=1e-9)


def _numbers(answer: Answered) -> dict[str, float]:
    """Each value by its labels and time."""
    return {
        f"{sorted(each['metric'].items())} {at}": float(value)
        for each in answer.result
        for at, value in [each["value"]]
    }


@pytest.mark.parametrize("case", REPORTS, ids=lambda case: " ".join(case.flags))
async def test_a_report_is_about_what_its_flags_say(url: str, case: Asked) -> None:
    """In numbers and words, or one line that says why there is none."""
    outcome = await reported(url, *case.flags, end=START + case.minute * MINUTE)
    if case.error:
        said = [outcome.complaint(2 if case.error.startswith("--") else 1)]
        assert case.error in said[0]
    else:
        assert part_of(outcome.data, case.report) == part_of(case.report, case.report)
        said = [*outcome.data["reasons"], *outcome.data["notes"]]
    assert [each for each in case.says if not any(each in one for one in said)] == []


async def test_serve_pays_nothing_for_it() -> None:
    """Neither flags, queries, templates nor recordings are imported."""
    dear = ("fleet.", "exporter.recording", "msgspec")
    code = f"import sys, exporter.cli; print(*(m for m in sys.modules if m.startswith({dear})))"
    said = await asyncio.to_thread(subprocess.check_output, [sys.executable, "-c", code], text=True)
    assert said.split() == []


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


async def test_recordings_have_the_same_numbers_as_scrapes(tmp_path: Path) -> None:
    """By the project's own rules. But for transitions: a process' first minutes may be lost."""
    scrapes = tmp_path / "fleet.om"
    lines = scrapes_of(NODES, "blue", HOURS * 60)
    # The rules read the jobs of alerts/values.yaml.
    jobs = {True: "kubelet", False: "shadow-pleg"}
    named = (line.replace("{", f'{{job="{jobs[line.startswith("kubelet")]}",', 1) for line in lines)
    scrapes.write_text("".join([*named, "# EOF\n"]), encoding="utf-8")
    # Rules are evaluated at other times than the report looks at.
    rules = Recorded(groups("shadow_pleg.recording.report"), START + 130, END)
    async with knowing(scrapes, recorded=[rules]) as url:
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
    lines = list(scrapes_of(NODES[:1], "blue", HOURS * 60, step=4))
    half = START + HOURS * HOUR // 2
    lines += [
        f'shadow_pleg:process:undecided_events:sum{{cluster="blue",node="{name}"}} 1 {at}\n'
        for name in NODES[0].names
        for at in range(half, END + 1, 5 * MINUTE)
    ]
    scrapes.write_text("".join([*lines, "# EOF\n"]), encoding="utf-8")
    async with knowing(scrapes) as later:
        assert (await report_on(later))["window"]["recorded"] is False


async def test_a_week_of_3000_nodes_is_within_prometheus_limits(tmp_path: Path) -> None:
    """Counted by Prometheus itself for a few nodes: as many times as much at most."""
    nodes = 2
    week = fleets.write_recorded_fleet(tmp_path / "week", nodes, WEEK)
    async with knowing(week) as url, witnessed(url) as witness:
        week.unlink()
        flags = ("--window=7d", "--min-time=6d", f"--min-nodes={nodes}")
        data = (await reported(witness.url, *flags, end=START + WEEK * DAY)).data
    assert max(witness.peaks) * fleets.LARGE / nodes < fleets.MOST_SAMPLES / 10
    assert max(witness.read) * fleets.LARGE / nodes < fleets.MOST_READ
    fleet = data["fleet"]
    assert fleet["judged"] == fleet["transitions"] == nodes * fleets.TRANSITIONS * WEEK * DAY // 300
    assert fleet["missed_by_cause"]["silent"] == fleets.LOST * -(-nodes // fleets.BAD_ONE_IN)
    assert (data["verdict"], data["coverage"]["kubelets"]) == ("NOT YET", nodes)
