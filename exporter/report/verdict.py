"""Go, no-go or not enough evidence, with the reasons in words.

One rule for a runtime version, one for the fleet; both pure.

A version is a GO when the 95 % upper bound of its silent loss is within the objective, a NO-GO when
it lost more than the objective allows. The fleet is a NO-GO when it or any version is, and a GO
when all are and the nodes were watched for enough of the time: losses may hide in unwatched time.
"""

import math
from dataclasses import dataclass
from enum import Enum
from typing import Final

from exporter.pleg.findings import Cause
from exporter.pleg.profiles import StreamKind
from exporter.report import bound
from exporter.report.fleet import Coverage, Fleet, Group

# Minimum share of the nodes, and of the time, for the sample to represent the fleet.
ENOUGH: Final = 0.9


class Decision(Enum):
    """The recommendation."""

    GO = "GO"
    NO_GO = "NO-GO"
    NOT_ENOUGH = "NOT ENOUGH EVIDENCE"


@dataclass(frozen=True, slots=True)
class Judgement:
    """A verdict, its reasons, and additional notes."""

    verdict: Decision
    reasons: tuple[str, ...]
    notes: tuple[str, ...] = ()


def judge_group(group: Group, objective: float) -> Judgement:
    """Judge one runtime version, or the sum of all, against the share that must be announced."""
    allowed = round(1 - objective, 12)
    if group.stream == StreamKind.NONE.value and group.nodes and not group.silent:
        if not group.version:
            why = "which runtime they have is not known: see `shadow-pleg check` there"
            return Judgement(Decision.NOT_ENOUGH, (why,))
        return Judgement(Decision.NO_GO, ("this runtime has no event stream",))
    if not group.trials or group.ratio is None:
        return Judgement(Decision.NOT_ENOUGH, (_unheard(group),))
    lost = f"{group.silent:,} of {group.trials:,} transitions were lost silently"
    if group.ratio > allowed:
        chance = ""
        if group.lower <= allowed:
            chance = f"; so few may be chance (95 % lower bound {percent(group.lower)})"
        share = _told_apart(group.ratio, allowed)
        why = f"{lost}: {share}, more than the {percent(allowed)} allowed{chance}"
        return Judgement(Decision.NO_GO, (why,))
    at_most = f"{lost}: at most {percent(group.upper)} with 95 % confidence"
    if group.upper > allowed:
        more = bound.needed(group.silent, allowed) - group.trials
        shown = f"{more:,} more without a loss would show it"
        why = f"{at_most}, and {percent(allowed)} is allowed: {shown}"
        return Judgement(Decision.NOT_ENOUGH, (why,))
    return Judgement(Decision.GO, (f"{at_most}, within the {percent(allowed)} allowed",))


def _unheard(group: Group) -> str:
    if group.stream in (StreamKind.EXCLUSIVE.value, StreamKind.FRAGILE.value):
        return f"its stream is {group.stream}: it is not subscribed to beside a kubelet"
    if group.witnessed:
        return "nothing was judged: the stream was not subscribed to while things happened"
    return "no transition was seen"


def judge(fleet: Fleet, objective: float) -> Judgement:
    """Judge the whole fleet."""
    whole = judge_group(fleet.all, objective)
    groups = [(group, judge_group(group, objective)) for group in fleet.groups]
    notes = (*_notes(fleet), *fleet.notes)
    bad = [_said(group, each) for group, each in groups if each.verdict is Decision.NO_GO]
    if bad or whole.verdict is Decision.NO_GO:
        # Nodes that changed or hide their version are no evidence about any version.
        good = [g.label for g, each in groups if each.verdict is Decision.GO and g.version]
        alone = [f"by itself a go: {', '.join(good)}"] if good else []
        return Judgement(Decision.NO_GO, (*(bad or whole.reasons), *alone), notes)
    doubts = _thin(fleet.coverage)
    if whole.verdict is Decision.NOT_ENOUGH:
        doubts += whole.reasons
    doubts += [_said(group, each) for group, each in groups if each.verdict is Decision.NOT_ENOUGH]
    if doubts:
        return Judgement(Decision.NOT_ENOUGH, tuple(doubts), notes)
    each_one = [_said(group, each) for group, each in groups] if len(groups) > 1 else []
    return Judgement(Decision.GO, (*whole.reasons, *each_one), notes)


def _said(group: Group, judgement: Judgement) -> str:
    nodes = "1 node" if group.nodes == 1 else f"{group.nodes:,} nodes"
    return f"{group.label} ({nodes}): {'; '.join(judgement.reasons)}"


def _thin(coverage: Coverage) -> list[str]:
    """Why the sample does not represent the fleet."""
    thin = []
    if coverage.watched is not None and coverage.watched < ENOUGH:
        seen = (coverage.kubelets or 0) - (coverage.unwatched or 0)
        thin.append(
            f"{seen:,} of {coverage.kubelets:,} nodes with a kubelet are watched"
            f" ({percent(coverage.watched)}): {percent(ENOUGH)} are needed to speak for all"
        )
    if coverage.listening < ENOUGH:
        thin.append(
            f"the event stream was listened to for {percent(coverage.listening)} of the nodes'"
            f" time: {percent(ENOUGH)} is needed"
        )
    return thin


def _notes(fleet: Fleet) -> list[str]:
    """Facts that do not affect the decision, but must not be overlooked."""
    coverage, span, notes = fleet.coverage, fleet.span, []
    if down := fleet.all.of(Cause.STREAM_DOWN):
        notes.append(
            f"{down:,} were missed while the stream was down: a kubelet's own subscription would"
            " have lost such ones too"
        )
    if discarded := fleet.all.of(Cause.DISCARDED):
        notes.append(
            f"{discarded:,} were missed because this exporter's own queue was full: see"
            " --event-queue-capacity"
        )
    if gaps := fleet.all.gaps.total():
        notes.append(
            f"{gaps:,} gaps: events that were never announced though a later one was. No relist"
            " proved them, so they are in no ratio"
        )
    if coverage.kubelets is None:
        notes.append(
            "no kubelet's metrics are known for these nodes: whether every node is watched cannot"
            " be told"
        )
    missing = (coverage.first - span.start - span.step) / span.seconds
    if missing > 1 - ENOUGH:
        notes.append(
            f"the first sight of any node is {percent(missing)} of the window after its begin:"
            " before that, nothing is known"
        )
    return notes


def _told_apart(share: float, other: float) -> str:
    """Three digits, or more if the two would look the same."""
    short = percent(share)
    return percent(share, 6) if short == percent(other) else short


def percent(share: float, digits: int = 3) -> str:
    """A share as percent, with meaningful digits; never rounded up to 100 %."""
    if share in (0, 1):
        return f"{share * 100:.0f} %"
    if share >= 0.9995:  # noqa: PLR2004 - three digits would read 100
        return f"{math.floor(share * 1e6 + 1e-6) / 1e4:.4f}".rstrip("0").rstrip(".") + " %"
    return f"{float(f'{share * 100:.{digits}g}'):.12f}".rstrip("0").rstrip(".") + " %"
