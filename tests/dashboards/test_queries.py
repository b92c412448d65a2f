"""Every expression against a real Prometheus that scraped the demo: with losses, and healthy."""

from __future__ import annotations

import math
import re
from typing import Any

import pytest

from dashboards import queries
from dashboards.limits import LIMITS
from tests.dashboards.conftest import CHOSEN, STEP, span
from tests.support import boards
from tests.support.boards import Asked
from tests.support.fleet_lives import HEALTHY, LOSSY
from tests.support.fleet_prometheus import Prometheus

pytestmark = [
    pytest.mark.asyncio(loop_scope="session"),
    # The first test waits for the fleets: 8 s of CPU.
    pytest.mark.timeout(240),
]

BOARDS = {path.stem: boards.load(path) for path in boards.FILES}
ASKED = [pytest.param(each, id=str(each)) for b in BOARDS.values() for each in boards.asked(b)]
MARKED = [pytest.param(each, id=str(each)) for b in BOARDS.values() for each in boards.marked(b)]


def one_node(prometheus: Prometheus, name: str) -> dict[str, str]:
    """As on the node's dashboard."""
    return span(prometheus) | {"node": name}


async def answer(prometheus: Prometheus, asked: Asked, node: str) -> list[dict[str, Any]]:
    """What Grafana would get; the node's dashboard is about one."""
    chosen = one_node(prometheus, node) if asked.board == LIMITS.node_uid else span(prometheus)
    expr = boards.filled(asked.expr, chosen)
    assert not re.search(r"\$[a-z_{]", expr)
    if asked.instant:
        return await prometheus.instant(expr)
    return await prometheus.ranged(expr, STEP)


@pytest.mark.parametrize("asked", ASKED)
async def test_every_panel_has_data_when_events_are_lost(lossy: Prometheus, asked: Asked) -> None:
    """No errors, no warnings, and something to show."""
    assert await answer(lossy, asked, "node-1")


@pytest.mark.parametrize("asked", ASKED)
async def test_every_panel_has_data_when_all_is_well(healthy: Prometheus, asked: Asked) -> None:
    """Zeros are data: an empty panel would leave open whether anything was looked at."""
    assert await answer(healthy, asked, "node-1")


@pytest.mark.parametrize("asked", MARKED)
async def test_every_annotation_marks_what_happened(lossy: Prometheus, asked: Asked) -> None:
    """Alerts on the node that loses, ends of the stream on the node whose stream ends."""
    node = "node-1" if asked.place == "Alert" else "node-2"
    assert await answer(lossy, asked, node)


@pytest.mark.parametrize("asked", MARKED)
async def test_nothing_is_marked_when_nothing_happens(healthy: Prometheus, asked: Asked) -> None:
    """Neither an alert nor the end of a stream."""
    assert not await answer(healthy, asked, "node-1")


@pytest.mark.parametrize("board", BOARDS)
async def test_the_variables_offer_what_is_there(lossy: Prometheus, board: str) -> None:
    """Each cluster, job and node."""
    offered = {
        name: await lossy.values(label, boards.filled(series, CHOSEN))
        for name, series, label in boards.variables(BOARDS[board])
    }
    nodes = [node.name for node in LOSSY]
    assert offered == {"cluster": ["demo"], "job": ["shadow-pleg"], "node": nodes}


async def test_a_choice_of_nodes_is_all_that_is_counted(lossy: Prometheus) -> None:
    """The matchers hold back every other node."""
    per_node = await by_node(lossy, queries.silent(queries.NODE))
    alone = await lossy.number(boards.filled(queries.silent(), one_node(lossy, "node-1")))
    assert alone == pytest.approx(per_node["node-1"])
    nowhere = span(lossy) | {"cluster": "another"}
    assert not await lossy.instant(boards.filled(queries.silent(), nowhere))


async def by_node(prometheus: Prometheus, expr: str) -> dict[str, float]:
    """A number for each node."""
    found = await prometheus.instant(boards.filled(expr, span(prometheus)))
    return {each["metric"]["node"]: float(each["value"][1]) for each in found}


async def headline(prometheus: Prometheus, title: str) -> float:
    """The number of a panel of the fleet."""
    (asked,) = (e for e in boards.asked(BOARDS["shadow-pleg-fleet"]) if e.place == f"{title} A")
    return await prometheus.number(boards.filled(asked.expr, span(prometheus)))


async def test_the_headlines_of_a_fleet_that_loses(lossy: Prometheus) -> None:
    """Losses are shown where they are, and nowhere else."""
    lost, judged = (
        await headline(lossy, "Silent misses"),
        await headline(lossy, "Transitions judged"),
    )
    assert lost > 40
    assert await headline(lossy, "Missed ratio") == pytest.approx(lost / judged)
    assert await headline(lossy, "Ratio is at most (95 %)") > lost / judged
    # node-4 may not be subscribed to, node-5 has no events; node-2 comes and goes.
    assert await headline(lossy, "Nodes listening") in {2 / 5, 3 / 5}
    assert await headline(lossy, "Stale relists") == 0
    per_node = await by_node(lossy, queries.silent(queries.NODE))
    assert per_node["node-1"] == pytest.approx(lost, rel=0.01)
    assert per_node["node-3"] == per_node["node-4"] == per_node["node-5"] == 0


