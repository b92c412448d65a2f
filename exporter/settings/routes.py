"""The paths of all pages but the metrics, whose path is a setting: `serve` registers these."""

from typing import Final

from exporter.conditions.condition import NodeCondition

# What node-problem-detector keeps of the first line that a plugin prints.
MOST_CHARACTERS: Final = 80


STATUS: Final = "/"
LIVEZ: Final = "/livez"
READYZ: Final = "/readyz"
MISSES: Final = "/debug/misses"
STATIC: Final = "/static/"
NAME_PODS: Final = (STATUS, MISSES)
# They name no pod.
PROBES: Final = (LIVEZ, READYZ, *(each.path for each in NodeCondition))
PAGES: Final = (*NAME_PODS, *PROBES)
# What begins with one of these is ours, whether or not there is such a page.
FOLDERS: Final = frozenset({"condition", "debug", "static"})


def is_taken(path: str) -> bool:
    """Whether a page is there, or might be in another release; with or without a slash at the end.

    `path`: absolute.
    """
    bare = path.rstrip("/") or STATUS
    return bare in PAGES or bare.split("/")[1] in FOLDERS
