"""What it means to kubelets that something goes wrong, and what is broken in them by itself.

Pure. Versions are counted by kubelet's version; an empty count means that none is known.
"""

from collections import Counter
from typing import Final

from exporter.runtimes.known import KNOWN_ISSUES, known_issues
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
    return _trusting(versions) or not versions


def why(versions: Counter[str]) -> str:
    """Whose kubelet decides that, and why."""
    found = {each: generation_of(each) for each in versions}
    if not versions or None in found.values():
        said = f"{_TRUSTED.format(pause(versions))} (name it with --kubelet-version)"
        return f"kubelet of unknown version: judged as up to {LAST_TRUSTING}, where {said}"
    trusting = _trusting(versions)
    names = ", ".join(
        each.name
        for each in GENERATIONS
        if each in found.values() and (each.trusts or not trusting)
    )
    return f"kubelet {names}: {(_TRUSTED if trusting else _HINT).format(pause(versions))}"


def pause(versions: Counter[str]) -> float:
    """The longest time between two relists of these kubelets, in seconds."""
    found = [generation_of(each) for each in versions]
    return max(
        (each.relist_seconds if each else _LONGEST_PAUSE for each in found), default=_LONGEST_PAUSE
    )


def issues(name: str, version: str, versions: Counter[str]) -> tuple[KnownIssue, ...]:
    """Known issues of a runtime's version beside these kubelets, in the table's order."""
    judged = [each if generation_of(each) else _STRANGER for each in versions or (_STRANGER,)]
    found = {row for each in judged for row in known_issues(name, version, each)}
    return tuple(row for row in KNOWN_ISSUES if row in found)


def affected(row: KnownIssue, name: str, version: str, versions: Counter[str], nodes: int) -> int:
    """On how many of the nodes with that runtime, whose kubelets these are, it is to be met."""
    if row.kubelets is None or not versions:
        return nodes * row.covers(name, version, _STRANGER)
    return sum(
        number
        for each, number in versions.items()
        if row.covers(name, version, each if generation_of(each) else _STRANGER)
    )


def is_unknown(versions: Counter[str]) -> bool:
    """Whether one of them is not known."""
    return not versions or any(generation_of(each) is None for each in versions)


def _trusting(versions: Counter[str]) -> bool:
    generations = [generation_of(each) for each in versions]
    return any(each is None or each.trusts for each in generations)
