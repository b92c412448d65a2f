"""PromQL against a real Prometheus that knows fleets whose numbers can be worked out by hand."""

from __future__ import annotations

import os
import time
from collections.abc import AsyncIterator, Callable, Iterable, Sequence
from dataclasses import replace
from pathlib import Path
from typing import Any

import pytest
import pytest_asyncio

from tests.report.conftest import arguments, processed, record, recorded_answers, reported
from tests.support.prometheus import PARTS, Answered, knowing, witnessed
from tests.support.real.fixtures import part
from tests.support.report_fleets import (
    EACH,
    HOUR,
    MINUTE,
    MIXED,
    START,
    WINDOW,
    ReportNode,
    numbered,
    scrapes_of,
)

pytestmark = [
    pytest.mark.asyncio(loop_scope="module"),
    pytest.mark.xdist_group("tests/report/test_queries"),
]
STORM = tuple(range(10 * MINUTE, WINDOW, 10 * MINUTE))
NEVER_OWED = {
    ("ContainerRemoved", "by_design"): 3000,
    ("ContainerStarted", "stream_down"): 20,
    ("ContainerDied", "discarded"): 10,
}
# Each fleet is a cluster of this name: its nodes, and what the report says about it.
FLEETS: dict[str, tuple[Sequence[ReportNode], dict[str, Any]]] = {
    "healthy": (
        numbered(3),
        {
            "verdict": "GO",
            "fleet.transitions": 3 * EACH,
            "fleet.judged": 3 * EACH,
            "fleet.silent_loss_ratio": 0,
            "fleet.silent_loss_upper_bound": pytest.approx(1 - 0.05 ** (1 / 36_000), rel=1e-9),
            "fleet.final_loss": 0,
            "fleet.missed": [],
            "worst_nodes": [],
            "coverage": {
                "nodes": 3,
                "nodes_now": 3,
                "first_seen": "2026-11-14T00:05:00Z",
                "kubelets": 3,
                "unwatched": 0,
                "unwatched_nodes": [],
                "watched_ratio": 1,
                "listening_ratio": 1,
                "node_hours": {
                    "seen": 6,
                    "streaming": 6,
                    "not_subscribed": 0,
                    "scrape_gaps": 0,
                    "kubelets": 6,
                },
                "least_listening": [],
            },
        },
    ),
    # 40 of 12,000 lost on one node of twenty: the fleet's mean of 0.017 % would be a go.
    "one-bad-version": (
        [
            *numbered(19),
            ReportNode("bad", version="2.1.8", missed={("ContainerDied", "silent"): 40}),
        ],
        {
            "verdict": "NO-GO",
            "fleet.judged": 20 * EACH,
            "runtimes.0.runtime": "containerd 2.1.9",
            "runtimes.0.verdict": "GO",
            "runtimes.0.judged": 19 * EACH,
            "runtimes.0.nodes": 19,
            "runtimes.1.runtime": "containerd 2.1.8",
            "runtimes.1.verdict": "NO-GO",
            "runtimes.1.judged": EACH,
            "runtimes.1.nodes": 1,
            "worst_nodes": [
                {
                    "node": "one-bad-version/bad",
                    "runtime": "containerd 2.1.8",
                    "silent": 40,
                    "judged": EACH,
                }
            ],
        },
    ),
    "half-covered": (
        [*numbered(4), *(replace(node, watched=False) for node in numbered(4, "bare"))],
        {
            "verdict": "NOT ENOUGH EVIDENCE",
            "fleet.judged": 4 * EACH,
            "coverage.nodes": 4,
            "coverage.kubelets": 8,
            "coverage.unwatched": 4,
            "coverage.unwatched_nodes": [f"half-covered/bare-{i}" for i in range(4)],
            "coverage.listening_ratio": 0.5,
        },
    ),
    # Its last scrape as refused is the end of the 12th slice of 24, so 12 are left.
    "refused-for-an-hour": (
        [ReportNode("late", state=lambda at: "refused" if at <= HOUR else "streaming")],
        {
            "verdict": "NOT ENOUGH EVIDENCE",
            "fleet.transitions": EACH,
            "fleet.judged": EACH // 2,
            "coverage.listening_ratio": 0.5,
            "coverage.node_hours.not_subscribed": 1,
        },
    ),
    # Each of 11 restarts hides the minute before it from its counter. Over the window: 119 steps
    # less 11, 108 x 25 x 120/119 = 2,722.7 for each of 4 events and 2 nodes: 21,782. In slices of
    # five minutes: 11 with a restart, 3 x 25 x 5/4 = 93.75 each, and 13 of 125: 2,656.25 x 8.
    "restarts": (
        [
            ReportNode("a", restarts=STORM),
            ReportNode("b", restarts=STORM, missed={("ContainerDied", "silent"): 3}),
        ],
        {
            "fleet.transitions": 21_782,
            "fleet.judged": 21_250,
            "fleet.missed": [{"event": "ContainerDied", "number": 3, "cause": "silent"}],
            "worst_nodes.0.judged": 10_625,
        },
    ),
    # 3,000 by design, 20 while the stream was down, 10 discarded.
    "never-owed": (
        [ReportNode(*("c", "1.36.3", "cri-o"), missed=NEVER_OWED, late={"ContainerStarted": 5})],
        {
            "verdict": "GO",
            "fleet.judged": EACH - 3030,
            "fleet.silent_loss_ratio": 0,
            "fleet.missed_by_cause.silent": 0,
            "fleet.missed_by_cause.stream_down": 20,
            "fleet.missed_by_cause.discarded": 10,
            "fleet.missed_by_cause.by_design": 3000,
            "fleet.final_loss": 25,
        },
    ),
    # Which of its transitions belong to which version is unknown.
    "upgraded": (
        [*numbered(1), ReportNode("up", version="2.1.8", upgraded=(HOUR, "2.1.9"))],
        {
            "runtimes.0.runtime": "containerd 2.1.9",
            "runtimes.0.judged": EACH,
            "runtimes.1.runtime": "changed in the window",
            "runtimes.1.judged": EACH,
        },
    ),
    # The last scrape before the gap is at 59 min, found until 64 min; at 100 min there is one
    # again. So the slices that end at 65, 70 ... 95 min are empty: 7 x 5 min.
    "gap": (
        [ReportNode("gap", scraped=lambda at: at < HOUR or at >= 100 * MINUTE)],
        {
            "coverage.node_hours.scrape_gaps": round(35 / 60, 3),
            "coverage.listening_ratio": pytest.approx(17 / 24),
        },
    ),
    "green": (
        [replace(node, watched=i == 0) for i, node in enumerate(numbered(3, "g"))],
        {"coverage.nodes": 1, "coverage.kubelets": 3, "coverage.unwatched": 2},
    ),
    # Without the exporter.
    "red": ([ReportNode("r", watched=False)], {}),
    "second-hour": ([ReportNode("n", missed={("ContainerDied", "silent"): 9}, lost_at=5400)], {}),
    "blue": (MIXED, {"verdict": "NO-GO"}),
}
NAMELESS = [
    ReportNode(name, labels=f'instance="{name}:13386",job="s"') for name in ("10.0.0.1", "[::1]")
]
Written = Callable[..., Path]


