"""The paths of all pages but the metrics, whose path is a setting: `serve` registers these.

And the conditions of a node that `serve` answers for and `condition` asks for.
"""

from enum import Enum
from typing import Final

# What node-problem-detector keeps of the first line that a plugin prints.
MOST_CHARACTERS: Final = 80


class Condition(Enum):
    """A condition of the node; the value is its type. True: a problem."""

    EVENTS_INCOMPLETE = "ContainerEventsIncomplete"
    STATE_STALE = "ContainerRuntimeStateStale"

    @property
    def path(self) -> str:
        """Where it is served."""
        return f"/condition/{self.value}"


STATUS: Final = "/"
LIVEZ: Final = "/livez"
READYZ: Final = "/readyz"
MISSES: Final = "/debug/misses"
STATIC: Final = "/static/"
NAME_PODS: Final = (STATUS, MISSES)
# They name no pod.
PROBES: Final = (LIVEZ, READYZ, *(each.path for each in Condition))
PAGES: Final = (*NAME_PODS, *PROBES)
# What begins with one of these is ours, whether or not there is such a page.
FOLDERS: Final = frozenset({"condition", "debug", "static"})


def is_taken(path: str) -> bool:
    """Whether a page is there, or might be in another release; with or without a slash at the end.

    `path`: absolute.
    """
    bare = path.rstrip("/") or STATUS
    return bare in PAGES or bare.split("/")[1] in FOLDERS
