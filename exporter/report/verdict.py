"""Go, no-go or not enough evidence, with the reasons in words.

One rule for a runtime version, one for the fleet; both pure.

A version is a GO when the 95 % upper bound of its silent loss is within the objective, a NO-GO when
it lost more than the objective allows, has no stream, or one that flaps. The fleet is a NO-GO when
it or any version is, and a GO when all are and the nodes were watched for enough of the time:
losses may hide in unwatched time. What is estimated needs the standard's least time, nodes and
transitions; what is certain (no stream, a stream that flaps) does not.
"""

import math
from dataclasses import dataclass, replace
from enum import Enum
from typing import Final

from exporter.kubelet.state import Configuration
from exporter.pleg.findings import Cause
from exporter.pleg.kubelets import GENERATIONS, generation_of
from exporter.pleg.profiles import StreamKind
from exporter.report import bound
from exporter.report.fleet import Coverage, Fleet, Group
from exporter.report.options import Standard
from exporter.report.queries import FLAPS

# Minimum share of the nodes, and of the time, for the sample to represent the fleet.
ENOUGH: Final = 0.9
# A version flaps if more than this share of its nodes does; fewer are sick nodes.
_FLAPPING: Final = 0.01


class Decision(Enum):
    """The recommendation."""

    GO = "GO"
    NO_GO = "NO-GO"
    NOT_ENOUGH = "NOT ENOUGH EVIDENCE"


@dataclass(frozen=True, slots=True)
class Judgement:
    """A verdict, its reasons, and additional notes.

    `certain`: it does not rest on an estimate, so it holds however little was seen.
    """

    verdict: Decision
    reasons: tuple[str, ...]
    notes: tuple[str, ...] = ()
    certain: bool = False


def judge_group(group: Group, standard: Standard) -> Judgement:
    """Judge one runtime version, or the sum of all, by its own numbers."""
    if group.stream == StreamKind.NONE.value and group.nodes and not group.silent:
        if not group.version:
            why = "which runtime they have is not known: see `shadow-pleg check` there"
            return Judgement(Decision.NOT_ENOUGH, (why,))
        return Judgement(Decision.NO_GO, ("this runtime has no event stream",), certain=True)
    estimate = _estimate(group, standard)
    if group.flapping <= _FLAPPING * group.nodes:
        return estimate
    lost = estimate.reasons if estimate.verdict is Decision.NO_GO else ()
    why = (
        f"the event stream ended {FLAPS} times or more on {in_nodes(group.flapping)}: after {FLAPS}"
        " stream errors a kubelet (1.26 to 1.37) gives events up until it is restarted"
    )
    return Judgement(Decision.NO_GO, (why, *lost), certain=True)


def _estimate(group: Group, standard: Standard) -> Judgement:
    allowed = standard.allowed
    if not group.trials or group.ratio is None:
        return Judgement(Decision.NOT_ENOUGH, (_unheard(group),))
    lost = f"{group.silent:,} of {group.trials:,} transitions were lost silently"
    if group.undecided:
        lost += f", and {group.undecided:,} more may have been"
    if group.trials < standard.transitions:
        why = f"{lost}: a verdict needs {standard.transitions:,} transitions (--min-transitions)"
        return Judgement(Decision.NOT_ENOUGH, (why,))
    if group.ratio > allowed:
        chance = ""
        if group.lower <= allowed:
            chance = f"; so few may be chance (95 % lower bound {percent(group.lower)})"
        share = _told_apart(group.ratio, allowed)
        why = f"{lost}: {share}, more than the {percent(allowed)} allowed{chance}"
        return Judgement(Decision.NO_GO, (why,))
    at_most = f"{lost}: at most {percent(group.upper)} with 95 % confidence"
    if group.upper > allowed:
        more = bound.needed(group.doubtful, allowed) - group.trials
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


def judge_groups(fleet: Fleet, standard: Standard) -> list[tuple[Group, Judgement]]:
    """Judge each runtime version; estimates are none while the standard lacks time or nodes."""
    lacking = _lacking(fleet, standard)
    return [(group, _unless(lacking, judge_group(group, standard))) for group in fleet.groups]


def _unless(lacking: list[str], judgement: Judgement) -> Judgement:
    if not lacking or judgement.certain or judgement.verdict is Decision.NOT_ENOUGH:
        return judgement
    so_far = tuple(f"so far {reason}" for reason in judgement.reasons)
    return replace(judgement, verdict=Decision.NOT_ENOUGH, reasons=so_far)


def judge(fleet: Fleet, standard: Standard) -> Judgement:
    """Judge the whole fleet."""
    lacking = _lacking(fleet, standard)
    whole = _unless(lacking, judge_group(fleet.all, standard))
    groups = judge_groups(fleet, standard)
    notes = (*_notes(fleet), *_beside(fleet), *fleet.notes)
    bad = [_said(group, each) for group, each in groups if each.verdict is Decision.NO_GO]
    if bad or whole.verdict is Decision.NO_GO:
        # Nodes that changed or hide their version are no evidence about any version.
        good = [g.label for g, each in groups if each.verdict is Decision.GO and g.version]
        alone = [f"by itself a go: {', '.join(good)}"] if good else []
        return Judgement(Decision.NO_GO, (*(bad or whole.reasons), *alone), notes)
    doubts = [*lacking, *_thin(fleet.coverage)]
    if whole.verdict is Decision.NOT_ENOUGH:
        doubts += whole.reasons
    if len(groups) > 1 or not lacking:
        doubts += [
            _said(group, each) for group, each in groups if each.verdict is Decision.NOT_ENOUGH
        ]
    if doubts:
        return Judgement(Decision.NOT_ENOUGH, tuple(doubts), notes)
    each_one = [_said(group, each) for group, each in groups] if len(groups) > 1 else []
    return Judgement(Decision.GO, (*whole.reasons, *each_one), notes)