@pytest.fixture(scope="module")
def written(tmp_path_factory: pytest.TempPathFactory) -> Written:
    """Writes nodes to an OpenMetrics file."""
    for each in PARTS:
        part(each)

    def write(nodes: Iterable[ReportNode], seconds: int = WINDOW, step: int = MINUTE) -> Path:
        file = tmp_path_factory.mktemp("fleet") / "fleet.om"
        lines = scrapes_of(nodes, seconds, step)
        file.write_text("".join(f"{line}\n" for line in lines), encoding="utf-8")
        return file

    return write


@pytest_asyncio.fixture(scope="module", loop_scope="module")
async def url(written: Written) -> AsyncIterator[str]:
    """A Prometheus that knows all the fleets."""
    named = [replace(node, cluster=name) for name, (nodes, _) in FLEETS.items() for node in nodes]
    async with knowing(written([*named, *NAMELESS])) as found:
        yield found


def at(data: Any, path: str) -> Any:  # noqa: ANN401 - JSON
    """A part of a JSON document."""
    for key in path.split("."):
        data = data[int(key) if isinstance(data, list) else key]
    return data


@pytest.mark.parametrize("fleet", [name for name, (_, expected) in FLEETS.items() if expected])
async def test_the_numbers_of_a_fleet_are_those_worked_out_by_hand(url: str, fleet: str) -> None:
    """Chosen by the label of its cluster, among others."""
    data = (await reported(url, f'--selector=cluster="{fleet}"')).data
    expected = FLEETS[fleet][1]
    assert {path: at(data, path) for path in expected} == expected


