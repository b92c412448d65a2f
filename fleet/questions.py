"""PromQL of what decides beside the losses: what events would gain here, what they risk and need.

Each query is about the whole fleet, like those of `queries`. Several numbers share an answer, told
apart by the label `what`.
"""

from typing import Final

from exporter.pleg.findings import Cause
from fleet.queries import (
    EXITS,
    MOST_NAMED,
    OTHERS,
    RUNTIME_LABELS,
    Queries,
    by,
    labelled,
    select,
)
from fleet.sources import SCRAPED, Metric

# Quantiles of the time from exit to notice.
SHARES: Final = (0.5, 0.99)

_LATELY: Final = "[1h]"


class Questions(Queries):
    """All queries about one span."""

    __slots__ = ()

    def first_sight(self) -> str:
        """Unix time of the first scrape of any process in the slice before now, to a minute."""
        seen = f"timestamp({select(self.source.present, self.selector)})"
        return f"min(min_over_time({seen}[{self.span.step}s:1m]))"

    def incidents(self) -> str:
        """Ghosts, strays, events, stalls and ends of the stream; nodes with a kernel witness."""
        numbers = {what: self._increase(metric) for what, metric in self._counted().items()}
        numbers["kernel"] = self._with_kernel()
        return self._by_runtime(f"\n{labelled(numbers)}\n", "what")

    def mislisted(self) -> str:
        """The nodes with most ghosts, and those with most strays, with their runtimes."""
        numbers = {
            what: f"topk({MOST_NAMED}, round({self._increase(metric)}) > 0)"
            for what, metric in self._counted().items()
            if what in ("ghosts", "strays")
        }
        return self._with_runtime(f"\n{labelled(numbers)}\n")

    def delays(self, metric: Metric) -> str:
        """How many exits took no longer than each bound of a histogram, by runtime."""
        return self._by_runtime(self._increase(metric, per=("le",)), "le")

    def quantile(self, metric: Metric, share: float) -> str:
        """The same of the whole fleet, as one number."""
        buckets = f"increase({select(metric, self.selector)}{self._window})"
        return f"histogram_quantile({share}, sum by (le) ({buckets}))"

    def kubelets(self) -> str:
        """Nodes by version of the kubelet and by configuration, and what did not reach kubelets.

        Versions by runtime, too, where the node was seen.
        """
        return labelled(self._of_kubelets())

    def _of_kubelets(self) -> dict[str, str]:
        kubelet = f"{select(SCRAPED.kubelet, self.kubelet_selector)}{_LATELY}"
        build = f"{select(self.source.kubelet_build, self.kubelet_selector)}{_LATELY}"
        processes = ", ".join(dict.fromkeys((*self.labels, "instance", "job")))
        mine = f"(last_over_time({build}) and on ({processes}) last_over_time({kubelet}))"
        each = f"group {by(*self.labels, 'git_version')} ({mine})"
        state = f"last_over_time({select(self.source.configuration, self.selector)}{_LATELY})"
        states = f"group {by(*self.labels, 'state')} ({state} == 1)"
        numbers = {"configurations": f"count by (state) ({states})"}
        if self.with_kubelets:
            known, versions = f"({each} and {self._clusters()})", ("git_version", *RUNTIME_LABELS)
            unseen = f"{known} unless {self._on} {self._seen_nodes()}"
            numbers["versions"] = (
                f"(count {by(*versions)} ({self._with_runtime(known)})"
                f" or count by (git_version) ({unseen}))"
            )
        source = self.source
        for what, metric in (("missed", source.kubelet_missed), ("unusable", source.unusable)):
            if metric is not None:
                numbers[what] = f"sum(round({self._increase(metric)}))"
        return numbers

    def asked(self) -> tuple[tuple[str, str], ...]:
        """What gives each number at the end of the window, by the number's name."""
        source, cause = self.source, 'cause="{}"'
        counted = {"transitions": source.lifecycle, "late": source.late}
        counted |= {"undecided": source.undecided, **self._counted()}
        found = {name: f"sum({self._increase(metric)})" for name, metric in counted.items()}
        for each in Cause:
            missed = self._increase(source.missed, cause.format(each.value))
            found[each.value] = f"sum({missed})"
        found |= {
            "nodes": f"count({self._seen_nodes()})",
            "judged_exits": f"sum({self.judged_by_node(EXITS)})",
            "judged_others": f"sum({self.judged_by_node(OTHERS)})",
            "lost_exits": f"sum({self.lost_by_node(EXITS)})",
            "lost_others": f"sum({self.lost_by_node(OTHERS)})",
            "flapping": f"count({self._flapping()})",
            "streaming_hours": f"sum({self._sliced('sum', self._streaming())})"
            f" * {self.span.step} / 3600",
            "kernel_nodes": f"count({self._with_kernel()})",
        }
        every = 'le="+Inf"'
        for name, metric in (("event", source.exit_to_event), ("list", source.exit_to_list)):
            found[f"{name}_exits"] = f"sum({self._increase(metric, every)})"
            found |= {
                f"{name}_p{share * 100:.0f}": self.quantile(metric, share) for share in SHARES
            }
            found[f"{name}_by_runtime"] = self.delays(metric)
        found |= {f"kubelets_{name}": expr for name, expr in self._of_kubelets().items()}
        found |= {
            "nodes_by_runtime": self.nodes(),
            "judged_exits_by_runtime": self.judged(EXITS),
            "judged_others_by_runtime": self.judged(OTHERS),
            "missed_by_runtime": self.missed(),
            "late_by_runtime": self.late(),
            "undecided_by_runtime": self.undecided(),
        }
        return tuple(found.items())

    def _with_kernel(self) -> str:
        """The nodes on which the kernel was a witness at some time."""
        kernel = f"max_over_time({select(self.source.kernel, self.selector)}{self._window})"
        return f"max {by(*self.labels)} ({kernel}) > 0"

    def _counted(self) -> dict[str, Metric]:
        source = self.source
        return {
            "ghosts": source.ghosts,
            "strays": source.strays,
            "stalls": source.stalls,
            "ends": source.disconnects,
            "received": source.received,
        }
