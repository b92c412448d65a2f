"""PromQL against a real Prometheus that knows fleets whose numbers can be worked out by hand."""

import asyncio
import json
import os
import subprocess
import sys
from collections.abc import AsyncIterator, Callable, Iterable
from dataclasses import asdict
from itertools import chain, zip_longest
from pathlib import Path
from typing import Any

import msgspec
import pytest
import pytest_asyncio

from testbed.fixtures import part
from tests.fleet.conftest import ANSWERS, arguments, recorded_answers, reported
from tests.support.commands import running
from tests.support.prometheus import PARTS, Answered, knowing, witnessed
from tests.support.report_fleets import HOUR, MINUTE, START, ReportFleet, ReportNode, scrapes_of

pytestmark = [
    pytest.mark.asyncio(loop_scope="module"),
    pytest.mark.xdist_group("tests/fleet/test_queries"),
]
FLEETS = msgspec.yaml.decode(
    Path(__file__).with_name("fleets.yaml").read_bytes(), type=dict[str, ReportFleet]
)
NAMELESS = [ReportNode(name=name) for name in ("10.0.0.1", "[::1]")]
Write = Callable[[Iterable[str]], Path]


@pytest.fixture(scope="module")
def write(tmp_path_factory: pytest.TempPathFactory) -> Write:
    """Writes scrapes to an OpenMetrics file."""
    for each in PARTS:
        part(each)

    def written(scrapes: Iterable[str]) -> Path:
        file = tmp_path_factory.mktemp("fleet") / "fleet.om"
        file.write_text("".join([*scrapes, "# EOF\n"]), encoding="utf-8")
        return file

    return written


@pytest_asyncio.fixture(scope="module", loop_scope="module")
async def url(write: Write) -> AsyncIterator[str]:
    """A Prometheus that knows all the fleets."""
    named = (scrapes_of(fleet.nodes, name) for name, fleet in FLEETS.items())
    async with knowing(write(chain(*named, scrapes_of(NAMELESS, "")))) as found:
        yield found


def part_of(data: Any, like: Any) -> Any:  # noqa: ANN401 - JSON
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
        assert (found.how, found.sent) == (known.how, known.sent)
        assert _numbers(found) == pytest.approx(_numbers(known), rel=1e-9, abs=1e-9)


def _numbers(answer: Answered) -> dict[str, float]:
    """Each value by its labels and time."""
    return {
        f"{sorted(each['metric'].items())} {at}": float(value)
        for each in answer.result
        for at, value in each.get("values", [each.get("value")])
    }


async def test_other_clusters_kubelets_are_not_expected_to_be_watched(url: str) -> None:
    """One cluster has no shadow-pleg; --kubelet-selector leaves kubelets out, too."""
    some = '--selector=cluster=~"green|healthy"'
    coverage = (await reported(url, some)).data["coverage"]
    fewer = (await reported(url, some, '--kubelet-selector=node!~"bare-[01]"')).data["coverage"]
    assert (coverage["nodes"], coverage["kubelets"], coverage["unwatched"]) == (4, 6, 2)
    assert (fewer["kubelets"], fewer["unwatched"]) == (4, 0)


async def test_without_a_node_label_instances_stand_for_nodes(url: str) -> None:
    """A note says so; a label that no target has is refused."""
    chosen = '--selector=job="s"'
    data = (await reported(url, chosen)).data
    named = await reported(url, chosen, "--node-labels=job,instance")
    wrong = await reported(url, chosen, "--node-labels=node")
    assert (data["coverage"]["nodes"], data["coverage"]["kubelets"]) == (2, None)
    assert any("instances are counted as nodes" in note for note in data["notes"])
    assert named.data["fleet"]["judged"] == 2 * 12_000
    assert wrong.complaint(2).startswith("--node-labels: no target of shadow-pleg has a label")


async def test_another_kubelet_can_be_asked_about(url: str) -> None:
    """What is lost costs one of 1.37 a second: that does not decide, nor has it known issues."""
    chosen = '--selector=cluster="stalled"'
    later = (await reported(url, chosen, "--kubelet-version=v1.37.0")).data
    assert (later["verdict"], later["known_issues"]) == ("GO", [])
    assert later["kubelets"]["versions"] == [{"version": "v1.37.0", "nodes": 5}]
    assert "judged for kubelets v1.37.0, whatever runs (--kubelet-version)" in later["notes"]


