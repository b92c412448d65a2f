"""What a report tells beside its verdict: it does not decide, and must not be overlooked."""

from collections.abc import Iterator
from typing import Final

from exporter.kubelet.state import Configuration
from exporter.pleg.findings import Cause
from fleet.fleet import Fleet
from fleet.kubelets import pause
from fleet.queries import FLAPS
from fleet.verdict import ENOUGH, flaps
from fleet.words import in_nodes, percent

# Between two relists of a kubelet whose gate is off.
_RELISTS_SECONDS: Final = 1.0


def notes(fleet: Fleet) -> tuple[str, ...]:
    """In words; each risk with what it costs the kubelets of this fleet."""
    return (*_of_stream(fleet), *_of_counts(fleet), *_beside(fleet), *fleet.notes)


def _of_stream(fleet: Fleet) -> Iterator[str]:
    late = f"its next relist, up to {pause(fleet.kubelets.versions):g} s later"
    median = fleet.all.announced.quantile(0.5)
    if median is not None and median > _RELISTS_SECONDS:
        yield (
            f"half of the exits were announced {median:.3g} s or more after them: a kubelet that"
            f" relists every {_RELISTS_SECONDS:g} s knows as soon, so events gain little here"
        )
    if down := fleet.all.of(Cause.STREAM_DOWN):
        yield (
            f"{down:,} were missed while the stream was down: a kubelet's own subscription would"
            f" have lost such ones too, and notices them by {late}"
        )
    if fleet.all.flapping and not flaps(fleet.all):
        yield (
            f"the event stream ended {FLAPS} times or more on {in_nodes(fleet.all.flapping)}: see"
            " below which"
        )
    if stalls := fleet.all.incidents["stalls"]:
        held = fleet.all.of(Cause.STALLED) - fleet.all.lost(Cause.STALLED)
        yield (
            f"stalls: {stalls:,} (the stream was up and stood still), {held:,} events came after"
            f" all, late. That is no error to a kubelet: meanwhile it notices changes by {late}"
        )
    if shared := fleet.all.of(Cause.SHARED):
        yield (
            f"{shared:,} events of exclusive streams may have gone to another subscriber, and count"
            " neither as lost nor as complete; it did not get those that came here, and may be the"
            " kubelet (--event-stream=always)"
        )
    if missed := fleet.kubelets.missed:
        yield (
            f"{missed:,} events reached shadow-pleg and not the kubelet beside it: its own"
            f" connection lost them, and it notices by {late}"
        )
    if unusable := fleet.kubelets.unusable:
        yield (
            f"{unusable:,} STOPPED events came without the pod's uid, or without the container's"
            " status, from which a kubelet up to 1.36 takes the pod's state"
        )


def _of_counts(fleet: Fleet) -> Iterator[str]:
    if discarded := fleet.all.of(Cause.DISCARDED):
        yield (
            f"{discarded:,} were missed because this exporter's own queue was full: see"
            " --event-queue-capacity"
        )
    if undecided := fleet.all.undecided:
        yield (
            f"{undecided:,} exits are undecided: it is not known whether the container ever ran."
            " They count against the runtime in the upper bound only"
        )
    if gaps := fleet.all.gaps.total():
        yield (
            f"{gaps:,} gaps: events that were never announced though a later one was, without an"
            " outage. No relist proved them, so they are in no ratio"
        )


def _beside(fleet: Fleet) -> Iterator[str]:
    """What is not of the stream: coverage, the runtime's lists, and the configuration."""
    coverage, span = fleet.coverage, fleet.span
    if coverage.kubelets is None:
        yield (
            "Prometheus has no kubelet metrics of these nodes, so it is not known whether every"
            " node is watched"
        )
    missing = (coverage.first - span.start - span.step) / span.seconds
    if missing > 1 - ENOUGH:
        yield (
            f"the first node was seen after {percent(missing)} of the window: nothing is known of"
            " the time before"
        )
    ghosts, strays, kernel = (fleet.all.incidents[w] for w in ("ghosts", "strays", "kernel"))
    if ghosts or strays:
        yield (
            f"ghosts: {ghosts:,} (listed as running, without a process), strays:"
            f" {strays:,} (running, and not listed). The runtime's lists are wrong there,"
            " with Evented PLEG or without, so this does not decide"
        )
    if 0 < kernel < fleet.all.nodes:
        yield (
            f"the kernel was a witness on {kernel:,} of {in_nodes(fleet.all.nodes)}:"
            " elsewhere ghosts and strays are not counted"
        )
    if half := fleet.kubelets.configurations[Configuration.GATE_ONLY.value]:
        yield (
            f"{in_nodes(half)} half configured: the kubelet asks for events that the runtime does"
            " not announce"
        )
