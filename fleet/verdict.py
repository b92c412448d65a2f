"""The verdict, with its reasons in words: the only judge of go or no-go.

One rule for a runtime version, one for the fleet; both pure.

A version is a GO when the 95 % upper bound of the share of exits that it lost is within the
objective, a NO-GO when more exits, or more of the other events, were lost than the objective
allows, when its stream delivers less than half, flaps, or when it has none. What is lost counts
whether the runtime is proven to have lost it (silent) or not (stalled): no kubelet received it
either. What goes wrong decides by the kubelets of these nodes. A stream on which losses cannot be
measured is never a GO. NOT YET is what would be a GO but for bugs that others have found.

The fleet is a NO-GO when it or any version is, and a GO when all are and the nodes were watched for
enough of the time: losses may hide in unwatched time. What is estimated needs the standard's least
time, nodes and transitions; what is certain (no stream, one that delivers less than half or flaps)
does not.
"""

from collections.abc import Iterator
from dataclasses import dataclass, replace
from enum import Enum
from typing import Final

from exporter.conditions.account import LOST
from exporter.model.findings import Cause
from exporter.model.labels import StreamKind
from fleet import bound
from fleet.fleet import Coverage, Fleet, Group, Losses, summed
from fleet.reliance import decides, issues, why
from fleet.request import Standard
from fleet.words import distinct_percent, duration, in_nodes, percent
from promql.series import FLAPS, UNMEASURED

# Minimum share of the nodes, and of the time, for the sample to represent the fleet.
ENOUGH: Final = 0.9
# A version flaps if more than this share of its nodes does; fewer are sick nodes.
_FLAPPING: Final = 0.01
# What loses more than this gains no kubelet anything: the median exit is not noticed sooner.
_USELESS: Final = 0.5


class Decision(Enum):
    """The recommendation."""

    GO = "GO"
    NO_GO = "NO-GO"
    NOT_YET = "NOT YET"
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
    if (found := _by_stream(group)) is not None:
        return found
    whose = why(group.kubelets)
    exits, others = _estimate(group, standard), _others(group, standard)
    besides = tuple(_flapping(group))
    useless = (group.exits.ratio or 0) > _USELESS and exits.verdict is Decision.NO_GO
    if not decides(group.kubelets) and not useless:
        judgement = _where_events_are_hints(group, standard, exits, (*others, *besides))
    elif exits.verdict is Decision.NO_GO or others or besides:
        lost = exits.reasons if exits.verdict is Decision.NO_GO else ()
        said = "too few events arrive to benefit any kubelet" if useless else whose
        reasons = (*besides, *lost, *others, said)
        return Judgement(Decision.NO_GO, reasons, certain=flaps(group))
    else:
        judgement = exits
    return _despite_issues(group, judgement) if judgement.verdict is Decision.GO else judgement


def _by_stream(group: Group) -> Judgement | None:
    """What follows from the kind of stream, and from one that brings next to nothing."""
    if group.stream == StreamKind.NONE.value and group.nodes and not group.every.lost:
        if not group.version:
            said = "which runtime they have is not known: see `shadow-pleg check` there"
            return Judgement(Decision.NOT_ENOUGH, (said,))
        return Judgement(Decision.NO_GO, ("this runtime has no event stream",), certain=True)
    if group.stream in UNMEASURED:
        said = f"its stream is {group.stream}: losses cannot be measured there; upgrade the runtime"
        return Judgement(Decision.NOT_ENOUGH, (f"{said} first",))
    every = group.every
    if every.lower > _USELESS:
        said = f"delivered nothing of {every.trials:,} events"
        if group.counts["received"]:
            said = f"{every.lost:,} of {every.trials:,} events never came over it"
        return Judgement(Decision.NO_GO, (f"the stream was open and {said}",), certain=True)
    return None


def _where_events_are_hints(
    group: Group, standard: Standard, exits: Judgement, besides: tuple[str, ...]
) -> Judgement:
    """Where events are a hint: what goes wrong is reported, once it is known that exits come."""
    if group.every.trials < standard.transitions or group.exits.upper > _USELESS:
        return replace(exits, verdict=Decision.NOT_ENOUGH)
    reasons = (*exits.reasons, *besides)
    if besides or exits.verdict is not Decision.GO:
        reasons = (*reasons, why(group.kubelets))
    return Judgement(Decision.GO, reasons)


def _despite_issues(group: Group, good: Judgement) -> Judgement:
    """The stream is complete; what of the gate is known to be broken decides."""
    found = [each.id for each in issues(group.name, group.version, group.kubelets) if each.of_gate]
    if not found:
        return good
    whose = why(group.kubelets).partition(":")[0]
    broken = f"the gate has known bugs with {whose}: {', '.join(found)}"
    return Judgement(Decision.NOT_YET, (*good.reasons, broken))


def flaps(group: Group) -> bool:
    """Whether streams end so often on too many of the nodes."""
    return group.counts["flapping"] > _FLAPPING * group.nodes


def _flapping(group: Group) -> Iterator[str]:
    if flaps(group):
        nodes = in_nodes(group.counts["flapping"])
        yield (
            f"the event stream ended {FLAPS} times or more on {nodes}: after"
            f" {FLAPS} stream errors a kubelet gives events up until it is restarted"
        )


