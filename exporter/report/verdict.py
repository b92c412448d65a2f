"""Go, no-go or not enough evidence, with the reasons in words.

One rule for a runtime version, one for the fleet; both pure.

A version is a GO when the 95 % upper bound of its silent loss is within the objective, a NO-GO when
it lost more than the objective allows, stood still for longer than that, has no stream, or one that
flaps. The fleet is a NO-GO when it or any version is, and a GO when all are and the nodes were
watched for enough of the time: losses may hide in unwatched time. What is estimated needs the
standard's least time, nodes and transitions; what is certain (no stream, a stream that flaps) does
not.

What goes wrong decides by the kubelets of these nodes: see WEIGHTS.
"""

import math
from collections.abc import Iterator
from dataclasses import dataclass, replace
from enum import Enum
from typing import Final

from exporter.pleg.profiles import StreamKind
from exporter.report import bound
from exporter.report.fleet import Coverage, Fleet, Group, summed
from exporter.report.kubelets import Weight, weighed
from exporter.report.options import Standard
from exporter.report.queries import FLAPS

# Minimum share of the nodes, and of the time, for the sample to represent the fleet.
ENOUGH: Final = 0.9
# A version flaps if more than this share of its nodes does; fewer are sick nodes.
_FLAPPING: Final = 0.01
# One or two stalls may be chance.
_FEW_STALLS: Final = 3
# What loses more than this gains no kubelet anything: the median exit is not noticed sooner.
_USELESS: Final = 0.5


class Decision(Enum):
    """The recommendation."""

    GO = "GO"
    NO_GO = "NO-GO"
    NOT_ENOUGH = "NOT ENOUGH EVIDENCE"


@dataclass(frozen=True, slots=True)
class Judgement:
    """A verdict and its reasons.

    `certain`: it does not rest on an estimate, so it holds however little was seen.
    """

    verdict: Decision
    reasons: tuple[str, ...]
    certain: bool = False


def judge_group(group: Group, standard: Standard) -> Judgement:
    """Judge one runtime version, or the sum of all, by its own numbers."""
    if group.stream == StreamKind.NONE.value and group.nodes and not group.silent:
        if not group.version:
            why = "which runtime they have is not known: see `shadow-pleg check` there"
            return Judgement(Decision.NOT_ENOUGH, (why,))
        return Judgement(Decision.NO_GO, ("this runtime has no event stream",), certain=True)
    estimate = _estimate(group, standard)
    lost = estimate.reasons if estimate.verdict is Decision.NO_GO else ()
    besides = (*_flapping(group), *_stalling(group, standard))
    weight, why = weighed(group.kubelets)
    if weight is Weight.TOLD and (group.ratio or 0) <= _USELESS:
        return _told(group, standard, estimate, besides, why)
    if not (lost or besides):
        return estimate
    reasons, useless = (*besides, *lost), (group.ratio or 0) > _USELESS and bool(lost)
    said = "so little comes that no kubelet gains by it" if useless else why
    return Judgement(Decision.NO_GO, (*reasons, said), certain=flaps(group))


def _told(
    group: Group, standard: Standard, estimate: Judgement, besides: tuple[str, ...], why: str
) -> Judgement:
    """Where events are a hint: what goes wrong is told, once it is known that they come."""
    if group.trials < standard.transitions or group.upper > _USELESS:
        return replace(estimate, verdict=Decision.NOT_ENOUGH)
    reasons = (*estimate.reasons, *besides)
    if besides or estimate.verdict is not Decision.GO:
        reasons = (*reasons, why)
    return Judgement(Decision.GO, reasons)


def flaps(group: Group) -> bool:
    """Whether streams end so often on too many of the nodes."""
    return group.flapping > _FLAPPING * group.nodes


def _flapping(group: Group) -> Iterator[str]:
    if flaps(group):
        yield (
            f"the event stream ended {FLAPS} times or more on {in_nodes(group.flapping)}: after"
            f" {FLAPS} stream errors a kubelet (1.26 to 1.37) gives events up until it is restarted"
        )


def _stalling(group: Group, standard: Standard) -> Iterator[str]:
    """Changes may have waited for a relist for too much of the time."""
    stalls, seconds, allowed = group.incidents["stalls"], group.stalled, standard.allowed
    if stalls >= _FEW_STALLS and seconds > allowed * group.listened:
        share = _told_apart(min(1.0, seconds / (group.listened or seconds)), allowed)
        yield (
            f"the event stream stood still {stalls:,} times: changes may have"
            f" waited for a relist for {seconds:,.0f} s in all, {share} of the time"
            f" listened to, more than the {percent(allowed)} allowed"
        )


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
    whole = _unless(lacking, judge_group(_heaviest(fleet), standard))
    groups = judge_groups(fleet, standard)
    bad = [_said(group, each) for group, each in groups if each.verdict is Decision.NO_GO]
    if bad or whole.verdict is Decision.NO_GO:
        # Nodes that changed or hide their version are no evidence about any version.
        good = [g.label for g, each in groups if each.verdict is Decision.GO and g.version]
        alone = [f"by itself a go: {', '.join(good)}"] if good else []
        return Judgement(Decision.NO_GO, (*(bad or whole.reasons), *alone))
    doubts = [*lacking, *_thin(fleet.coverage)]
    if whole.verdict is Decision.NOT_ENOUGH:
        doubts += whole.reasons
    if len(groups) > 1 or not lacking:
        doubts += [
            _said(group, each) for group, each in groups if each.verdict is Decision.NOT_ENOUGH
        ]
    if doubts:
        return Judgement(Decision.NOT_ENOUGH, tuple(doubts))
    each_one = [_said(group, each) for group, each in groups] if len(groups) > 1 else []
    return Judgement(Decision.GO, (*whole.reasons, *each_one))


def _heaviest(fleet: Fleet) -> Group:
    """The sum of the groups on whose kubelets most depends: what others lose must not decide."""
    chosen = [each for each in fleet.groups if weighed(each.kubelets)[0] is Weight.DECIDES]
    return summed(chosen) if 0 < len(chosen) < len(fleet.groups) else fleet.all


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
