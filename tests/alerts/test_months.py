"""Months of fleets: each incident is one alert in time, and ordinary operations are none."""

import functools
import itertools
from bisect import bisect_right
from collections.abc import Callable
from pathlib import Path
from typing import Final

import msgspec
import pytest

from alerts.entries import ALERTS, MANY
from alerts.render import fires_within
from exporter import RUNBOOKS
from tests.support.alert_fleets import LATE, LIFECYCLE, MISSED, Fleet, Node, Timeline, fleet, spots
from tests.support.promtool import VALUES, Evaluated, Fired, delivered, evaluate

WITHIN: Final = {alert.name: fires_within(alert, VALUES) for alert in ALERTS}
# Every so many seconds, and the first time after so many: not at 0, which means never.
SCRAPES: Final = ((15, 15), (30, 15), (60, 45), (30, 30), (60, 30), (60, 15))


class Day(msgspec.Struct, frozen=True, forbid_unknown_fields=True):
    """What is done on a day; nothing changes in the hours that are left out."""

    story: str
    when: Timeline
    minutes: int = 30


class QuietMonth(msgspec.Struct, frozen=True, forbid_unknown_fields=True):
    """Clusters with their nodes by kind, and the days."""

    fleets: dict[str, dict[str, str]]
    days: list[Day]

    @property
    def begins(self) -> list[int]:
        """The minute at which each day begins, and that at which the last one ends."""
        return list(itertools.accumulate((day.minutes for day in self.days), initial=0))

    def fleet(self) -> Fleet:
        """All clusters, after all of it. Nodes differ in how often they are scraped, and when."""
        named = [
            (name, kind, cluster)
            for cluster, kinds in self.fleets.items()
            for kind, names in kinds.items()
            for name in names.split()
        ]
        scrapes = itertools.cycle(SCRAPES)
        it = Fleet(*(Node(*each, next(scrapes)) for each in named), grid=15)
        for day, since in zip(self.days, self.begins, strict=False):
            it.apply(day.when, since)
        return it


class Case(msgspec.Struct, frozen=True, forbid_unknown_fields=True, kw_only=True):
    """What happens to node `a` of a small fleet."""

    when: Timeline
    others: int = 0
    spots: int = 0
    evented: bool = False
    named: bool = True

    def fleet(self, name: str) -> Fleet:
        cluster = name if self.named else ""
        it = fleet(self.others, evented=self.evented, cluster=cluster)
        it.nodes |= {node.name: node for node in spots(self.spots, cluster)}
        it.apply(self.when)
        if not self.evented and "gate_on" not in str(self.when):
            # Only the budget of kubelets that rely on events reads these.
            for node in it.nodes.values():
                node.exporter.without(LIFECYCLE, MISSED, LATE)
        return it


class CloseCall(Case, frozen=True, kw_only=True):
    """What no alert may fire for, and the alert to which it comes close."""

    near: str


class Incident(Case, frozen=True, kw_only=True):
    """What goes wrong, and the alert that fires for it."""

    alert: str
    severity: str = "warning"
    says: str = ""
    node: str = "a"
    problem: str = ""
    since: int = 0
    although: frozenset[str] = frozenset({"restarted", "unscraped"})

    @property
    def began(self) -> int:
        """The minute in which it goes wrong; what is there from minute 0 is how the fleet is."""
        return self.since or min((int(minute) for minute in self.when if minute), default=0)

    @property
    def fires_by(self) -> int:
        """The minute by which the alert fires; that for many nodes, after those of each node."""
        problem = WITHIN[self.problem] if self.problem else 0
        return self.began + WITHIN[self.alert] + problem


class Months(msgspec.Struct, frozen=True, forbid_unknown_fields=True):
    """The whole file."""

    incidents: dict[str, Incident]
    close_calls: dict[str, CloseCall]
    quiet: QuietMonth


# Long enough for each alert to fire and to end, but for those that take an hour, of which the slow
# burn does not end; variants need less.
MINUTES: Final = 70
SLOW: Final = 60
MORE: Final = 110
LESS: Final = 80
MONTHS: Final = msgspec.yaml.decode(
    Path(__file__).with_name("months.yaml").read_bytes(), type=Months
)
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


# Not beside the rest, and one after the other: what each node saw is worked out once.
@pytest.mark.xdist_group("tests/alerts/quiet")
@pytest.mark.parametrize("half", HALVES)
def test_ordinary_operations_fire_nothing(promtool: Path, tmp_path: Path, half: str) -> None:
    found = evaluate(promtool, tmp_path, [MONTHS.quiet.fleet()], HALVES[half])
    fired = []
    for each in found.fired:
        day = bisect_right(BEGINS, each.since) - 1
        story, minute = MONTHS.quiet.days[day].story, each.since - BEGINS[day]
        fired.append(f"day {day + 1}, minute {minute}: {story}: {each}")
    assert not fired, "\n".join(fired)
