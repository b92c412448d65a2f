"""What a report says beside its verdict: what to do next, and what must not be overlooked."""

from collections.abc import Iterator
from typing import Final

from exporter.conditions.catalogue import BY_NAME
from exporter.conditions.condition import Weighs
from exporter.model.findings import Cause
from exporter.model.labels import OomKill
from exporter.runtimes.kubelets import LAST_TRUSTING
from fleet.fleet import Fleet
from fleet.reliance import is_unknown, pause
from fleet.verdict import ENOUGH, Decision, Judgement, flaps, found
from fleet.words import in_nodes, percent
from promql.series import FLAPS, REPORTED

# A relist every second becomes one in 300 seconds.
_SAVED: Final = "299 in 300"

_DRAIN: Final = BY_NAME["losing"].relied
_BEGIN: Final = (
    "Turn Evented PLEG on for one node, then for a percent of them, and repeat this report after"
    " each step: docs/rollout.md"
)
# What to do with the gate where it is off, and where it is on already.
_STEPS: Final = {
    Decision.GO: (_BEGIN, "take the next step of docs/rollout.md, and repeat this report after it"),
    Decision.NO_GO: (
        "Leave Evented PLEG off on the nodes of each version that is a NO-GO",
        f"where the version is a NO-GO, {_DRAIN}: docs/rollout.md#3-roll-back",
    ),
    Decision.NOT_YET: (
        "Leave the gate off until the known issues below have their remedies",
        "switch it off until the known issues below have their remedies",
    ),
    Decision.NOT_ENOUGH: ("", "turn it on nowhere else until there is a verdict"),
}
_EVERYWHERE: Final = "keep the alerts, and repeat this report after each upgrade: docs/rollout.md"
_GAINS_LITTLE: Final = "Leave the gate as it is: it does no harm, and gains little"


def next_steps(fleet: Fleet, judgement: Judgement) -> tuple[str, ...]:
    """What to do next: with the gate, by the verdict, and about each reason."""
    every, good = fleet.all, judgement.verdict is Decision.GO
    first, then = _STEPS[judgement.verdict]
    if on := every.counts["gate_on"]:
        then = _EVERYWHERE if good and on >= every.nodes else then
        first = f"The gate is already on on {on:,} of {in_nodes(every.nodes)}: {then}"
    if good and judgement.but:
        first = _GAINS_LITTLE
    return tuple(filter(None, (first, *judgement.steps)))


def notes(fleet: Fleet) -> tuple[str, ...]:
    """In words; each risk with what it costs the kubelets of this fleet, or where to read on."""
    return (*_of_stream(fleet), *_of_counts(fleet), *_beside(fleet), *fleet.notes)


def _of_stream(fleet: Fleet) -> Iterator[str]:
    every = fleet.all
    late = f"its next relist, up to {pause(fleet.kubelets):g} s later"
    if down := every.of(Cause.STREAM_DOWN):
        yield (
            f"{down:,} were missed while the stream was down: a kubelet's own subscription would"
            f" have lost such ones too, and notices them by {late}"
        )
    if (flapping := every.counts["flapping"]) and not flaps(every):
        yield (
            f"the event stream ended {FLAPS} times or more on {in_nodes(flapping)}: see below"
            " which, and docs/runbooks/ShadowPlegStreamDown.md"
        )
    if stalls := every.counts["stream_stalls"]:
        held = every.of(Cause.STALLED) - every.lost(Cause.STALLED)
        yield (
            f"stalls: {stalls:,} (the stream was up and delivered nothing in time), {held:,} events"
            f" came after all, late. That is no error to a kubelet: meanwhile it notices changes by"
            f" {late}: docs/runbooks/ShadowPlegStreamStalled.md"
        )
    if shared := every.of(Cause.SHARED):
        yield (
            f"{shared:,} events of exclusive streams may have gone to another subscriber, and count"
            " neither as lost nor as complete; it did not get those that came here, and may be the"
            " kubelet (--event-stream=always)"
        )


def _of_counts(fleet: Fleet) -> Iterator[str]:
    every = fleet.all
    if discarded := every.of(Cause.DISCARDED):
        yield (
            f"{discarded:,} were dropped by the exporter, for want of room (see"
            " --event-queue-capacity) or as unreadable"
        )
    if undecided := every.counts["undecided"]:
        yield (
            f"{undecided:,} exits are undecided: it is not known whether the container ever ran."
            " They count against the runtime in the upper bound only"
        )
    if gaps := every.counts["gaps"]:
        yield (
            f"{gaps:,} gaps: events that were never announced though a later one was, without an"
            " outage. No relist proved them, so they are in no ratio"
        )
    kinds = (OomKill.ANNOUNCED, OomKill.ANNOUNCED_AS_ERROR, OomKill.UNANNOUNCED)
    right, wrong, silent = (every.counts[each.value] for each in kinds)
    survived, words = (every.counts[it.value] for it in (OomKill.SURVIVED, OomKill.REASON_ONLY))
    if not right + wrong + silent + survived + words:
        yield "OOM kills: none was counted, so it is not known whether they are announced as such"
        return
    besides = f"; {words:,} ends without a kill were announced as OOMKilled" if words else ""
    yield (
        f"OOM kills: of {right + wrong + silent:,} that ended a container {right:,} were announced"
        f" as OOMKilled, {wrong:,} as another error and {silent:,} not at all; {survived:,} ended"
        f" none{besides}"
    )


def _beside(fleet: Fleet) -> Iterator[str]:
    """What is not of the stream: coverage, the runtime's lists, and the kubelets."""
    coverage, span = fleet.coverage, fleet.span
    if fleet.polling is not None:
        (relists, seconds), hours = fleet.polling, span.seconds / 3600
        yield (
            f"polling: a kubelet's relists took {percent(seconds / span.seconds)} of the time, and"
            f" {2 * relists / hours:,.0f} list calls an hour. The gate would save up to"
            f" {_SAVED} of them up to {LAST_TRUSTING}; since then none, for relists go on by design"
        )
    if coverage.kubelets is None:
        yield (
            "Prometheus has no kubelet metrics of these nodes, so it is not known whether every"
            " node is watched"
        )
    elif any(is_unknown(each.kubelets) for each in fleet.groups if each.version):
        yield (
            "of some nodes no kubelet's version is known: name it with --kubelet-version, or let"
            " Prometheus scrape kubelets (kubernetes_build_info)"
        )
    missing = (coverage.first - span.start - span.step) / span.seconds
    if missing > 1 - ENOUGH:
        yield (
            f"the first node was seen after {percent(missing)} of the window: nothing is known of"
            " the time before"
        )
    every = fleet.all
    for name, row in REPORTED.items():
        if row.weighs is Weighs.GATED and every.held[name] > every.gated[name]:
            yield (
                f"{row.stops}: {found(every, name)}. Where the gate is off, or is not known to be"
                " on, that does not decide"
            )
    if every.held["ghosts"] or every.held["strays"]:
        yield (
            "the runtime's lists are wrong on some nodes (conditions below), with Evented PLEG or"
            " without, so that does not decide"
        )
    if (kernel := every.counts["kernel_nodes"]) < every.nodes:
        yield (
            f"the kernel was a witness on {kernel:,} of {in_nodes(every.nodes)}: elsewhere ghosts"
            " and strays are not found, nor is it known when exits happened"
        )
    if half := every.gated["no_events"]:
        yield (
            f"{in_nodes(half)} half configured: the kubelet asks for events that the runtime does"
            f" not announce: {BY_NAME['no_events'].relied}: docs/kubelet.md"
        )
