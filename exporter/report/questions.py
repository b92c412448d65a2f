"""PromQL of what decides beside the losses: what events would gain here, what they risk and need.

Each query is about the whole fleet, like those of `queries`. Several numbers share an answer, told
apart by the label `what`.
"""

from typing import Final

from exporter.report.queries import MOST_NAMED, Queries, by, labelled, select
from exporter.report.sources import Metric

# What `incidents` answers.
INCIDENTS: Final = ("ghosts", "strays", "stalls", "ends", "kernel")


class Questions(Queries):
    """All queries about one span."""

    __slots__ = ()

    def incidents(self) -> str:
        """Ghosts, strays, stalls and ends of the stream, and nodes with a kernel witness."""
        kernel = f"max_over_time({select(self.source.kernel, self.selector)}{self._window})"
        numbers = {what: self._increase(metric) for what, metric in self._counted().items()}
        numbers["kernel"] = f"max {by(*self.labels)} ({kernel}) > 0"
        return self._by_runtime(f"\n{labelled(numbers)}\n", "what")

    def mislisted(self) -> str:
        """The nodes with most ghosts, and those with most strays, with their runtimes."""
        numbers = {
            what: f"topk({MOST_NAMED}, round({self._increase(metric)}) > 0)"
            for what, metric in self._counted().items()
            if what in ("ghosts", "strays")
        }
        return self._with_runtime(f"\n{labelled(numbers)}\n")

    def _counted(self) -> dict[str, Metric]:
        source = self.source
        return {
            "ghosts": source.ghosts,
            "strays": source.strays,
            "stalls": source.stalls,
            "ends": source.disconnects,
        }