async def test_the_recorded_answers_are_prometheus_own(url: str) -> None:
    """What the quick tests build on; UPDATE_GOLDEN=1 records them again."""
    async with witnessed(url) as witness:
        await reported(witness.url, '--selector=cluster="blue"')
    if os.environ.get("UPDATE_GOLDEN"):
        record(witness.answers)
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
    fewer = (await reported(url, some, '--kubelet-selector=node!~"g-[12]"')).data["coverage"]
    assert (coverage["nodes"], coverage["kubelets"], coverage["unwatched"]) == (4, 6, 2)
    assert (fewer["kubelets"], fewer["unwatched"]) == (4, 0)


async def test_without_a_node_label_instances_stand_for_nodes(url: str) -> None:
    """A note says so; a label that no target has is refused."""
    chosen = '--selector=job="s"'
    data = (await reported(url, chosen)).data
    named = await reported(url, chosen, "--node-labels=job,instance")
    wrong = await reported(url, chosen, "--node-labels=node")
    assert (data["coverage"]["nodes"], data["coverage"]["kubelets"]) == (2, None)
    assert any("instances stand for nodes" in note for note in data["notes"])
    assert named.data["fleet"]["judged"] == 2 * EACH
    assert wrong.complaint(2).startswith("--node-labels: no target of shadow-pleg has a label")


async def test_the_end_of_the_window_can_be_chosen(url: str) -> None:
    """The first hour has none of the losses of the second."""
    flags = ('--selector=cluster="second-hour"', "--window=1h")
    first = (await reported(url, *flags, end=START + HOUR)).data
    second = (await reported(url, *flags, "--end=2026-11-14T03:04:59+01:00")).data
    assert second["window"]["to"] == "2026-11-14T02:00:00Z"
    assert [each["fleet"]["missed_by_cause"]["silent"] for each in (first, second)] == [0, 9]
    assert first["fleet"]["judged"] == second["fleet"]["judged"] == EACH // 2


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
    """It writes to a pipe, which it cannot replace, and ends as --fail-on wants."""
    flags = ('--selector=cluster="blue"', "--output=/dev/stdout", "--fail-on=no-go")
    outcome = await processed("-m", "exporter", *arguments(url, *flags))
    assert '"schema": "shadow-pleg.report/v1"' in outcome.out
    assert (outcome.code, outcome.err) == (1, "")


async def test_serve_pays_nothing_for_it() -> None:
    """Its flags are imported for `--help`, and neither queries, templates nor recordings."""
    dear = ("exporter.report.", "exporter.recording", "msgspec")
    code = f"import sys, exporter.cli; print(*(m for m in sys.modules if m.startswith({dear})))"
    assert (await processed("-c", code)).out.split() == ["exporter.report.options"]


async def test_a_thousand_nodes_cost_as_many_questions_as_one(written: Written) -> None:
    """Fifteen at most, each answered in a few KB, in a minute at the very most."""
    lost = {("ContainerDied", "silent"): 1}
    nodes = [
        ReportNode(f"n{i}", f"2.1.{i % 5}", missed={} if i % 50 else lost, lost_at=20 * MINUTE)
        for i in range(1000)
    ]
    flags = ("--window=30m", f"--end={START + HOUR // 2}")
    async with knowing(written(nodes, HOUR // 2, 2 * MINUTE)) as url, witnessed(url) as witness:
        await reported(witness.url, *flags, '--selector=node="n0"', '--kubelet-selector=node="n0"')
        of_one = len(witness.answers)
        witness.answers.clear()
        began = time.monotonic()
        data = (await reported(witness.url, *flags)).data
        took = time.monotonic() - began
    assert len(witness.answers) == of_one <= 15
    assert witness.largest < 32_768
    assert max(len(each.sent["query"]) for each in witness.answers) < 10_000
    assert took < 60
    fleet = data["fleet"]
    judged, silent = fleet["judged"], fleet["missed_by_cause"]["silent"]
    assert (fleet["nodes"], judged, silent, data["verdict"]) == (1000, 250 * EACH, 20, "GO")
    assert [each["judged"] for each in data["runtimes"]] == [50 * EACH] * 5
    assert len(data["worst_nodes"]) == 10
