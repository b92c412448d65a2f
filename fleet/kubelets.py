"""What goes wrong costs each generation of kubelet, its weight, and what is broken by itself.

Pure. Versions are counted by kubelet's version; an empty count means that none is known.
"""

from collections import Counter
from dataclasses import dataclass
from enum import Enum
from typing import Final

from exporter.pleg.known_issues import KNOWN_ISSUES, KnownIssue, known_issues
from exporter.pleg.kubelets import GENERATIONS, REWRITE, ActsOn, Generation, generation_of

# Of kubelets that are not known.
_LONGEST_PAUSE: Final = max(each.relist_seconds for each in GENERATIONS)
# As which one of them is judged: the newest that trusts events.
_STRANGER: Final = "v1.36.0"


class Weight(Enum):
    """What it means that more goes wrong than the objective allows."""

    TOLD = "told"
    DECIDES = "NO-GO"


_HINT: Final = (
    Weight.TOLD,
    "it relists in any case, and notices within {pause:g} s, so that does not decide",
)
_TRUSTED: Final = (
    "events replace relists, so what is lost or held back goes unnoticed for up to {pause:g} s"
)
# The rule, with its reasons, by what a kubelet does with events; None: its version is not known.
WEIGHTS: Final = {
    ActsOn.ALL: (Weight.DECIDES, _TRUSTED),
    ActsOn.EXITS: _HINT,
    None: (
        Weight.DECIDES,
        f"judged as up to 1.36, where {_TRUSTED} (name it with --kubelet-version)",
    ),
}


@dataclass(frozen=True, slots=True)
class Cost:
    """One generation, and the nodes that run it; None: not known of any node."""

    generation: Generation
    nodes: int | None

    @property
    def weight(self) -> Weight:
        """Of what goes wrong more often than the objective allows."""
        return WEIGHTS[self.generation.acts_on][0]

    @property
    def loss(self) -> str:
        """Of a lost event on which it would have acted."""
        return f"noticed by the next relist, up to {self.generation.relist_seconds:g} s later"

    @property
    def outage(self) -> str:
        """Of a stream that ends."""
        most, relists = self.generation.most_errors, self.generation.relist_seconds
        if most is None:
            pause = f"within {self.generation.retry_seconds:g} s"
            return f"it subscribes again {pause}, for ever; until then relists, {relists:g} s apart"
        return (
            f"it subscribes again at once; after {most} errors it uses events no more until it is"
            " restarted"
        )

    @property
    def stall(self) -> str:
        """Of a stream that stands still."""
        relists = self.generation.relist_seconds
        return f"no error: until it ends, changes wait for relists, {relists:g} s apart"


def costs(versions: Counter[str]) -> tuple[tuple[Cost, ...], int]:
    """The generations of these kubelets, or all if none is known; and how many are unknown."""
    found = _generations(versions)
    known = tuple(Cost(each, found[each]) for each in GENERATIONS if found[each])
    every = tuple(Cost(each, None) for each in (*GENERATIONS, REWRITE))
    return known or every, found[None]


def weighed(versions: Counter[str]) -> tuple[Weight, str]:
    """The heaviest weight among these kubelets, with whose it is and why."""
    acts_on: dict[ActsOn | None, list[Generation]] = {}
    for each in _generations(versions) or (None,):
        acts_on.setdefault(each.acts_on if each else None, []).extend([each] if each else [])
    heaviest = max(acts_on, key=lambda each: WEIGHTS[each][0] is Weight.DECIDES)
    weight, reason = WEIGHTS[heaviest]
    names = ", ".join(each.name for each in acts_on[heaviest]) or "of unknown version"
    return weight, f"kubelet {names}: {reason.format(pause=pause(versions))}"


def pause(versions: Counter[str]) -> float:
    """The longest time between two relists of these kubelets, in seconds."""
    return max(
        (each.relist_seconds if each else _LONGEST_PAUSE for each in _generations(versions)),
        default=_LONGEST_PAUSE,
    )


def issues(name: str, version: str, versions: Counter[str]) -> tuple[KnownIssue, ...]:
    """Known issues of a runtime's version beside these kubelets, in the table's order."""
    judged = [each if generation_of(each) else _STRANGER for each in versions or (_STRANGER,)]
    found = {row for each in judged for row in known_issues(name, version, each)}
    return tuple(row for row in KNOWN_ISSUES if row in found)


def _generations(versions: Counter[str]) -> Counter[Generation | None]:
    found: Counter[Generation | None] = Counter()
    for version, nodes in versions.items():
        found[generation_of(version)] += nodes
    return found