async def test_what_nobody_could_hear_is_not_judged(lossy: Prometheus) -> None:
    """A node that is not subscribed proves nothing, however much its relist sees."""
    relisted = await by_node(
        lossy, queries.increase(queries.own(queries.LIFECYCLE), queries.RANGE, queries.NODE)
    )
    judged = await by_node(lossy, queries.judged(queries.NODE))
    assert relisted["node-4"] > 100
    assert relisted["node-5"] > 100
    assert judged.get("node-4", 0) == judged.get("node-5", 0) == 0
    assert judged["node-3"] > 100


async def test_the_headlines_of_a_healthy_fleet(healthy: Prometheus) -> None:
    """No miss, and the bound that follows from the number of transitions."""
    judged = await headline(healthy, "Transitions judged")
    assert await headline(healthy, "Silent misses") == 0
    assert await headline(healthy, "Missed ratio") == 0
    assert await headline(healthy, "Ratio is at most (95 %)") == pytest.approx(
        3 / judged, rel=0.005
    )
    assert await headline(healthy, "Nodes listening") == 1
    assert await headline(healthy, "Stale relists") == 0


async def verdicts(prometheus: Prometheus, group: str) -> dict[str, float]:
    """The verdict for each group of nodes."""
    (asked,) = (
        each
        for each in boards.asked(BOARDS["shadow-pleg-fleet"])
        if each.place == "Go or no-go, by group A"
    )
    found = await prometheus.instant(boards.filled(asked.expr, span(prometheus) | {"group": group}))
    return {each["metric"].get("group", ""): float(each["value"][1]) for each in found}


async def test_the_verdict_on_canaries_that_lose(lossy: Prometheus) -> None:
    """2 is no-go: the ratio itself is beyond the objective; 1 is not known yet."""
    found = await verdicts(lossy, "canary")
    assert found["true"] == 2
    assert found["false"] in {0, 1}
    assert await verdicts(lossy, "no_such_label") == {"": 2}


async def test_the_verdict_on_a_healthy_fleet(healthy: Prometheus) -> None:
    """0 is go, for the fleet as a whole; a group alone has not seen enough for that."""
    assert await verdicts(healthy, "no_such_label") == {"": 0}
    assert set(await verdicts(healthy, "canary")) == {"true", "false"}
    assert set((await verdicts(healthy, "canary")).values()) <= {0, 1}


async def test_states_are_told_apart(lossy: Prometheus) -> None:
    """Each node's state has its number."""
    states = await by_node(lossy, queries.state_code())
    assert set(states) == {node.name for node in LOSSY}
    assert states["node-1"] == queries.STATES["streaming"]
    assert states["node-4"] == queries.STATES["refused"]
    assert states["node-5"] == queries.STATES["disabled"]


async def test_the_worst_are_chosen_once_for_the_whole_picture(lossy: Prometheus) -> None:
    """Not anew at each step: as many series as asked for, whatever happens in between."""
    at_end = (
        f"sum by (cluster, node) (increase({queries.own(queries.LIFECYCLE)}[$__range] @ end()))"
    )
    expr = queries.worst(
        queries.increase(queries.own(queries.LIFECYCLE), by=queries.NODE), at_end, 2
    )
    assert len(await lossy.ranged(boards.filled(expr, span(lossy)), STEP)) == 2
    assert len(HEALTHY) > 2


def poisson_bound(misses: int) -> float:
    """The mean at which so few misses, or fewer, come with 5 % probability: by bisection."""

    def few(mean: float) -> float:
        terms = (-mean + k * math.log(mean) - math.lgamma(k + 1) for k in range(misses + 1))
        return sum(math.exp(term) for term in terms)

    low, high = 1e-9, 10.0 * (misses + 1)
    for _ in range(200):
        middle = (low + high) / 2
        low, high = (middle, high) if few(middle) > 0.05 else (low, middle)
    return low


@pytest.mark.parametrize("misses", [0, 1, 2, 3, 5, 10, 30, 100, 1000])
async def test_the_bound_is_poissons(healthy: Prometheus, misses: int) -> None:
    """Within 0.5 % of the exact one, as Prometheus computes it from the panel's expression."""
    expr = queries.bound().replace(queries.silent(), f"vector({misses})")
    expr = expr.replace(queries.judged(), "1e6")
    assert not boards.metrics(expr)
    assert await healthy.number(expr) * 1e6 == pytest.approx(poisson_bound(misses), rel=0.005)


async def test_nothing_can_be_claimed_of_nothing(healthy: Prometheus) -> None:
    """Without a transition the bound is 100 %."""
    expr = queries.bound().replace(queries.silent(), "vector(0)")
    assert await healthy.number(expr.replace(queries.judged(), "vector(0)")) == 1


async def test_a_fleet_without_kubelet_metrics_still_has_its_numbers(healthy: Prometheus) -> None:
    """No panel of the fleet needs what somebody else exports."""
    named = {
        n for each in boards.asked(BOARDS[LIMITS.fleet_uid]) for n in boards.metrics(each.expr)
    }
    assert all(name.startswith(("shadow_pleg_", "kube_pod_")) for name in named)
    assert await headline(healthy, "Transitions judged") > 0
