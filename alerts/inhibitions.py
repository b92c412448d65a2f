"""Which alert silences which: one cause, one page.

Alertmanager holds a muted alert back for as long as the other one fires, so
its `group_wait` must be long enough for both to fire. An inhibited alert is
still shown by Prometheus and Alertmanager, as what it is: a symptom.
"""

from __future__ import annotations

from typing import Final

from alerts.entries import Inhibition, Level

INHIBITIONS: Final = (
    Inhibition(
        by=("ShadowPlegRelistStale",),
        muted=(
            *("ShadowPlegRelistFailing", "ShadowPlegRelistSlow", "ShadowPlegRelistStretched"),
            *("ShadowPlegStreamDown", "ShadowPlegStreamFlapping", "ShadowPlegStreamQuiet"),
            *("ShadowPlegDeliverySlow", "ShadowPlegDeliveryLate"),
        ),
        same=Level.NODE,
        why="The runtime does not answer at all.",
    ),
    Inhibition(
        by=("ShadowPlegRelistFailing",),
        muted=(
            *("ShadowPlegRelistSlow", "ShadowPlegRelistStretched"),
            *("ShadowPlegStreamDown", "ShadowPlegStreamFlapping"),
        ),
        same=Level.NODE,
        why="The runtime does not answer most of the time.",
    ),
    Inhibition(
        by=("ShadowPlegRelistSlow",),
        muted=("ShadowPlegRelistStretched",),
        same=Level.NODE,
        why="Relists are made less often because they are slow.",
    ),
    Inhibition(
        by=("ShadowPlegStreamDown",),
        muted=("ShadowPlegStreamFlapping",),
        same=Level.NODE,
        why="It flapped before it stayed down.",
    ),
    Inhibition(
        by=("ShadowPlegMissedExitsEventedKubelet", "ShadowPlegMissedExits"),
        muted=(
            *("ShadowPlegMissedEvents", "ShadowPlegEventGaps", "ShadowPlegStreamQuiet"),
            "ShadowPlegRuntimeDrops",
        ),
        same=Level.NODE,
        why="What loses exits loses other events, too.",
    ),
    Inhibition(
        by=("ShadowPlegMissedEvents",),
        muted=("ShadowPlegEventGaps", "ShadowPlegStreamQuiet", "ShadowPlegRuntimeDrops"),
        same=Level.NODE,
        why="The same losses, seen in other ways.",
    ),
    Inhibition(
        by=("ShadowPlegMissedExitsEventedKubelet",),
        muted=("ShadowPlegBudgetBurnFast", "ShadowPlegBudgetBurnSlow"),
        same=Level.CLUSTER,
        why="A page has been sent for these losses already.",
    ),
    Inhibition(
        by=("ShadowPlegBudgetBurnFast",),
        muted=(
            *("ShadowPlegBudgetBurnSlow", "ShadowPlegMissedExits", "ShadowPlegMissedEvents"),
            *("ShadowPlegEventGaps", "ShadowPlegStreamQuiet", "ShadowPlegRuntimeDrops"),
        ),
        same=Level.CLUSTER,
        why="The cluster loses so much that a ticket for each node adds nothing.",
    ),
    Inhibition(
        by=("ShadowPlegMissedExits", "ShadowPlegMissedEvents"),
        muted=("ShadowPlegBudgetBurnSlow",),
        same=Level.CLUSTER,
        why="There is a ticket for each node that burns the budget.",
    ),
    Inhibition(
        by=("ShadowPlegDeliverySlow",),
        muted=("ShadowPlegDeliveryLate",),
        same=Level.NODE,
        why="Late is the worst of slow.",
    ),
    Inhibition(
        by=("ShadowPlegEventLoopLag",),
        muted=(
            *("ShadowPlegDeliverySlow", "ShadowPlegDeliveryLate", "ShadowPlegEventsDiscarded"),
            *("ShadowPlegRelistSlow", "ShadowPlegRelistStretched", "ShadowPlegStreamFlapping"),
        ),
        same=Level.NODE,
        why="The observer is slow, not what it observes.",
    ),
    Inhibition(
        by=("ShadowPlegExporterRestarting",),
        muted=("ShadowPlegExporterDown", "ShadowPlegStreamDown", "ShadowPlegStreamFlapping"),
        same=Level.NODE,
        why="A process that has just restarted has no stream yet.",
    ),
    Inhibition(
        by=("ShadowPlegExportersGone",),
        muted=(
            *("ShadowPlegExporterDown", "ShadowPlegExporterMissing"),
            "ShadowPlegExporterRestarting",
        ),
        same=Level.CLUSTER,
        why="All of them are gone: one page, not one for each node.",
    ),
    Inhibition(
        by=("ShadowPlegGateWithoutEvents", "ShadowPlegGateUnsupported"),
        muted=("ShadowPlegStreamDisabled", "ShadowPlegStreamUnsupported"),
        same=Level.NODE,
        why="A missing stream that the kubelet relies on says more than a missing stream.",
    ),
)
