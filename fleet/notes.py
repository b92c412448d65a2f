"""What a report says beside its verdict: what to do next, and what must not be overlooked."""

from typing import Final

from exporter.conditions.catalogue import BY_NAME
from exporter.conditions.condition import Weighs
from exporter.model.findings import Cause
from exporter.model.labels import OomKill
from fleet.fleet import Fleet
from fleet.reliance import is_unknown, pause
from fleet.verdict import ENOUGH, Decision, Judgement, flaps, found
from fleet.words import in_nodes, templates
from promql.series import FLAPS, REPORTED

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
    """What must not be overlooked, in words."""
    every = fleet.all
    text = templates().get_template("notes.txt")
    said = text.render(
        fleet=fleet,
        span=fleet.span,
        every=every,
        counts=every.counts,
        missed={cause.value: every.of(cause) for cause in Cause},
        came=every.of(Cause.STALLED) - every.lost(Cause.STALLED),
        kills={kind.value: every.counts[kind.value] for kind in OomKill},
        pause=pause(fleet.kubelets),
        flaps=flaps(every),
        most_errors=FLAPS,
        enough=ENOUGH,
        strangers=any(is_unknown(each.kubelets) for each in fleet.groups if each.version),
        undecided=[
            f"{row.stops}: {found(every, name)}"
            for name, row in REPORTED.items()
            if row.weighs is Weighs.GATED and every.held[name] > every.gated[name]
        ],
        no_events=BY_NAME["no_events"],
    )
    return (*said.splitlines(), *fleet.notes)
