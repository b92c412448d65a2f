"""The verdict, with its reasons in words: the only judge of go or no-go.

One rule for a runtime version, one for the fleet; both pure. docs/report.md has the rules. What is
estimated needs the standard's least time, nodes and transitions; what is certain (no stream, one
that delivers less than half or flaps, a condition that stops it) does not. Each reason has the
steps that follow from it.
"""

from collections.abc import Iterator
from dataclasses import dataclass, replace
from enum import Enum
from typing import Final

from exporter.conditions.catalogue import BY_NAME
from exporter.conditions.condition import Weighs
from exporter.model.findings import Cause
from exporter.model.labels import StreamKind
from fleet import bound
from fleet.fleet import RELIST_SECONDS, Fleet, Group, Losses, decides, quantile, summed, why
from fleet.request import Request
from fleet.words import WAIT, about, duration, in_nodes, percent, turn_on
from promql.series import COUNTED, FLAPS, REPORTED, UNMEASURED

# Minimum share of the nodes, and of the time, for the sample to represent the fleet.
ENOUGH: Final = 0.9
# A version flaps, or sends wrong events, if more than this share of its nodes does; fewer are sick
# nodes.
_SICK: Final = 0.01
# A kubelet that loses this share of the exits gains less than others.
_MANY: Final = 0.1
# What loses more than this gains no kubelet anything: the median exit is not noticed sooner.
_USELESS: Final = 0.5
_UPGRADE: Final = (
    "Upgrade the runtime: docs/compatibility.md has the versions on which losses can be measured"
)
_UNDECIDED: Final = (
    "Let the kernel be a witness on all nodes (`shadow-pleg check` says what is missing): it knows"
    " of most containers whether they ran; and look at the UNDECIDED cases of /debug/misses. More"
    " time does not decide it"
)


class Decision(Enum):
    """The recommendation."""

    GO = "GO"
    NO_GO = "NO-GO"
    NOT_YET = "NOT YET"
    NOT_ENOUGH = "NOT ENOUGH EVIDENCE"


@dataclass(frozen=True, slots=True)
class Reason:
    """Why, and what to do about it; both in words."""

    said: str
    steps: tuple[str, ...] = ()


@dataclass(frozen=True, slots=True)
class Judgement:
    """A verdict and its reasons."""

    verdict: Decision
    reasons: tuple[Reason, ...]
    # It does not rest on an estimate, so it holds however little was seen.
    certain: bool = False
    # What must be said in the same line.
    but: str = ""
    # Of a fleet: those of its groups, in their order.
    versions: tuple["Judgement", ...] = ()

    @property
    def headline(self) -> str:
        """The verdict in a line."""
        return f"{self.verdict.value}{self.but}"

    @property
    def steps(self) -> tuple[str, ...]:
        """What follows from the reasons, each once; to wait comes last."""
        each = dict.fromkeys(step for reason in self.reasons for step in reason.steps)
        return tuple(sorted(each, key=WAIT.__eq__))


def _because(verdict: Decision, said: str, *steps: str, certain: bool = False) -> Judgement:
    """For one reason."""
    return Judgement(verdict, (Reason(said, steps),), certain)


def judge_group(group: Group, request: Request) -> Judgement:
    """Judge one runtime version, or the sum of all, by its own numbers."""
    judgement = _by_stream(group) or _by_events(group, request)
    # What went wrong on nodes whose gate is on, and is a no-go by itself.
    wrong = [
        Reason(f"{row.stops}: {found(group, name)}; {nodes:,} with the gate on", (about(name),))
        for name, row in REPORTED.items()
        if row.weighs is Weighs.GATED and (nodes := group.gated[name])
    ]
    if not wrong:
        return judgement
    besides = judgement.reasons if judgement.verdict is Decision.NO_GO else ()
    return Judgement(Decision.NO_GO, (*wrong, *besides), certain=True)


def found(group: Group, name: str) -> str:
    """Where, for how long, and how often, if it is counted."""
    number = f"{group.counts[COUNTED[name]]:,} such containers " if name in COUNTED else ""
    share = percent(group.share_of(name))
    return f"{number}on {in_nodes(group.held[name])} for {share} of their time"


