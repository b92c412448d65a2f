"""The conditions of a node that `serve` answers for and `condition` asks for."""

from enum import Enum
from typing import Final

# What node-problem-detector keeps of the first line that a plugin prints.
MOST_CHARACTERS: Final = 80


class Condition(Enum):
    """A condition of the node that `serve` answers for; the value is its type. True: a problem."""

    EVENTS_INCOMPLETE = "ContainerEventsIncomplete"
    STATE_STALE = "ContainerRuntimeStateStale"

    @property
    def path(self) -> str:
        """Where it is served."""
        return f"/condition/{self.value}"
