"""What a lost event and an ended stream cost each generation of kubelet, in words."""

from collections import Counter
from dataclasses import dataclass

from exporter.pleg.kubelets import GENERATIONS, REWRITE, Generation, generation_of
from exporter.report.fleet import Kubelets


@dataclass(frozen=True, slots=True)
class Cost:
    """One generation, and the nodes that run it; None: not known of any node."""

    generation: Generation
    nodes: int | None

    @property
    def loss(self) -> str:
        """Of a lost event on which it would have acted."""
        return f"noticed by the next relist, up to {self.generation.relist_seconds:g} s later"

    @property
    def outage(self) -> str:
        """Of a stream that ends, or stands still."""
        most, relists = self.generation.most_errors, self.generation.relist_seconds
        if most is None:
            pause = f"within {self.generation.retry_seconds:g} s"
            return f"it subscribes again {pause}, for ever; until then relists, {relists:g} s apart"
        return (
            f"it subscribes again at once; after {most} errors it uses events no more until it is"
            " restarted. A stall is no error: until it ends, changes wait for relists,"
            f" {relists:g} s apart"
        )


def costs(kubelets: Kubelets) -> tuple[tuple[Cost, ...], int]:
    """The generations of this fleet, or all if none is known; and the nodes of unknown versions."""
    found: Counter[Generation | None] = Counter()
    for version, nodes in kubelets.versions.items():
        found[generation_of(version)] += nodes
    known = tuple(Cost(each, found[each]) for each in GENERATIONS if found[each])
    every = tuple(Cost(each, None) for each in (*GENERATIONS, REWRITE))
    return known or every, found[None]