def _by_events(group: Group, request: Request) -> Judgement:
    """By what was lost, flawed or late."""
    whose = Reason(why(group.kubelets))
    exits, enough = _estimate(group, request), group.every.judged >= request.min_transitions
    others = _beyond(group.others, "other events", request.allowed) if enough else ()
    besides = tuple(_spoilt(group))
    useless = (group.exits.loss_ratio or 0) > _USELESS and exits.verdict is Decision.NO_GO
    judgement = exits
    if not decides(group.kubelets) and not useless:
        # What goes wrong is reported, once it is known that exits come.
        if not enough or group.exits.loss_upper_bound > _USELESS:
            return replace(exits, verdict=Decision.NOT_ENOUGH)
        spoilt = others or besides or exits.verdict is not Decision.GO
        reasons = (*exits.reasons, *others, *besides, *([whose] if spoilt else ()))
        judgement = Judgement(Decision.GO, reasons)
    elif exits.verdict is Decision.NO_GO or others or besides:
        lost = exits.reasons if exits.verdict is Decision.NO_GO else ()
        most = Reason(f"{BY_NAME['most_exits_lost'].stops}: too few to benefit any kubelet")
        reasons = (*besides, *lost, *others, most if useless else whose)
        return Judgement(Decision.NO_GO, reasons, certain=flaps(group))
    return _worth(group, judgement) if judgement.verdict is Decision.GO else judgement


def _by_stream(group: Group) -> Judgement | None:
    """What follows from the kind of stream, and from one that brings next to nothing."""
    if group.stream == StreamKind.NONE.value and group.nodes and not group.every.lost:
        if not group.version:
            check = "Run `shadow-pleg check` where the runtime is not known"
            return _because(Decision.NOT_ENOUGH, "which runtime they have is not known", check)
        step = turn_on(group.name, group.version)
        return _because(Decision.NO_GO, "this runtime has no event stream", step, certain=True)
    if group.stream in UNMEASURED:
        said = f"its stream is {group.stream}: losses cannot be measured there; upgrade the runtime"
        shared = group.held["stream_shared"] or group.of(Cause.SHARED)
        steps = (about("stream_shared"), _UPGRADE) if shared else (_UPGRADE,)
        return _because(Decision.NOT_ENOUGH, f"{said} first", *steps)
    every = group.every
    if every.loss_lower_bound > _USELESS:
        said = f"the stream was open, and {every.lost:,} of {every.judged:,} events never came"
        return _because(Decision.NO_GO, said, *_against(every), certain=True)
    return None


def _worth(group: Group, good: Judgement) -> Judgement:
    """What the gate would gain, and what of it is known to be broken, with a complete stream."""
    median, ratio = quantile(group.announced, 0.5) or 0.0, group.exits.loss_ratio or 0.0
    late = f"half of the exits are announced {median:.3g} s after them, or later"
    if median > group.polled:
        # At most: lists wait for the runtime's clean-up, too, but how long is not known.
        later = f"exits may be noticed up to {median - group.polled:.3g} s later than today"
        knows = f"a kubelet that relists every {RELIST_SECONDS:g} s knows as soon"
        worse = decides(group.kubelets)
        reason = Reason(f"{late}: {later if worse else knows}", (about("exits_late"),))
        good = Judgement(
            Decision.NOT_YET if worse else Decision.GO,
            (*good.reasons, reason),
            but=f": {later}" if worse else f", and gains little: {late}, and {knows}",
        )
    elif ratio > _MANY:
        good = replace(good, but=f", and gains little: {percent(ratio)} of the exits do not come")
    if not (broken := [each.id for each in group.issues if each.of_gate]):
        return good
    whose = why(group.kubelets).partition(":")[0]
    bugs = Reason(f"the gate has known bugs with {whose}: {', '.join(broken)}")
    return replace(good, verdict=Decision.NOT_YET, reasons=(*good.reasons, bugs))


def flaps(group: Group) -> bool:
    """Whether streams end so often on too many of the nodes."""
    return group.counts["flapping"] > _SICK * group.nodes


