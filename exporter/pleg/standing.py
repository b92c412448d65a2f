"""The one rule by which witnesses are found to contradict each other.

They notice things at different times, and a list may be wrong once. So a contradiction stands once
`LISTS` relists in a row show it that were requested later than its patience after it began: when
the other witness said what they deny, else with the first of them. What does not show it ends it.
"""

from dataclasses import dataclass
from typing import Final

from exporter.model.findings import Verdict

LISTS: Final = 2
# Seconds. The kubelet may be so far behind: on a real one, amid many crashes, the slowest status
# took 9 s. Lists and kernel have the grace, announcements 0: the lists show it before they come.
KUBELETS: Final = 30.0


@dataclass(slots=True)
class Standing:
    """One contradiction, `of` a verdict. `lists`: how many count against it."""

    of: Verdict
    since: float
    patience: float
    lists: int = 0

    @property
    def verdict(self) -> Verdict | None:
        """The verdict while it stands."""
        return self.of if self.lists >= LISTS else None

    def shown(self, requested: float) -> bool:
        """A relist shows it; True if it stands from this one on."""
        self.lists += requested > self.since + self.patience
        return self.lists == LISTS