@pytest.mark.parametrize(
    ("minute", "window", "age"), [(119, "7d", "13m"), (119, "1d", "13m"), (112, "30d", "6m")]
)
async def test_a_fresh_installation_is_told_its_age(
    url: str, minute: int, window: str, age: str
) -> None:
    """Though it is younger than a slice of the window, before which the end would be."""
    flags = ('--selector=cluster="fresh"', f"--window={window}", "--min-time=1d")
    data = (await reported(url, *flags, end=START + minute * MINUTE)).data
    assert data["verdict"] == "NOT ENOUGH EVIDENCE"
    assert data["reasons"][0] == f"this installation is {age} old: a verdict needs 1d (--min-time)"
    assert data["fleet"]["transitions"] > 0


async def test_an_installation_of_a_few_minutes_is_asked_again_later(url: str) -> None:
    """No slice is as short: one line, and not that nothing is scraped."""
    flags = ('--selector=cluster="fresh"', "--window=7d")
    said = (await reported(url, *flags, end=START + 108 * MINUTE)).complaint()
    assert said == (
        "this installation is only a few minutes old: repeat this report in ten minutes"
    )


async def test_the_end_of_the_window_can_be_chosen(url: str) -> None:
    """The first hour has none of the losses of the second."""
    flags = ('--selector=cluster="second-hour"', "--window=1h")
    first = (await reported(url, *flags, end=START + HOUR)).data
    second = (await reported(url, *flags, "--end=2026-11-14T03:04:59+01:00")).data
    assert second["window"]["to"] == "2026-11-14T02:00:00Z"
    assert [each["fleet"]["missed_by_cause"]["silent"] for each in (first, second)] == [0, 9]
    assert first["fleet"]["judged"] == second["fleet"]["judged"] == 12_000 // 2


async def test_what_prometheus_does_not_have_or_not_understand_is_one_line(url: str) -> None:
    """What was looked for, and when; a mistake in a selector in Prometheus' own words."""
    early = (await reported(url, end=START - 10 * HOUR)).complaint()
    nowhere = (await reported(url, '--selector=cluster="pink"')).complaint()
    mistake = (await reported(url, "--selector=cluster==3")).complaint()
    assert "has no shadow_pleg_build_info from 2026-11-13T12:00:00Z to" in early
    assert 'no shadow_pleg_build_info that cluster="pink" selects' in nowhere
    assert "refuses a query (400): " in mistake
    assert "parse error" in mistake


async def test_the_command_runs_as_a_process(url: str) -> None:
    """It ends as --fail-on wants."""
    flags = ('--selector=cluster="blue"', "--fail-on=no-go")
    async with running(*arguments(url, *flags)) as process:
        outcome = await process.ended()
    assert '"schema": "shadow-pleg.report/v1"' in outcome.out
    assert (outcome.code, outcome.err) == (1, "")


async def test_serve_pays_nothing_for_it() -> None:
    """Neither flags, queries, templates nor recordings are imported."""
    dear = ("fleet.", "exporter.recording", "msgspec")
    code = f"import sys, exporter.cli; print(*(m for m in sys.modules if m.startswith({dear})))"
    said = await asyncio.to_thread(subprocess.check_output, [sys.executable, "-c", code], text=True)
    assert said.split() == []


async def test_a_large_fleet_costs_as_many_questions_as_a_small_one(url: str) -> None:
    """As many; the answers for all fleets together are a few KB."""
    counts, sizes = [], []
    for chosen in ('cluster=~"green|second-hour"', 'cluster!~"blue"'):
        async with witnessed(url) as witness:
            await reported(witness.url, f"--selector={chosen}", f"--kubelet-selector={chosen}")
        counts.append(len(witness.answers))
        sizes.append(max(len(each.sent["query"]) for each in witness.answers))
    assert counts == [13, 13]
    assert max(sizes) < 10_000
    assert witness.largest < 32_768