def _spoilt(group: Group) -> Iterator[Reason]:
    """What such kubelets would do wrong with the events that come, or why they would stop to."""
    if flaps(group):
        nodes = in_nodes(group.counts["flapping"])
        yield Reason(
            f"the event stream ended {FLAPS} times or more on {nodes}: after"
            f" {FLAPS} stream errors a kubelet gives events up until it is restarted",
            (about("stream_flapping"),),
        )
    for name, row in REPORTED.items():
        many = group.held[name] > _SICK * group.nodes
        if row.weighs is Weighs.TRUSTED and many and decides(group.kubelets):
            yield Reason(f"{row.stops}: {found(group, name)}", (about(name),))


def _estimate(group: Group, request: Request) -> Judgement:
    """Of the exits; the other events are reported beside them."""
    allowed, exits, every = request.allowed, group.exits, group.every
    if not every.judged:
        return _because(Decision.NOT_ENOUGH, *_unheard(group))
    lost = _lost(exits, "exits")
    if every.judged < request.min_transitions:
        need = f"a verdict needs {request.min_transitions:,} (--min-transitions)"
        said = f"{lost}; {every.judged:,} transitions were judged: {need}"
        return _because(Decision.NOT_ENOUGH, said, WAIT)
    if beyond := _beyond(exits, "exits", allowed):
        return Judgement(Decision.NO_GO, beyond)
    at_most = f"{lost}: at most {percent(exits.loss_upper_bound)} with 95 % confidence"
    if exits.loss_upper_bound > allowed:
        shown, step = _lacking_exits(group, allowed)
        said = f"{at_most}, and {percent(allowed)} is allowed: {shown}"
        return _because(Decision.NOT_ENOUGH, said, step)
    return _because(Decision.GO, f"{at_most}, within the {percent(allowed)} allowed")


def _lacking_exits(group: Group, allowed: float) -> tuple[str, str]:
    """What would bring the bound within what is allowed, and how to get there."""
    exits, doubtful = group.exits, group.exits.lost + group.exits.undecided
    if doubtful > allowed * exits.judged:
        share = percent(exits.undecided / exits.judged)
        return f"{share} are undecided, so no number of further ones would show it", _UNDECIDED
    more = bound.needed(doubtful, allowed) - exits.judged
    and_decided = ", and decided," if exits.undecided else ""
    return f"{more:,} more without a loss{and_decided} would show it", WAIT


def _against(losses: Losses) -> tuple[str, ...]:
    """What to do about these."""
    found = {"losing": losses.lost_silently, "stream_silent": losses.undelivered}
    return tuple(about(condition) for condition, number in found.items() if number)


def _beyond(losses: Losses, what: str, allowed: float) -> tuple[Reason, ...]:
    """If more of these was lost than is allowed, that."""
    if losses.loss_ratio is None or losses.loss_ratio <= allowed:
        return ()
    chance = ""
    if losses.loss_lower_bound <= allowed:
        chance = f"; so few may be chance (95 % lower bound {percent(losses.loss_lower_bound)})"
    share = percent(losses.loss_ratio)
    if share == percent(allowed):
        share = percent(losses.loss_ratio, 6)
    said = f"{_lost(losses, what)}: {share}, more than the {percent(allowed)} allowed{chance}"
    return (Reason(said, _against(losses)),)


def _lost(losses: Losses, what: str) -> str:
    """How many, and whether it is proven that the runtime lost them."""
    how = f"{losses.lost_silently:,} silently, {losses.undelivered:,} undelivered"
    more = f", and {losses.undecided:,} more may have been" if losses.undecided else ""
    return f"{losses.lost:,} of {losses.judged:,} {what} were lost ({how}){more}"


def _unheard(group: Group) -> tuple[str, str]:
    """Why nothing was judged, and what to do about it."""
    if not group.witnessed.total():
        return "no transition was seen", WAIT
    if not group.listened:
        silent = group.held["no_events"] and group.name
        step = turn_on(group.name, group.version) if silent else about("stream_down")
        return "nothing was judged: the stream was not subscribed to while things happened", step
    return "nothing could be judged: what was missed has an excuse", WAIT


