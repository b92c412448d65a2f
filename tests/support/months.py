"""The months that fleets live through, as data: tests/alerts/README.md explains the format."""

import itertools
from pathlib import Path
from typing import Final, TypeVar

import msgspec

from alerts.render import ALERTS, fires_within
from tests.support.alert_fleet import Fleet, Timeline, fleet, spots
from tests.support.node_operations import Node
from tests.support.promtool import VALUES

MONTHS: Final = Path(__file__).parents[1] / "alerts"
WITHIN: Final = {alert.name: fires_within(alert, VALUES) for alert in ALERTS}
# Every so many seconds, and the first time after so many: not at 0, which means never.
SCRAPES: Final = ((15, 15), (30, 15), (60, 45), (30, 30), (60, 30), (60, 15))
Read = TypeVar("Read")


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
    kind: str = "containerd"
    others: int = 0
    spots: int = 0
    evented: bool = False
    named: bool = True

    def fleet(self, name: str) -> Fleet:
        """The fleet to which it happens, in a cluster of that name."""
        cluster = name if self.named else ""
        it = fleet(self.kind, self.others, evented=self.evented, cluster=cluster)
        it.nodes |= {node.name: node for node in spots(self.spots, cluster)}
        it.apply(self.when)
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


def read(name: str, kind: type[Read]) -> Read:
    """A file of tests/alerts."""
    return msgspec.yaml.decode((MONTHS / f"{name}.yaml").read_bytes(), type=kind)