def _said(group: Group, judgement: Judgement) -> str:
    return f"{group.label} ({in_nodes(group.nodes)}): {'; '.join(judgement.reasons)}"


def in_nodes(number: int) -> str:
    """A number of nodes in words."""
    return "1 node" if number == 1 else f"{number:,} nodes"


def _lacking(fleet: Fleet, standard: Standard) -> list[str]:
    """What the standard lacks of time and nodes."""
    lacking, coverage = [], fleet.coverage
    if coverage.nodes < standard.nodes:
        lacking.append(
            f"{in_nodes(coverage.nodes)} watched: a verdict needs {standard.nodes:,} (--min-nodes)"
        )
    if (together := coverage.together * fleet.span.step) < standard.seconds:
        lacking.append(
            f"listened to {in_nodes(standard.nodes)} or more at once for {duration(together)}:"
            f" a verdict needs {duration(standard.seconds)} (--min-time)"
        )
    return lacking


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
    if undecided := fleet.all.undecided:
        notes.append(
            f"{undecided:,} exits are undecided: it is not known whether the container ever ran."
            " They count against the runtime in the upper bound only"
        )
    if (flapping := fleet.all.flapping) and flapping <= _FLAPPING * fleet.all.nodes:
        notes.append(
            f"the event stream ended {FLAPS} times or more on {in_nodes(flapping)}: see below which"
        )
    if stalls := fleet.all.incidents["stalls"]:
        known = filter(None, map(generation_of, fleet.kubelets.versions))
        pause = max(each.relist_seconds for each in tuple(known) or GENERATIONS)
        notes.append(
            f"stalls: {stalls:,} times the stream stood still while it was up. That is no error to"
            f" a kubelet: it waits for its next relist, up to {pause:g} s"
        )
    if gaps := fleet.all.gaps.total():
        notes.append(
            f"{gaps:,} gaps: events that were never announced though a later one was, without an"
            " outage. No relist proved them, so they are in no ratio"
        )
    if coverage.kubelets is None:
        notes.append(
            "Prometheus has no kubelet metrics of these nodes, so it is not known whether every"
            " node is watched"
        )
    missing = (coverage.first - span.start - span.step) / span.seconds
    if missing > 1 - ENOUGH:
        notes.append(
            f"the first node was seen after {percent(missing)} of the window: nothing is known of"
            " the time before"
        )
    return notes


def _beside(fleet: Fleet) -> list[str]:
    """The same of the runtime's lists, and of the kubelets."""
    notes = []
    ghosts, strays, kernel = (fleet.all.incidents[w] for w in ("ghosts", "strays", "kernel"))
    if ghosts or strays:
        notes.append(
            f"ghosts: {ghosts:,} (listed as running, without a process), strays:"
            f" {strays:,} (running, and not listed). The runtime's lists are wrong there,"
            " with Evented PLEG or without, so this does not decide"
        )
    if 0 < kernel < fleet.all.nodes:
        notes.append(
            f"the kernel was a witness on {kernel:,} of {in_nodes(fleet.all.nodes)}:"
            " elsewhere ghosts and strays are not counted"
        )
    if half := fleet.kubelets.configurations[Configuration.GATE_ONLY.value]:
        notes.append(
            f"{in_nodes(half)} half configured: the kubelet asks for events that the runtime does"
            " not announce"
        )
    if missed := fleet.kubelets.missed:
        notes.append(
            f"{missed:,} events reached shadow-pleg and not the kubelet beside it: its own"
            " connection lost them"
        )
    if unusable := fleet.kubelets.unusable:
        notes.append(
            f"{unusable:,} STOPPED events came without what a kubelet needs to act on them"
        )
    return notes


def _told_apart(share: float, other: float) -> str:
    """Three digits, or more if the two would look the same."""
    short = percent(share)
    return percent(share, 6) if short == percent(other) else short


def duration(seconds: int) -> str:
    """A length of time in the largest units that fit: `1d 12h`, `8m`, `0m`."""
    days, rest = divmod(seconds, 86400)
    hours, minutes = rest // 3600, rest % 3600 // 60
    parts = [
        f"{number}{unit}" for number, unit in ((days, "d"), (hours, "h"), (minutes, "m")) if number
    ]
    return " ".join(parts[:2]) or "0m"


def percent(share: float, digits: int = 3) -> str:
    """A share as percent, with meaningful digits; never rounded up to 100 %."""
    if share in (0, 1):
        return f"{share * 100:.0f} %"
    if share >= 0.9995:  # noqa: PLR2004 - three digits would read 100
        return f"{math.floor(share * 1e6 + 1e-6) / 1e4:.4f}".rstrip("0").rstrip(".") + " %"
    return f"{float(f'{share * 100:.{digits}g}'):.12f}".rstrip("0").rstrip(".") + " %"