def judge(fleet: Fleet, request: Request) -> Judgement:
    """Judge the whole fleet, and each runtime version."""
    lacking = _lacking(fleet, request)

    def judged(group: Group) -> Judgement:
        """Estimates are none while the request lacks time or nodes."""
        found = judge_group(group, request)
        if not lacking or found.certain or found.verdict is Decision.NOT_ENOUGH:
            return found
        return replace(found, verdict=Decision.NOT_ENOUGH, but="")

    groups = [(group, judged(group)) for group in fleet.groups]
    several, but = len(groups) != 1, ""
    whole = judged(_heaviest(fleet)) if several else groups[0][1]
    bad = _those(groups, Decision.NO_GO)
    unknown = [*lacking, *_thin(fleet)]
    if whole.verdict is Decision.NOT_ENOUGH:
        unknown += whole.reasons
    if several:
        unknown += _those(groups, Decision.NOT_ENOUGH)
    if bad or whole.verdict is Decision.NO_GO:
        verdict, reasons = Decision.NO_GO, bad or [*whole.reasons]
    elif unknown:
        verdict, reasons = Decision.NOT_ENOUGH, unknown
    else:
        yet = any(each.verdict is Decision.NOT_YET for _, each in groups)
        verdict = Decision.NOT_YET if yet else Decision.GO
        reasons = [*whole.reasons, *(_those(groups, *Decision) if several else ())]
        little = (f"{each.but} ({group.label})" for group, each in groups if each.but)
        but = whole.but or next(little, "")
    versions = tuple(each for _, each in groups)
    return Judgement(verdict, tuple(reasons), but=but, versions=versions)


def _those(groups: list[tuple[Group, Judgement]], *verdicts: Decision) -> list[Reason]:
    """The groups with one of these verdicts, with their reasons; what all have comes once, last."""
    chosen = [(group, it) for group, it in groups if it.verdict in verdicts]
    sets = [set(it.reasons) for _, it in chosen]
    common = sets[0].intersection(*sets) if sets else set()
    if common in sets:
        # Each group keeps a reason of its own.
        common = set()
    own = [
        Reason(
            f"{group.label} ({in_nodes(group.nodes)}):"
            f" {'; '.join(of.said for of in it.reasons if of not in common)}",
            it.steps,
        )
        for group, it in chosen
    ]
    return own + [each for _, it in chosen[:1] for each in it.reasons if each in common]


def _heaviest(fleet: Fleet) -> Group:
    """The sum of the groups on whose kubelets most depends: what others lose must not decide."""
    measured = [each for each in fleet.groups if each.stream not in UNMEASURED]
    chosen = [each for each in measured if decides(each.kubelets)]
    return summed(chosen or measured or fleet.groups)


def _lacking(fleet: Fleet, request: Request) -> list[Reason]:
    """What the standard lacks of time and nodes."""
    lacking, coverage = [], fleet.coverage
    if coverage.nodes < request.min_nodes:
        needs = f"a verdict needs {request.min_nodes:,} (--min-nodes)"
        lacking.append(f"{in_nodes(coverage.nodes)} watched: {needs}")
    needs = f"a verdict needs {duration(request.min_time)} (--min-time)"
    together = coverage.together * fleet.span.step
    if together < request.min_time:
        at_once = f"{in_nodes(request.min_nodes)} or more at once for {duration(together)}"
        lacking.append(f"listened to {at_once}: {needs}")
    return [Reason(said, (WAIT,)) for said in lacking]


def _thin(fleet: Fleet) -> Iterator[Reason]:
    """Why the sample does not represent the fleet."""
    coverage, every = fleet.coverage, fleet.all
    if coverage.watched is not None and coverage.watched < ENOUGH:
        seen = (coverage.kubelets or 0) - (coverage.unwatched or 0)
        yield Reason(
            f"{seen:,} of {coverage.kubelets:,} nodes with a kubelet are watched"
            f" ({percent(coverage.watched)}): {percent(ENOUGH)} are needed to speak for all",
            ("Install shadow-pleg on the nodes that are `unwatched` below",),
        )
    if coverage.listening < ENOUGH:
        down, step = "", WAIT
        if every.held["stream_down"]:
            down, step = f"; it was down {found(every, 'stream_down')}", about("stream_down")
        yield Reason(
            f"the event stream was listened to for {percent(coverage.listening)} of the nodes'"
            f" time: {percent(ENOUGH)} is needed{down}",
            (step,),
        )
