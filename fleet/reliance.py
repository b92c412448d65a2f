"""What it means to kubelets that something goes wrong, and what is broken in them by itself.

Pure. Versions are counted by kubelet's version; an empty count means that none is known.
"""

from collections import Counter
from typing import Final

from exporter.runtimes.known import KNOWN_ISSUES
from exporter.runtimes.kubelets import GENERATIONS, LAST_TRUSTING, generation_of
from exporter.runtimes.runtime import KnownIssue

# Of kubelets that are not known.
_LONGEST_PAUSE: Final = max(each.relist_seconds for each in GENERATIONS)
# As which one of them is judged: the newest that trusts events.
_STRANGER: Final = f"v{LAST_TRUSTING}.0"
_TRUSTED: Final = (
    "events replace relists, so what is lost or held back goes unnoticed for up to {:g} s"
)
_HINT: Final = "it relists in any case, and notices within {:g} s, so that does not decide"


def decides(versions: Counter[str]) -> bool:
    """Whether more losses than the objective allows are a NO-GO: one of these kubelets trusts."""
    return is_unknown(versions) or any(
        each.trusts for version in versions if (each := generation_of(version))
    )


def is_unknown(versions: Counter[str]) -> bool:
    """Whether one of them is not known."""
    return not versions or any(generation_of(each) is None for each in versions)


def pause(versions: Counter[str]) -> float:
    """The longest time between two relists of these kubelets, in seconds."""
    if is_unknown(versions):
        return _LONGEST_PAUSE
    return max(each.relist_seconds for version in versions if (each := generation_of(version)))


def why(versions: Counter[str]) -> str:
    """Whose kubelet decides that, and why."""
    if is_unknown(versions):
        said = f"{_TRUSTED.format(pause(versions))} (name it with --kubelet-version)"
        return f"kubelet of unknown version: judged as up to {LAST_TRUSTING}, where {said}"
    trusting, found = decides(versions), set(map(generation_of, versions))
    those = [each for each in GENERATIONS if each in found and each.trusts == trusting]
    names = ", ".join(each.name for each in those)
    return f"kubelet {names}: {(_TRUSTED if trusting else _HINT).format(pause(versions))}"


def issues(name: str, version: str, versions: Counter[str], nodes: int) -> dict[KnownIssue, int]:
    """On how many of the nodes with that runtime each known bug is to be met; the table's order."""
    kubelets = Counter[str]()
    for each, number in (versions or {_STRANGER: nodes}).items():
        kubelets[each if generation_of(each) else _STRANGER] += number
    found = {
        row: sum(number * row.covers(name, version, each) for each, number in kubelets.items())
        if row.kubelets is not None
        else nodes * row.covers(name, version, _STRANGER)
        for row in KNOWN_ISSUES
    }
    return {row: number for row, number in found.items() if number}
