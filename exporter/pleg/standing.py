"""When a contradiction between witnesses counts: once it stands.

Witnesses notice things at different times, and a list may be wrong once. So a contradiction stands
once `LISTS` relists in a row show it, all requested later than its beginning plus its patience. It
begins when the other witness reports what the lists deny, else with the first list that shows it.
"""

from dataclasses import dataclass
from typing import Final

from exporter.model.findings import Verdict

LISTS: Final = 2
# The kubelet's patience in seconds: on a real node, amid many crashes, its slowest status took 9 s.
# Lists and kernel have the grace; announcements 0, because lists show a state before its event.
KUBELETS: Final = 30.0


@dataclass(slots=True)
class Standing:
    """One contradiction of that `kind`, until a list does not show it: then its owner drops it."""

    kind: Verdict
    since: float
    patience: float
    lists: int = 0

    @property
    def verdict(self) -> Verdict | None:
        """The verdict while the contradiction stands, else None."""
        return self.kind if self.lists >= LISTS else None

    def shown(self, requested: float) -> bool:
        """Count a relist that shows the contradiction; True if it stands from this one on."""
        self.lists += requested > self.since + self.patience
        return self.lists == LISTS
