"""From numbers to a verdict, its reasons and its notes; verdicts.yaml has the rules, one by one."""

import math
from collections import Counter
from dataclasses import replace
from pathlib import Path

import msgspec
import pytest

from exporter.conditions.condition import Weighs
from exporter.model.events import Lifecycle
from fleet.fleet import Coverage, Fleet, Group, summed
from fleet.report import next_steps, notes
from fleet.request import Request, Span
from fleet.verdict import Decision, judge
from fleet.words import percent
from promql.series import REPORTED

pytestmark = pytest.mark.quick
EXIT, START = Lifecycle.DIED.label, Lifecycle.STARTED.label
# Kubelets by what they do with events.
KUBELETS = {
    "trusts": {"v1.36.1": 10},
    "hint": {"v1.37.0": 9},
    "both": {"v1.36.1": 1, "v1.37.0": 9},
    "unknown": {},
    "strange": {"v2.0.0": 9},
    "partly strange": {"v1.37.0": 9, "v2.0.0": 1},
}
ENOUGH = Request(prometheus_url="http://p", min_time=0, min_nodes=1, min_transitions=1)
FULL = Coverage(10, 10, 24, 1.0, 300.0, 10, 0)


class Nodes(msgspec.Struct, frozen=True, forbid_unknown_fields=True):
    """`number` nodes of one version: exits and other events judged, and those missed by cause.

    `seen`: exits that were witnessed, if others than were judged. `late`: those of the lost exits
    that came. `median`: seconds from half of the exits to their announcement. `kubelets`: a name of
    KUBELETS.
    """

    exits: int
    lost: dict[str, int] = {}
    others: int = 0
    others_lost: dict[str, int] = {}
    seen: int | None = None
    late: dict[str, int] = {}
    median: float = 0.0
    polled: float = 1.0
    version: str = "2.1.9"
    stream: str = "broadcast"
    kubelets: str = "trusts"
    number: int = 10
    listened: float = 1e6
    counts: dict[str, int] = {}
    held: dict[str, int] = {}
    gated: dict[str, int] = {}

    @property
    def group(self) -> Group:
        """As the report has it."""
        judged = Counter({EXIT: self.exits, START: self.others})
        missed = Counter({(cause, EXIT): number for cause, number in self.lost.items()})
        missed += Counter({(cause, START): number for cause, number in self.others_lost.items()})
        announced = {self.median - 0.1: 0, self.median + 0.1: 10, math.inf: 10}
        return Group(
            *("containerd", self.version, self.stream, self.number),
            witnessed=judged if self.seen is None else Counter({EXIT: self.seen}),
            judged=judged,
            missed=missed,
            late=Counter({(cause, EXIT): number for cause, number in self.late.items()}),
            counts=Counter({"kernel_nodes": self.number} | self.counts),
            announced=Counter(announced if self.median else {}),
            polled=self.polled,
            held=Counter(self.held),
            gated=Counter(self.gated),
            kubelets=Counter(KUBELETS[self.kubelets]),
            listened=self.listened,
        )


class Case(msgspec.Struct, frozen=True, forbid_unknown_fields=True):
    """A fleet, what a verdict about it needs, and the verdict."""

    nodes: list[Nodes]
    verdict: Decision
    headline: str = ""
    says: list[str] = []
    steps: list[str] = []
    never_says: list[str] = []
    never_steps: list[str] = []
    beside: dict[str, Decision] = {}
    issues: list[str] | None = None
    needs: dict[str, int] = {}
    coverage: dict[str, int | float] = {}

    def fleet(self, kubelets: str = "") -> Fleet:
        """Those nodes, all with other kubelets if they are named."""
        groups = [each.group for each in self.nodes]
        if kubelets:
            groups = [replace(it, kubelets=Counter(KUBELETS[kubelets])) for it in groups]
        coverage = replace(FULL, **self.coverage)  # type: ignore[arg-type] # its fields
        return Fleet(
            *("http://p", Span(300, 24, 7200), tuple(groups), (), coverage),
            kubelets=summed(groups).kubelets,
        )


CASES = msgspec.yaml.decode(
    Path(__file__).with_name("verdicts.yaml").read_bytes(), type=dict[str, Case]
)


@pytest.mark.parametrize("name", CASES)
def test_a_verdict_and_its_reasons(name: str) -> None:
    """For the kubelets that a fleet has, and for others."""
    case = CASES[name]
    fleet, request = case.fleet(), replace(ENOUGH, **case.needs)  # type: ignore[arg-type] # its fields
    judgement = judge(fleet, request)
    assert judgement.verdict is case.verdict
    assert case.headline in ("", judgement.headline)
    noted = (f"note: {each}" for each in notes(fleet))
    said = "; ".join((*(each.said for each in judgement.reasons), *noted))
    assert [each for each in case.says if each not in said] == []
    assert [each for each in case.never_says if each in said] == []
    steps = "; ".join(next_steps(fleet, judgement))
    assert [each for each in case.steps if each not in steps] == []
    assert [each for each in case.never_steps if each in steps] == []
    if case.issues is not None:
        assert [row.id for row in fleet.issues] == case.issues
    found = {each: judge(case.fleet(each), request).verdict for each in case.beside}
    assert found == case.beside
    # What a verdict lacks, each version lacks.
    if len(case.nodes) == 1 and case.needs:
        assert [each.verdict for each in judgement.versions] == [case.verdict]


def test_a_late_announcement_takes_back_a_miss_of_its_own_cause() -> None:
    """Of the same event, and no other; more late ones than misses in a window are none."""
    missed = Counter({("silent", EXIT): 5, ("stream_down", EXIT): 2, ("stalled", START): 4})
    late = Counter({("stream_down", EXIT): 2, ("silent", START): 9, ("stalled", START): 1})
    it = replace(Nodes(1000).group, missed=missed, late=late)
    assert (it.exits.lost_silently, it.exits.undelivered) == (5, 0)
    assert (it.others.lost_silently, it.others.undelivered) == (0, 3)
    assert (it.every.lost, it.final_loss) == (8, 8)


def test_a_condition_that_a_report_reads_has_what_it_says() -> None:
    """A runbook, and a reason where it decides."""
    for row in REPORTED.values():
        assert (bool(row.alert), bool(row.stops)) == (True, row.weighs is not Weighs.SAID), row.name


@pytest.mark.parametrize(
    ("share", "said"),
    [
        *((0, "0 %"), (1, "100 %"), (0.999, "99.9 %"), (0.9999, "99.99 %")),
        *((0.9999999, "99.9999 %"), (0.0000083, "0.00083 %"), (0.12345, "12.3 %")),
    ],
)
def test_shares_are_written_with_digits_that_mean_something(share: float, said: str) -> None:
    """Neither rounded to certainty, nor in powers of ten."""
    assert percent(share) == said
