"""Months of fleets: each incident is one alert in time, and ordinary operations are none."""

import functools
from bisect import bisect_right
from collections.abc import Callable
from pathlib import Path
from typing import Final

import pytest

from alerts.entries import ALERTS, MANY
from exporter import RUNBOOKS
from tests.support.months import WITHIN, Timeline, months
from tests.support.promtool import Evaluated, Fired, delivered, evaluate

# Long enough for each alert to fire and to end, but for those that take an hour, of which the slow
# burn does not end; variants need less.
MINUTES: Final = 70
SLOW: Final = 60
MORE: Final = 110
LESS: Final = 80
MONTHS: Final = months()
INCIDENTS, CLOSE_CALLS = MONTHS.incidents, MONTHS.close_calls
SUMMARIES: Final = {alert.name: alert.summary for alert in ALERTS}
BEGINS: Final = MONTHS.quiet.begins
MIDDLE: Final = BEGINS[len(BEGINS) // 2]
# Each second minute: half of the time.
HALVES: Final = {"first": range(0, MIDDLE, 2), "second": range(MIDDLE, BEGINS[-1], 2)}

# Minutes after an incident began; scrapes fail for four.
ALTHOUGH: Final[dict[str, Timeline]] = {
    "restarted": {3: {"a.kubelet": "restart", "a.exporter": "restart"}},
    "unscraped": {1: {"a.targets": ["unscraped", 4]}},
}
# By variant; empty: as it is written, and only then close calls are looked at, too.
Happened = Callable[[str], Evaluated]


@pytest.fixture(scope="module")
def happened(promtool: Path, tmp_path_factory: pytest.TempPathFactory) -> Happened:
    """All incidents at once, each in a cluster of its own."""

    @functools.cache
    def evaluated(variant: str) -> Evaluated:
        folder = tmp_path_factory.mktemp("months")
        if not variant:
            slow = [name for name, each in INCIDENTS.items() if each.fires_by > SLOW]
            slow += [
                name
                for name, each in CLOSE_CALLS.items()
                if max(map(int, each.when)) + WITHIN[each.near] > SLOW
            ]
            named = {name: each.fleet(name) for name, each in (INCIDENTS | CLOSE_CALLS).items()}
            late = evaluate(promtool, folder, map(named.pop, slow), range(MORE), texts(MORE))
            found = evaluate(promtool, folder, named.values(), range(MINUTES), texts(MINUTES))
            return Evaluated([*late.fired, *found.fired], {**late.annotations, **found.annotations})
        fleets = []
        for name, each in INCIDENTS.items():
            if variant in each.although:
                fleets.append(each.fleet(name))
                fleets[-1].apply(ALTHOUGH[variant], since=each.began)
        return evaluate(promtool, folder, fleets, range(LESS))

    return evaluated


def texts(minutes: int) -> list[tuple[str, int]]:
    """Each alert whose text is known, at all of these minutes in which it may begin to fire."""
    return [
        (each.alert, minute)
        for each in INCIDENTS.values()
        if each.says
        for minute in range(each.began, min(each.fires_by + 1, minutes))
    ]


def heard(found: Evaluated, name: str) -> list[Fired]:
    return delivered(found.of(name if INCIDENTS[name].named else ""))


@pytest.mark.parametrize("name", INCIDENTS)
def test_an_incidents_alert_fires_in_time_and_once_and_nothing_else_is_delivered(
    happened: Happened, name: str
) -> None:
    """Within the time that alerts/README.md states; labels and annotations to the last word."""
    incident, found = INCIDENTS[name], happened("")
    fired = heard(found, name)
    expected = (incident.alert, incident.node, incident.severity)
    assert [(each.alert, each.node, each.severity) for each in fired] == [expected], fired
    assert fired[0].since <= incident.fires_by, fired
    if incident.says:
        first = fired[0]
        assert found.annotations[first.alert, first.cluster, first.problem, first.since] == {
            "summary": SUMMARIES[incident.alert],
            "description": incident.says.replace("luster blue", f"luster {name}"),
            "runbook_url": f"{RUNBOOKS}/{incident.alert}.md",
        }


@pytest.mark.parametrize(
    ("name", "variant"),
    [
        (name, variant)
        for name, each in INCIDENTS.items()
        for variant in ALTHOUGH
        if variant in each.although
    ],
)
def test_an_incidents_alert_fires_once_although_something_else_happens(
    happened: Happened, name: str, variant: str
) -> None:
    """Kubelet and exporter restart, or scrapes fail for a while, as it begins."""
    incident, fired = INCIDENTS[name], heard(happened(variant), name)
    assert [(each.alert, each.node) for each in fired] == [(incident.alert, incident.node)], fired


@pytest.mark.parametrize("name", CLOSE_CALLS)
def test_what_only_comes_close_fires_nothing(happened: Happened, name: str) -> None:
    assert not happened("").of(name)


@pytest.mark.quick
def test_every_alert_has_an_incident_and_what_comes_close_to_it() -> None:
    alerts = {alert.name for alert in ALERTS}
    assert {each.alert for each in INCIDENTS.values()} == alerts
    assert {each.near for each in CLOSE_CALLS.values()} == alerts - {MANY}


@pytest.mark.parametrize(
    "half",
    [
        pytest.param(half, marks=pytest.mark.xdist_group(f"tests/alerts/quiet/{half}"))
        for half in HALVES
    ],
)
def test_ordinary_operations_fire_nothing(promtool: Path, tmp_path: Path, half: str) -> None:
    found = evaluate(promtool, tmp_path, [MONTHS.quiet.fleet()], HALVES[half])
    fired = []
    for each in found.fired:
        day = bisect_right(BEGINS, each.since) - 1
        story, minute = MONTHS.quiet.days[day].story, each.since - BEGINS[day]
        fired.append(f"day {day + 1}, minute {minute}: {story}: {each}")
    assert not fired, "\n".join(fired)
