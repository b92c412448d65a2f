"""Fleets whose numbers can be worked out by hand, through a real Prometheus.

A node of `fleets` has 4 events x 25 transitions a minute: 12,000 in the two hours.
"""

from __future__ import annotations

import time
from dataclasses import replace

import pytest

from tests.report.conftest import reported
from tests.support.report_fleets import (
    HOUR,
    MINUTE,
    START,
    WINDOW,
    Node,
    first_half_refused,
    numbered,
)
from tests.support.report_prometheus import counted, prometheus

pytestmark = pytest.mark.usefixtures("prometheus_parts")
EACH = 12_000


async def test_a_healthy_fleet_is_a_go() -> None:
    """Every number of it: 3 x 12,000 judged, none lost, the bound 1 - 0.05^(1/36000)."""
    async with prometheus(numbered(3)) as url:
        data = (await reported(url)).data
    fleet = data["fleet"]
    assert (data["verdict"], fleet["transitions"], fleet["judged"]) == ("GO", 3 * EACH, 3 * EACH)
    assert fleet["silent_loss_upper_bound"] == pytest.approx(1 - 0.05 ** (1 / 36_000), rel=1e-9)
    assert (fleet["silent_loss_ratio"], fleet["final_loss"], fleet["missed"]) == (0, 0, [])
    assert data["worst_nodes"] == []
    assert data["coverage"] == {
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
    }


async def test_one_bad_runtime_version_is_found_and_named() -> None:
    """40 of 12,000 lost on one node of twenty: the fleet's mean of 0.017 % would be a go."""
    bad = Node("bad", version="2.1.8", missed={("ContainerDied", "silent"): 40})
    async with prometheus([*numbered(19), bad]) as url:
        outcome = await reported(url)
    data = outcome.data
    assert (data["verdict"], data["fleet"]["judged"]) == ("NO-GO", 20 * EACH)
    assert data["fleet"]["silent_loss_upper_bound"] < 0.001
    assert data["reasons"][0].startswith(
        "containerd 2.1.8 (1 node): 40 of 12,000 transitions were lost silently: 0.333 %"
    )
    good, worse = outcome.runtime("containerd 2.1.9"), outcome.runtime("containerd 2.1.8")
    assert (good["verdict"], good["judged"], good["nodes"]) == ("GO", 19 * EACH, 19)
    assert (worse["verdict"], worse["judged"], worse["nodes"]) == ("NO-GO", EACH, 1)
    assert data["worst_nodes"] == [
        {"node": "blue/bad", "runtime": "containerd 2.1.8", "silent": 40, "judged": EACH}
    ]


async def test_a_half_covered_fleet_is_not_enough_evidence() -> None:
    """Nothing lost among 48,000; four of eight nodes have nobody to see it."""
    bare = [replace(node, watched=False) for node in numbered(4, "bare")]
    async with prometheus([*numbered(4), *bare]) as url:
        data = (await reported(url)).data
    assert (data["verdict"], data["fleet"]["judged"]) == ("NOT ENOUGH EVIDENCE", 4 * EACH)
    assert data["reasons"][0].startswith("4 of 8 nodes with a kubelet are watched (50 %)")
    coverage = data["coverage"]
    assert (coverage["nodes"], coverage["kubelets"], coverage["unwatched"]) == (4, 8, 4)
    assert coverage["unwatched_nodes"] == [f"blue/bare-{i}" for i in range(4)]
    assert coverage["listening_ratio"] == 0.5


