"""What to do after a report, in words: the next step for each thing that it found."""

from collections import Counter
from collections.abc import Iterator
from typing import Final

from exporter.kubelet.state import Configuration
from exporter.pleg.profiles import StreamKind
from fleet.fleet import Fleet
from fleet.kubelets import weighed
from fleet.options import Standard
from fleet.verdict import ENOUGH, Decision, judge, judge_groups
from fleet.words import duration

# What is said of a version where the kubelets are not known, and that decides.
_STRANGERS: Final = weighed(Counter())[1]


def advice(fleet: Fleet, standard: Standard) -> tuple[str, ...]:
    """The most urgent step first; never empty."""
    return tuple(dict.fromkeys(_steps(fleet, standard)))


def _steps(fleet: Fleet, standard: Standard) -> Iterator[str]:
    verdict = judge(fleet, standard).verdict
    if verdict is Decision.GO:
        yield (
            "Turn Evented PLEG on for one node, then for a percent of them, and repeat this report"
            " after each step: docs/rollout.md"
        )
        yield from _by_faults(fleet)
        yield from _by_issues(fleet)
        return
    if fleet.all.every.lost:
        yield (
            "Open /debug/misses on the worst nodes for what was lost and when, and compare the"
            " runtime versions below: docs/runbooks/ShadowPlegMissedEvents.md"
        )
    yield from _by_faults(fleet)
    yield from _by_stream(fleet)
    if fleet.coverage.watched is not None and fleet.coverage.watched < ENOUGH:
        yield (
            "Run shadow-pleg on the nodes that are not watched, or leave them out with"
            " --kubelet-selector"
        )
    if verdict in (Decision.NO_GO, Decision.NOT_YET):
        if any(
            _STRANGERS in each.reasons
            or (each.verdict is Decision.NOT_YET and weighed(group.kubelets)[1] == _STRANGERS)
            for group, each in judge_groups(fleet, standard)
        ):
            yield (
                "Name the kubelets' version with --kubelet-version, or let Prometheus scrape them"
                " (kubernetes_build_info)"
            )
        if verdict is Decision.NO_GO:
            yield "Leave Evented PLEG off on the nodes of each version that is a NO-GO"
        else:
            yield from _by_issues(fleet)
        return
    if fleet.span.seconds < standard.seconds:
        yield f"Choose a --window of at least {duration(standard.seconds)}"
        return
    yield "Let shadow-pleg run, and repeat this report when there is more to judge"


def _by_issues(fleet: Fleet) -> Iterator[str]:
    """One step for what has the same remedy."""
    remedies: dict[str, list[str]] = {}
    for row in fleet.issues:
        remedies.setdefault(row.remedy, []).append(row.id)
    for remedy, ids in remedies.items():
        yield f"{remedy[0].upper()}{remedy[1:]}: {', '.join(ids)}"


def _by_faults(fleet: Fleet) -> Iterator[str]:
    if fleet.all.flapping:
        yield (
            "Find out why the stream ends on the nodes listed below, first in the runtime's log:"
            " docs/runbooks/ShadowPlegStreamDown.md"
        )
    if fleet.all.incidents["stalls"]:
        yield (
            "Find who holds the event stream up where it stands still:"
            " docs/runbooks/ShadowPlegStreamStalled.md"
        )
    if fleet.kubelets.configurations[Configuration.GATE_ONLY.value]:
        yield (
            "Let the runtimes announce events where only the kubelet asks for them, or turn its"
            " gate EventedPLEG off there: docs/kubelet.md"
        )
    if fleet.all.incidents["ghosts"]:
        yield (
            "Look at the nodes with ghosts listed below, and report them to the runtime's project:"
            " docs/runbooks/ShadowPlegGhostContainers.md"
        )
    if fleet.all.incidents["strays"]:
        yield (
            "Look at the nodes with strays listed below: docs/runbooks/ShadowPlegStrayContainers.md"
        )


def _by_stream(fleet: Fleet) -> Iterator[str]:
    streams = {group.stream for group in fleet.groups}
    if StreamKind.NONE.value in streams:
        yield "Upgrade runtimes without an event stream: docs/compatibility.md says which have one"
    if StreamKind.EXCLUSIVE.value in streams:
        yield "Upgrade to containerd 2 or CRI-O 1.33 where the stream is exclusive: docs/rollout.md"
    if StreamKind.FRAGILE.value in streams:
        yield "Upgrade CRI-O to 1.33 or later where the stream is fragile: docs/compatibility.md"
