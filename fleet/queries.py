"""PromQL: every query of a report, each about the whole fleet.

Answers do not grow with the number of nodes: Prometheus does the aggregation. Several numbers share
an answer, distinguished by the label `what`.

Counters are read with increase() over the whole window, per process, before they are summed, so
restarts and resets do not distort them. The denominator is the exception: it must exclude the time
in which losses could not be seen, so it is summed from slices of the window. A slice loses what
happens between its last scrape and the first scrape of the next slice, and increase() adds as much
on average: good enough for many transitions, too coarse for a single miss.
"""

from dataclasses import dataclass
from typing import Final

from fleet.request import Span
from promql import series
from promql.text import by, by_kubelet, join, label, labelled, moved, never_came, only_one, select

MOST_NAMED: Final = 10
UNKNOWN: Final = "unknown"
SEVERAL: Final = "several"
_LATELY: Final = "[1h]"


@dataclass(frozen=True, slots=True)
class Queries:
    """The queries about one span."""

    span: Span
    # What identifies nodes; the node's own label is the last.
    labels: tuple[str, ...]
    selector: str = ""
    kubelet_selector: str = ""
    # So many nodes must be streaming at once for their time to count.
    together: int = 1
    # False if the labels differ on kubelets.
    with_kubelets: bool = True
    # Whether to read what the recording rules keep.
    recorded: bool = False

    def asked(self) -> dict[str, str]:
        """What a report is made of, by name; each at the end of the span."""
        events = (series.LIFECYCLE, series.MISSED, series.LATE)
        kept = (*events, series.EXIT_TO_EVENT, series.EXIT_TO_LIST)
        asked = {
            "coverage": self._coverage(),
            "nodes": f"count {by(*series.RUNTIME_LABELS)} ({self._runtimes()})",
            **{each.name: self._by_runtime(self._increase(each), *each.by) for each in kept},
            "judged_exits": self._judged(series.EXITS),
            "judged_others": self._judged(series.OTHERS),
            "counts": self._counts(),
            "conditions": self._conditions(),
            "named": self._named(),
        }
        if self.with_kubelets:
            asked |= {"kubelets": self._kubelets_now(), "statuses": self._statuses()}
        return asked

    def both(self) -> str:
        """Number of targets scraped and recorded, at both ends of the window."""
        numbers = {}
        for what, name in (("scraped", series.PRESENT), ("recorded", series.UNDECIDED.recorded)):
            here = select(name, self.selector)
            numbers[f"{what}_first"] = f"count({here} @ {self.span.start})"
            numbers[f"{what}_last"] = f"count({here} @ {self.span.end})"
        return labelled(numbers)

    def processes(self) -> str:
        """Number of targets, and how many of them have the node's own label."""
        named = self._scraped(f'{self.labels[-1]}!=""')
        each = {"all": self._scraped(), "named": named}
        return labelled({name: f"count({self._ever(found)})" for name, found in each.items()})

    def first_sight(self) -> str:
        """Unix time of the first scrape of any process in the slice before now, to a minute."""
        seen = f"timestamp({self._scraped()})"
        return f"min(min_over_time({seen}[{self.span.step}s:1m]))"

    def _counts(self) -> str:
        """All that needs no label but `what`, by runtime: numbers of nodes, what happened."""
        kernel = f"max_over_time({self._select(series.KERNEL)}{self._window})"
        found = {
            "undecided": self._increase(series.UNDECIDED),
            "received": self._increase(series.RECEIVED),
            "stream_ends": self._increase(series.ENDS),
            "stream_stalls": self._increase(series.STALLS),
            "gaps": self._increase(series.GAPS),
            "flapping": f"{self._flapping()} ^ 0",
            "kernel_nodes": f"max {self._by} ({kernel}) > 0",
        }
        if self.with_kubelets:
            found["gate_on"] = self._gate_on()
        kinds = "".join(
            f"or {moved(f'{self._increase(kept)} > 0', *kept.by)}\n"
            for kept in (series.FLAWED, series.CONTRADICTED, series.OOM_KILLS)
        )
        return self._by_runtime(f"\n{labelled(found)}\n{kinds}", "what")

    def _conditions(self) -> str:
        """By runtime and condition: on how many nodes it held, and for what shares of their time.

        `gated`: of these nodes, those whose kubelet's gate is on.
        """
        # A share of five minutes is not 0 or 1.
        held = f"({self._lasting()} ^ 0)"
        numbers = {"held": held, "lasted": self._lasting()}
        if self.with_kubelets:
            numbers["gated"] = f"{held} and {self._on} {self._gate_on()}"
        return self._by_runtime(f"\n{labelled(numbers)}\n", "what", "condition")

    def _lasting(self) -> str:
        """For what share of the time that a node was seen a condition held there, if it did."""
        condition = f"{self._select(series.HELD)}{self._window}"
        held = f"sum {by(*self.labels, 'condition')} (sum_over_time({condition}))"
        seen = f"sum {self._by} (count_over_time({self._select(series.UP)}{self._window}))"
        return f"({held} / {self._on} group_left () {seen} > 0)"

    def _judged(self, of: str) -> str:
        """Transitions whose loss would have been counted, by runtime: EXITS or OTHERS.

        Those witnessed while losses could be seen, without misses that have an excuse. Two
        questions, because one by event would hold four times as many samples at once.
        """
        span = f"[{self.span.step}s]"
        each = f"sum {self._by} (increase({self._select(series.LIFECYCLE, of)}{span}))"
        silence = f"max {self._by} (max_over_time({self._select(series.UNSUBSCRIBED)}{span})) > 0"
        kinds = f'stream=~"{"|".join(series.UNMEASURED)}"'
        shared = f"present_over_time({self._select(series.RUNTIME, kinds)}{span})"
        blind = f"({silence} or group {self._by} ({shared}))"
        seen = self._sliced("sum", f"({each} unless {self._on} {blind})")
        missed = f"increase({self._select(series.MISSED, series.EXCUSED, of)}{self._window})"
        excused = f"sum {self._by} ({missed})"
        return self._by_runtime(f"clamp_min({seen} - {self._on} {excused}, 0)")

    def _named(self) -> str:
        """At most ten nodes of each kind to look at, with their runtimes: `what` says why."""
        labels, open_stream = (*self.labels, "event", "cause"), series.IN_OPEN_STREAM
        missed, late = (
            f"sum {by(*labels)} (increase({self._select(each, open_stream)}{self._window}))"
            for each in (series.MISSED, series.LATE)
        )
        slices = self._sliced("count", self._present())
        share = f"{self._sliced('sum', self._share(series.UP))} / {self._on} {slices}"
        numbers = {"lost": f"sum {self._by} ({never_came(missed, late)})", "ends": self._flapping()}
        found = {
            what: f"topk({MOST_NAMED}, round({expr}) > 0)" for what, expr in numbers.items()
        } | {"listened": f"bottomk({MOST_NAMED}, {share} < 0.99)"}
        conditions = moved(f"topk by (condition) ({MOST_NAMED}, {self._lasting()})", "condition")
        known = self._with_runtime(f"\n{labelled(found)}\n or {conditions}\n")
        if not self.with_kubelets:
            return known
        unwatched = f"topk({MOST_NAMED}, {self._unwatched()})"
        return f"{known} or {label(unwatched, 'what', 'unwatched')}"

    def _coverage(self) -> str:
        """Numbers of nodes and node-slices; those of nodes that streamed are by runtime."""
        here, streaming = self._present(), self._share(series.UP)
        at = f"timestamp({here})"
        together = f"(count({streaming} > 0.5) >= {self.together})"
        numbers = {
            "seen": f"count({self._seen_nodes()})",
            "now": f"count({here})",
            "lived": f"sum({self._sliced('max', at)} - {self._sliced('min', at)})"
            f" / {self.span.step} + count({self._sliced('count', here)})",
            "streaming": self._by_runtime(self._sliced("sum", streaming)),
            "together": self._sliced("count", together),
            "first": f"min({self._sliced('min', at)})",
        }
        if self.with_kubelets:
            kubelets, kubelet = self._kubelets(), self._kubelet()
            beside = self._sliced("sum", f"({streaming} and {self._on} {kubelet})")
            present = self._sliced("count", kubelet)
            numbers |= {
                "kubelets": f"count({kubelets})",
                "unwatched": f"count({self._unwatched()})",
                "kubelet_present": f"sum({present} and {self._on} {kubelets})",
                "kubelet_streaming": f"sum({beside})",
            }
        return labelled(numbers)

    def _kubelets_now(self) -> str:
        """Nodes by version of the kubelet: by runtime, too, where seen.

        And what their relists took in the window, of a node on average.
        """
        kubelet = f"{select(series.KUBELET, self.kubelet_selector)}{_LATELY}"
        build = f"{select(series.KUBELET_BUILD, self.kubelet_selector)}{_LATELY}"
        processes = join(*dict.fromkeys((*self.labels, "instance", "job")))
        mine = f"(last_over_time({build}) and on ({processes}) last_over_time({kubelet}))"
        each = f"group {by(*self.labels, 'git_version')} ({mine})"
        known = f"({each} and {self._clusters()})"
        versions = ("git_version", *series.RUNTIME_LABELS)
        unseen = f"{known} unless {self._on} {self._seen_nodes()}"
        numbers = {
            "versions": f"(count {by(*versions)} ({self._with_runtime(known)})"
            f" or count by (git_version) ({unseen}))"
        }
        for what, how in (("seconds", "sum"), ("relists", "count")):
            took = select(f"{series.POLLING}_{how}", self.kubelet_selector)
            each = f"sum {self._by} (increase({took}{self._window}))"
            numbers[what] = f"avg({each} and {self._clusters()})"
        return labelled(numbers)

    def _statuses(self) -> str:
        """Exits by how late they were shown, by kubelet; `what`: by whom.

        Without a bound: contradictions, by kind.
        """
        build = f"{select(series.KUBELET_BUILD, self.kubelet_selector)}{_LATELY}"
        last = f"last_over_time({build})", self._gates()
        delays = (series.EXIT_TO_EVENT, series.EXIT_TO_STATUS, series.EVENT_TO_STATUS)
        numbers = {
            each.name: by_kubelet(self._increase(each), *last, join(*self.labels), *each.by)
            for each in (*delays, series.CONTRADICTED)
        }
        return labelled(numbers)

    def _gates(self) -> str:
        gate = select(series.KUBELET_FEATURES, self.kubelet_selector, series.KUBELET_GATE)
        return f"last_over_time({gate}{_LATELY})"

    def _gate_on(self) -> str:
        """1 for each node whose kubelet's gate is on at the end."""
        return f"group {self._by} ({self._gates()} == 1)"

    @property
    def _by(self) -> str:
        return by(*self.labels)

    @property
    def _on(self) -> str:
        return f"on ({join(*self.labels)})"

    @property
    def _window(self) -> str:
        return f"[{self.span.seconds}s]"

    def _select(self, kept: series.Kept, *matchers: str) -> str:
        return kept.select(self.selector, *matchers, recorded=self.recorded)

    def _scraped(self, *matchers: str) -> str:
        """A series wherever a process was scraped."""
        name = series.UNDECIDED.recorded if self.recorded else series.PRESENT
        return select(name, self.selector, *matchers)

    def _ever(self, expr: str) -> str:
        return f"last_over_time({expr}{self._window})"

    def _seen_nodes(self) -> str:
        return f"group {self._by} ({self._ever(self._scraped())})"

    def _increase(self, kept: series.Kept) -> str:
        counters = f"{self._select(kept)}{self._window}"
        return f"sum {by(*self.labels, *kept.by)} (increase({counters}))"

    def _flapping(self) -> str:
        return f"(round({self._increase(series.ENDS)}) >= {series.FLAPS})"

    def _sliced(self, how: str, expr: str) -> str:
        # One second less, so that Prometheus 2, too, excludes the slice before the window.
        return f"{how}_over_time({expr}[{self.span.seconds - 1}s:{self.span.step}s])"

    def _present(self) -> str:
        return f"group {self._by} ({self._scraped()})"

    def _share(self, kept: series.Kept) -> str:
        """Share of a slice, of nodes that are there at its end."""
        each = f"avg_over_time({self._select(kept)}[{self.span.step}s])"
        return f"(max {self._by} ({each}) and {self._present()})"

    def _kubelet_series(self) -> str:
        name = series.KUBELET_KEPT if self.recorded else series.KUBELET
        return select(name, self.kubelet_selector)

    def _kubelet(self) -> str:
        return f"group {self._by} ({self._kubelet_series()})"

    def _kubelets(self) -> str:
        """Kubelets of the clusters seen in the metrics; Prometheus may know other clusters."""
        ever = self._ever(self._kubelet_series())
        return f"(group {self._by} ({ever}) and {self._clusters()})"

    def _unwatched(self) -> str:
        return f"{self._kubelets()} unless {self._on} {self._seen_nodes()}"

    def _clusters(self) -> str:
        place = join(*self.labels[:-1])
        return f"on ({place}) group by ({place}) ({self._seen_nodes()})"

    def _runtimes(self) -> str:
        """Each node once, with its runtime; the name is UNKNOWN or SEVERAL if not unique."""
        node = join(*self.labels)
        ever = self._ever(self._select(series.RUNTIME))
        each = f"group {by(node, *series.RUNTIME_LABELS)} ({ever})"
        number = f"count by ({node}) ({each})"
        several = label(f"group by ({node}) ({number} > 1)", "name", SEVERAL)
        none = f"{self._seen_nodes()} unless {self._on} {each}"
        return f"({only_one(each, node)} or {several} or {label(none, 'name', UNKNOWN)})"

    def _with_runtime(self, expr: str) -> str:
        labels = join(*series.RUNTIME_LABELS)
        return f"({expr}) * {self._on} group_left ({labels}) {self._runtimes()}"

    def _by_runtime(self, expr: str, *per: str) -> str:
        return f"sum {by(*series.RUNTIME_LABELS, *per)} ({self._with_runtime(expr)})"
