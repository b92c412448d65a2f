"""What it means to kubelets that something goes wrong, and what is broken in them by itself.

Pure. Versions are counted by kubelet's version; an empty count means that none is known.
"""

from collections import Counter
from typing import Final

from exporter.runtimes.known import KNOWN_ISSUES
from exporter.runtimes.kubelets import GENERATIONS, LAST_TRUSTING, Generation, generation_of
from exporter.runtimes.runtime import KnownIssue

# As which one of those that are not known is judged: the newest that trusts events.
_STRANGER: Final = f"v{LAST_TRUSTING}.0"
_TRUSTED: Final = (
    "events replace relists, so what is lost or held back goes unnoticed for up to {:g} s"
)
_HINT: Final = "it relists in any case, and notices within {:g} s, so that does not decide"


def is_unknown(versions: Counter[str]) -> bool:
    """Whether one of them is not known."""
    return not versions or None in map(generation_of, versions)


def _generations(versions: Counter[str]) -> list[Generation]:
    """Those that they may be: any, where one is not known."""
    found = set(map(generation_of, versions))
    return [each for each in GENERATIONS if each in found or is_unknown(versions)]


def decides(versions: Counter[str]) -> bool:
    """Whether more losses than the objective allows are a NO-GO: one of these kubelets trusts."""
    return any(each.trusts for each in _generations(versions))


def pause(versions: Counter[str]) -> float:
    """The longest time between two relists of these kubelets, in seconds."""
    return max(each.relist_seconds for each in _generations(versions))


def why(versions: Counter[str]) -> str:
    """Whose kubelet decides that, and why."""
    trusting = decides(versions)
    said = (_TRUSTED if trusting else _HINT).format(pause(versions))
    if is_unknown(versions):
        judged = f"kubelet of unknown version: judged as up to {LAST_TRUSTING}, where {said}"
        return f"{judged} (name it with --kubelet-version)"
    names = ", ".join(each.name for each in _generations(versions) if each.trusts == trusting)
    return f"kubelet {names}: {said}"


def issues(name: str, version: str, versions: Counter[str], nodes: int) -> dict[KnownIssue, int]:
    """On how many of the nodes with that runtime each known bug is to be met; the table's order."""
    found = Counter[KnownIssue]()
    for kubelet, number in (versions or {_STRANGER: nodes}).items():
        judged = kubelet if generation_of(kubelet) else _STRANGER
        found.update({r: number for r in KNOWN_ISSUES if r.covers(name, version, judged)})
    return {row: found[row] if row.of_gate else nodes for row in KNOWN_ISSUES if found[row]}
