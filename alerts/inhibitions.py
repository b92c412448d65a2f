"""Which alert silences which: one cause, one page.

Alertmanager holds a muted alert back for as long as the other one fires, so
its `group_wait` must be long enough for both to fire. An inhibited alert is
still shown by Prometheus and Alertmanager, as what it is: a symptom.
"""

from __future__ import annotations

from typing import Final

from alerts.entries import Inhibition, Level

# Each alert of a node is held back while ShadowPlegManyNodes names it (`alerts.render`).
MANY: Final = "ShadowPlegManyNodes"
INHIBITIONS: Final = (
    Inhibition(
        by=("ShadowPlegRelistStale",),
        muted=(
            *("ShadowPlegRelistSlow", "ShadowPlegStreamDown", "ShadowPlegStreamStalled"),
            *("ShadowPlegDeliverySlow", "ShadowPlegExitsAnnouncedLate"),
        ),
        same=Level.NODE,
        why="The runtime does not answer at all.",
    ),
    Inhibition(
        by=("ShadowPlegMissedExitsEventedKubelet", "ShadowPlegMissedEvents"),
        muted=("ShadowPlegStreamStalled", "ShadowPlegRuntimeDrops"),
        same=Level.NODE,
        why="The same losses, seen in other ways.",
    ),
    Inhibition(
        by=("ShadowPlegMissedExitsEventedKubelet",),
        muted=("ShadowPlegMissedEvents",),
        same=Level.NODE,
        why="What loses exits loses other events, too.",
    ),
    Inhibition(
        by=("ShadowPlegMissedExitsEventedKubelet",),
        muted=("ShadowPlegBudgetBurnFast", "ShadowPlegBudgetBurnSlow"),
        same=Level.CLUSTER,
        why="Somebody was paged for these losses already.",
    ),
    Inhibition(
        by=("ShadowPlegBudgetBurnFast", "ShadowPlegMissedEvents"),
        muted=("ShadowPlegBudgetBurnSlow",),
        same=Level.CLUSTER,
        why="These losses have a page, or a ticket for each node.",
    ),
    Inhibition(
        by=("ShadowPlegStreamStalled",),
        muted=("ShadowPlegDeliverySlow", "ShadowPlegExitsAnnouncedLate"),
        same=Level.NODE,
        why="What a stream holds back arrives late.",
    ),
    Inhibition(
        by=("ShadowPlegDeliverySlow",),
        muted=("ShadowPlegExitsAnnouncedLate",),
        same=Level.NODE,
        why="What arrives late was announced in time.",
    ),
)