async def test_time_without_a_subscription_is_not_judged() -> None:
    """Refused for the first hour: 12 slices of 24, and the one that begins with that state.

    Its last scrape as refused is the end of the 12th slice, so 12 of 24 slices are left: 6,000.
    """
    async with prometheus([Node("late", state=first_half_refused)]) as url:
        data = (await reported(url)).data
    assert (data["fleet"]["transitions"], data["fleet"]["judged"]) == (EACH, EACH // 2)
    assert (data["coverage"]["listening_ratio"], data["verdict"]) == (0.5, "NOT ENOUGH EVIDENCE")
    assert data["coverage"]["node_hours"]["not_subscribed"] == 1


async def test_resets_neither_hide_nor_invent() -> None:
    """Processes that restart every ten minutes, 11 times, with 3 losses between two restarts.

    Each restart hides the minute before it from its counter. Over the window: 119 steps less 11,
    108 x 25 x 120/119 = 2,722.7 for each of 4 events and 2 nodes: 21,782. In slices of five
    minutes: 11 with a restart, 3 x 25 x 5/4 = 93.75 each, and 13 of 125: 2,656.25 x 8 = 21,250.
    """
    storm = tuple(range(10 * MINUTE, WINDOW, 10 * MINUTE))
    nodes = [
        Node("a", restarts=storm),
        Node("b", restarts=storm, missed={("ContainerDied", "silent"): 3}),
    ]
    async with prometheus(nodes) as url:
        data = (await reported(url)).data
    fleet = data["fleet"]
    assert (fleet["transitions"], fleet["judged"]) == (21_782, 21_250)
    assert fleet["missed"] == [{"event": "ContainerDied", "number": 3, "cause": "silent"}]
    assert data["worst_nodes"][0]["judged"] == 10_625


async def test_what_was_never_owed_is_held_against_nobody() -> None:
    """3,000 by design, 20 while the stream was down, 10 discarded: 8,970 of 12,000 are judged."""
    missed = {
        ("ContainerRemoved", "by_design"): 3000,
        ("ContainerStarted", "stream_down"): 20,
        ("ContainerDied", "discarded"): 10,
    }
    node = Node("c", "1.36.3", "cri-o", missed=missed, late={"ContainerStarted": 5})
    async with prometheus([node]) as url:
        data = (await reported(url)).data
    fleet = data["fleet"]
    assert (data["verdict"], fleet["judged"], fleet["silent_loss_ratio"]) == ("GO", 8970, 0)
    assert fleet["missed_by_cause"] == {
        "silent": 0,
        "stream_down": 20,
        "discarded": 10,
        "by_design": 3000,
    }
    assert fleet["final_loss"] == 25
    assert [note.split()[0] for note in data["notes"]] == ["20", "10"]


async def test_a_node_that_was_upgraded_speaks_for_no_version() -> None:
    """Nobody knows which of its transitions were whose."""
    nodes = [*numbered(1), Node("up", version="2.1.8", upgraded=(HOUR, "2.1.9"))]
    async with prometheus(nodes) as url:
        outcome = await reported(url)
    assert [each["runtime"] for each in outcome.data["runtimes"]] == [
        "containerd 2.1.9",
        "changed in the window",
    ]
    assert outcome.runtime("containerd 2.1.9")["judged"] == EACH
    assert outcome.runtime("changed in the window")["judged"] == EACH


async def test_a_gap_in_the_scrapes_is_told() -> None:
    """40 minutes unseen, less what Prometheus looks back.

    The last scrape before it is at 59 min, found until 64 min; at 100 min there is one again. So
    the slices that end at 65, 70 ... 95 min are empty: 7 x 5 min.
    """
    node = Node("gap", scraped=lambda at: at < HOUR or at >= 100 * MINUTE)
    async with prometheus([node]) as url:
        data = (await reported(url)).data
    hours = data["coverage"]["node_hours"]
    assert hours["scrape_gaps"] == round(35 / 60, 3)
    assert data["coverage"]["listening_ratio"] == pytest.approx(17 / 24)


async def test_other_clusters_kubelets_are_not_ours_to_watch() -> None:
    """One Prometheus for two clusters, one of them without shadow-pleg; --selector chooses, too."""
    green = [Node(f"g{i}", watched=i == 0, labels=f'cluster="green",node="g{i}"') for i in range(3)]
    red = Node("r", watched=False, labels='cluster="red",node="r"')
    async with prometheus([*numbered(2), *green, red]) as url:
        both = (await reported(url)).data["coverage"]
        blue = (await reported(url, '--selector=cluster="blue"')).data["coverage"]
        kubelets = (await reported(url, '--kubelet-selector=node!~"g[12]"')).data["coverage"]
    assert (both["nodes"], both["kubelets"], both["unwatched"]) == (3, 5, 2)
    assert (blue["nodes"], blue["kubelets"], blue["unwatched"]) == (2, 2, 0)
    assert (kubelets["kubelets"], kubelets["unwatched"]) == (3, 0)


async def test_without_a_node_label_instances_stand_for_nodes() -> None:
    """It is said, and whoever names a label that is not there is told."""
    nodes = [
        Node(name, labels=f'instance="{name}:13386",job="s"') for name in ("10.0.0.1", "[::1]")
    ]
    async with prometheus(nodes) as url:
        data = (await reported(url)).data
        named = await reported(url, "--node-labels=job,instance")
        wrong = await reported(url, "--node-labels=node")
    assert (data["coverage"]["nodes"], data["coverage"]["kubelets"]) == (2, None)
    assert any("instances stand for nodes" in note for note in data["notes"])
    assert named.data["fleet"]["judged"] == 2 * EACH
    assert (wrong.code, wrong.out) == (2, "")
    assert wrong.err.startswith("shadow-pleg: --node-labels: no target of shadow-pleg has a label")


async def test_the_end_of_the_window_can_be_chosen() -> None:
    """The first hour alone: the losses of the second are not in it."""
    node = Node("n", missed={("ContainerDied", "silent"): 9}, lost_at=90 * MINUTE)
    async with prometheus([node]) as url:
        first = await reported(url, "--window=1h", end=START + HOUR)
        second = await reported(url, "--window=1h", "--end=2026-11-14T03:04:59+01:00")
    assert first.data["fleet"]["missed_by_cause"]["silent"] == 0
    assert second.data["window"]["to"] == "2026-11-14T02:00:00Z"
    assert second.data["fleet"]["missed_by_cause"]["silent"] == 9
    assert first.data["fleet"]["judged"] == second.data["fleet"]["judged"] == EACH // 2


async def test_a_time_without_data_is_one_line_and_exit_1() -> None:
    """And says what was looked for, and when."""
    async with prometheus(numbered(1)) as url:
        outcome = await reported(url, end=START - 10 * HOUR)
        chosen = await reported(url, '--selector=cluster="pink"')
    assert (outcome.code, outcome.out, outcome.err.count("\n")) == (1, "", 1)
    assert "has no shadow_pleg_build_info from 2026-11-13T12:00:00Z to" in outcome.err
    assert 'no shadow_pleg_build_info that cluster="pink" selects' in chosen.err


async def test_a_mistake_in_a_selector_is_prometheus_own_words() -> None:
    """In one line."""
    async with prometheus(numbered(1)) as url:
        outcome = await reported(url, "--selector=cluster==3")
    assert (outcome.code, outcome.err.count("\n")) == (1, 1)
    assert "refuses a query (400): " in outcome.err
    assert "parse error" in outcome.err


async def test_a_thousand_nodes_cost_as_many_questions_as_three() -> None:
    """Fifteen at most, each answered in a few KB, in a minute at the very most."""
    nodes = [
        Node(
            f"n{i}",
            version=f"2.1.{i % 5}",
            missed={("ContainerDied", "silent"): 1} if i % 50 == 0 else {},
            lost_at=20 * MINUTE,
        )
        for i in range(1000)
    ]
    few = [Node("n0", missed={("ContainerDied", "silent"): 1}, lost_at=20 * MINUTE)]
    async with prometheus(few) as url, counted(url) as small:
        await reported(small.url, "--window=30m", end=START + HOUR // 2)
    async with prometheus(nodes, HOUR // 2, 2 * MINUTE) as url, counted(url) as large:
        began = time.monotonic()
        data = (await reported(large.url, "--window=30m", end=START + HOUR // 2)).data
        took = time.monotonic() - began
    assert len(large.bodies) == len(small.bodies) <= 15
    assert large.largest < 32_768
    assert max(len(body["query"]) for body in large.bodies) < 10_000
    assert took < 60
    fleet = data["fleet"]
    assert (fleet["nodes"], fleet["judged"], fleet["missed_by_cause"]["silent"]) == (
        1000,
        1000 * EACH // 4,
        20,
    )
    assert [each["judged"] for each in data["runtimes"]] == [200 * EACH // 4] * 5
    assert len(data["worst_nodes"]) == 10
    assert data["verdict"] == "GO"