def _estimate(group: Group, standard: Standard) -> Judgement:
    """Of the exits; the other events are reported beside them."""
    allowed, exits, every = standard.allowed, group.exits, group.every
    if not every.trials:
        return Judgement(Decision.NOT_ENOUGH, (_unheard(group),))
    lost = _lost(exits, "exits")
    if exits.undecided:
        lost += f", and {exits.undecided:,} more may have been"
    if every.trials < standard.transitions:
        need = f"a verdict needs {standard.transitions:,} (--min-transitions)"
        said = f"{lost}; {every.trials:,} transitions were judged: {need}"
        return Judgement(Decision.NOT_ENOUGH, (said,))
    if beyond := _beyond(exits, lost, allowed):
        return Judgement(Decision.NO_GO, (beyond,))
    at_most = f"{lost}: at most {percent(exits.upper)} with 95 % confidence"
    beside = f"; {_lost(group.others, 'other events')}"
    if exits.upper > allowed:
        more = bound.needed(exits.doubtful, allowed) - exits.trials
        shown = f"{more:,} more without a loss would show it"
        said = f"{at_most}, and {percent(allowed)} is allowed: {shown}{beside}"
        return Judgement(Decision.NOT_ENOUGH, (said,))
    return Judgement(Decision.GO, (f"{at_most}, within the {percent(allowed)} allowed{beside}",))


def _others(group: Group, standard: Standard) -> tuple[str, ...]:
    """If more of the other events were lost than is allowed, that."""
    others = group.others
    if group.every.trials < standard.transitions:
        return ()
    beyond = _beyond(others, _lost(others, "other events"), standard.allowed)
    return (beyond,) if beyond else ()


def _beyond(losses: Losses, lost: str, allowed: float) -> str:
    """In words, if more was lost than is allowed."""
    if losses.ratio is None or losses.ratio <= allowed:
        return ""
    chance = ""
    if losses.lower <= allowed:
        chance = f"; so few may be chance (95 % lower bound {percent(losses.lower)})"
    share = distinct_percent(losses.ratio, allowed)
    return f"{lost}: {share}, more than the {percent(allowed)} allowed{chance}"


def _lost(losses: Losses, what: str) -> str:
    """How many, and whether it is proven that the runtime lost them."""
    of = f"{losses.lost:,} of {losses.trials:,} {what}"
    if losses.silent and losses.undelivered:
        parts = f"{losses.silent:,} silently, {losses.undelivered:,} undelivered"
        return f"{of} were lost ({parts} by a stalled stream)"
    if losses.undelivered:
        return f"{of} were not delivered by a stalled stream"
    return f"{of} were lost silently"


def _unheard(group: Group) -> str:
    if not group.witnessed.total():
        return "no transition was seen"
    if not group.listened:
        return "nothing was judged: the stream was not subscribed to while things happened"
    excused = [
        f"{number:,} {cause.value}"
        for cause in Cause
        if cause not in LOST and (number := group.of(cause))
    ]
    return (
        f"nothing could be judged: what was missed has an excuse ({', '.join(excused) or 'none'})"
    )


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
    lacking, groups = _lacking(fleet, standard), judge_groups(fleet, standard)
    if len(groups) == 1:
        ((_, whole),) = groups
    else:
        whole = _unless(lacking, judge_group(_heaviest(fleet), standard))
    bad = _those(groups, Decision.NO_GO)
    if bad or whole.verdict is Decision.NO_GO:
        return Judgement(Decision.NO_GO, (*(bad or whole.reasons), *_alone(groups)))
    doubts = [*lacking, *_thin(fleet.coverage)]
    if whole.verdict is Decision.NOT_ENOUGH:
        doubts += whole.reasons
    if len(groups) > 1:
        doubts += _those(groups, Decision.NOT_ENOUGH)
    if doubts:
        return Judgement(Decision.NOT_ENOUGH, tuple(doubts))
    each_one = _those(groups, *Decision) if len(groups) > 1 else []
    yet = any(each.verdict is Decision.NOT_YET for _, each in groups)
    return Judgement(Decision.NOT_YET if yet else Decision.GO, (*whole.reasons, *each_one))


def _those(groups: list[tuple[Group, Judgement]], *verdicts: Decision) -> list[str]:
    """The groups with one of these verdicts, with their reasons."""
    return [
        f"{group.label} ({in_nodes(group.nodes)}): {'; '.join(each.reasons)}"
        for group, each in groups
        if each.verdict in verdicts
    ]


def _alone(groups: list[tuple[Group, Judgement]]) -> Iterator[str]:
    """Which versions are not the fault, among those that have one."""
    for verdict, said in ((Decision.GO, "a go"), (Decision.NOT_YET, "not yet a go")):
        # Nodes that changed or hide their version are no evidence about any version.
        good = [g.label for g, each in groups if each.verdict is verdict and g.version]
        if good:
            yield f"by itself {said}: {', '.join(good)}"


def _heaviest(fleet: Fleet) -> Group:
    """The sum of the groups on whose kubelets most depends: what others lose must not decide."""
    measured = [each for each in fleet.groups if each.stream not in UNMEASURED]
    chosen = [each for each in measured if decides(each.kubelets)]
    return summed(chosen or measured or fleet.groups)


def _lacking(fleet: Fleet, standard: Standard) -> list[str]:
    """What the standard lacks of time and nodes."""
    lacking, coverage = [], fleet.coverage
    if coverage.nodes < standard.nodes:
        lacking.append(
            f"{in_nodes(coverage.nodes)} watched: a verdict needs {standard.nodes:,} (--min-nodes)"
        )
    needs = f"a verdict needs {duration(standard.seconds)} (--min-time)"
    together = coverage.together * fleet.span.step
    if fleet.age is not None and fleet.age < standard.seconds:
        lacking.append(f"this installation is {duration(fleet.age)} old: {needs}")
    elif together < standard.seconds:
        at_once = f"{in_nodes(standard.nodes)} or more at once for {duration(together)}"
        lacking.append(f"listened to {at_once}: {needs}")
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
