"""The paths of all pages except the metrics, whose path is a setting."""

from typing import Final

from exporter.conditions.condition import NodeCondition

# node-problem-detector keeps this much of a plugin's first line.
MOST_CHARACTERS: Final = 80

STATUS: Final = "/"
LIVEZ: Final = "/livez"
READYZ: Final = "/readyz"
MISSES: Final = "/debug/misses"
STATIC: Final = "/static/"
NAME_PODS: Final = (STATUS, MISSES)
# These pages name no pod.
PROBES: Final = (LIVEZ, READYZ, *(each.path for each in NodeCondition))
PAGES: Final = (*NAME_PODS, *PROBES)
# Paths below these folders are reserved, whether or not there is such a page.
FOLDERS: Final = frozenset({"condition", "debug", "static"})


def is_taken(path: str) -> bool:
    """Whether an absolute path belongs to a page or is reserved; a trailing slash is ignored."""
    bare = path.rstrip("/") or STATUS
    return bare in PAGES or bare.split("/")[1] in FOLDERS
