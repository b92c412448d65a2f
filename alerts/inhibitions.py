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
        muted=("ShadowPlegRelistSlow", "ShadowPlegStreamDown", "ShadowPlegExitsAnnouncedLate"),
        same=Level.NODE,
        why="The runtime does not answer at all.",
    ),
    Inhibition(
        by=("ShadowPlegStreamStalled",),
        muted=("ShadowPlegMissedEvents",),
        same=Level.NODE,
        why="A stalled stream loses events, too.",
        alike=True,
    ),
    Inhibition(
        by=("ShadowPlegStreamStalled",),
        muted=("ShadowPlegExitsAnnouncedLate",),
        same=Level.NODE,
        why="A stalled stream announces late.",
    ),
    Inhibition(
        by=("ShadowPlegMissedEvents", "ShadowPlegStreamStalled"),
        muted=("ShadowPlegBudgetBurn",),
        same=Level.CLUSTER,
        why="These losses have already paged somebody.",
        alike=True,
    ),
)
