"""PromQL: every query of a report, each about the whole fleet.

Answers do not grow with the number of nodes: Prometheus does the aggregation.

Counters are read with increase() over the whole window, per process, before they are summed, so
restarts and resets do not distort them. The denominator is the exception: it must exclude the time
in which losses could not be seen, so it is summed from slices of the window. A slice loses what
happens between its last scrape and the first scrape of the next slice, and increase() adds as much
on average: good enough for many transitions, too coarse for a single miss.
"""

import re
from dataclasses import dataclass, replace
from typing import Final

from exporter.pleg.events import Lifecycle
from exporter.pleg.findings import Cause
from fleet.options import Span
from fleet.sources import RECORDED, SCRAPED, UNMEASURED, Metric, Source

MOST_NAMED: Final = 10
UNKNOWN: Final = "unknown"
SEVERAL: Final = "several"
RUNTIME_LABELS: Final = ("name", "version", "stream")
POINTS: Final = 56
# Stream errors after which a kubelet never subscribes again: its eventedPlegMaxStreamRetries.
FLAPS: Final = 5

# What counts against the stream; all else has an excuse.
LOST: Final = (Cause.SILENT, Cause.STALLED)
_LOST: Final = "|".join(cause.value for cause in LOST)
_EVENT: Final = ("event",)
EXIT: Final = Lifecycle.DIED.label
EXITS, OTHERS = f'event="{EXIT}"', f'event!="{EXIT}"'


@dataclass(frozen=True, slots=True)
class Queries:
    """The queries about one span.

    `labels` identify nodes; the node's own label is the last. `with_kubelets` is False if these
    labels differ on kubelets. `together` nodes must be streaming at once for their time to count.
    """

    span: Span
    labels: tuple[str, ...]
    selector: str = ""
    kubelet_selector: str = ""
    together: int = 1
    with_kubelets: bool = True
    source: Source = SCRAPED

    def recorded(self) -> str:
        """Number of targets scraped and recorded, at both ends of the window."""
        numbers = {}
        for name, source in (("scraped", SCRAPED), ("recorded", RECORDED)):
            here = select(source.present, self.selector)
            numbers[f"{name}_first"] = f"count({here} @ {self.span.start})"
            numbers[f"{name}_last"] = f"count({here} @ {self.span.end})"
        return labelled(numbers)

    def processes(self) -> str:
        """Number of targets, and how many of them have the node's own label."""
        named = self._seen(self.source.present, f'{self.labels[-1]}!=""')
        seen = self._seen(self.source.present)
        return labelled({"all": f"count({seen})", "named": f"count({named})"})

    def nodes(self) -> str:
        """Number of nodes, by runtime."""
        return f"count {by(*RUNTIME_LABELS)} ({self._runtimes()})"

    def witnessed(self) -> str:
        """Transitions, by runtime and event."""
        return self._by_runtime(self._increase(self.source.lifecycle, per=_EVENT), *_EVENT)

    def missed(self) -> str:
        """Misses, by runtime, cause and event."""
        labels = ("cause", "event")
        return self._by_runtime(self._increase(self.source.missed, per=labels), *labels)

    def late(self) -> str:
        """Late announcements, by runtime, cause of the miss and event."""
        labels = ("cause", "event")
        return self._by_runtime(self._increase(self.source.late, per=labels), *labels)

    def undecided(self) -> str:
        """Exits that may not have been owed, by runtime."""
        return self._by_runtime(self._increase(self.source.undecided))

    def gaps(self) -> str:
        """Gaps that no outage explains, by runtime and event."""
        gaps = self._increase(self.source.gaps, per=_EVENT)
        if self.source.outage_gaps is not None:
            gaps = f"clamp_min({gaps} - {self._increase(self.source.outage_gaps, per=_EVENT)}, 0)"
        return self._by_runtime(gaps, *_EVENT)

    def judged(self, of: str) -> str:
        """Transitions whose loss would have been counted, by runtime: EXITS or OTHERS.

        Two questions, because one by event would hold four times as many samples at once.
        """
        return self._by_runtime(self.judged_by_node(of))

    def worst(self) -> str:
        """The nodes that lost most for good, with their runtimes."""
        return self._with_runtime(f"topk({MOST_NAMED}, round({self.lost_by_node()}) > 0)")

    def judged_on(self, nodes: tuple[str, ...]) -> str:
        """Judged transitions on each of these nodes; may include other nodes of the same name."""
        pattern = "|".join(
            re.escape(node).replace("\\", "\\\\").replace('"', '\\"') for node in nodes
        )
        mine = f'{self.labels[-1]}=~"{pattern}"'
        return replace(self, selector=_join(self.selector, mine)).judged_by_node()

    def flapping(self) -> str:
        """Number of nodes whose stream flaps, by runtime."""
        return f"count {by(*RUNTIME_LABELS)} ({self._with_runtime(self._flapping())})"

    def flappers(self) -> str:
        """The nodes whose stream ended most often, with their runtimes."""
        return self._with_runtime(f"topk({MOST_NAMED}, {self._flapping()})")

    def coverage(self) -> str:
        """Numbers of nodes and node-slices; those of nodes that streamed are by runtime."""
        here, streaming = self._present(), self._streaming()
        deaf, at = self._share(self.source.not_subscribed), f"timestamp({here})"
        together = f"(count({streaming} > 0.5) >= {self.together})"
        numbers = {
            "seen": f"count({self._seen_nodes()})",
            "now": f"count({here})",
            "present": f"sum({self._sliced('count', here)})",
            "lived": f"sum({self._sliced('max', at)} - {self._sliced('min', at)})"
            f" / {self.span.step} + count({self._sliced('count', here)})",
            "streaming": self._by_runtime(self._sliced("sum", streaming)),
            "together": self._sliced("count", together),
            "deaf": f"sum({self._sliced('sum', deaf)})",
            "first": f"min({self._sliced('min', at)})",
        }
        return labelled(numbers | (self._beside_kubelets(streaming) if self.with_kubelets else {}))

    def _beside_kubelets(self, streaming: str) -> dict[str, str]:
        kubelets, kubelet = self._kubelets(), self._kubelet()
        both = self._sliced("sum", f"({streaming} and {self._on} {kubelet})")
        return {
            "kubelets": f"count({kubelets})",
            "unwatched": f"count({kubelets} unless {self._on} {self._seen_nodes()})",
            "kubelet_present": f"sum({self._sliced('count', kubelet)} and {self._on} {kubelets})",
            "kubelet_streaming": f"sum({both})",
        }

    def unwatched(self) -> str:
        """Some nodes that have a kubelet but no shadow-pleg."""
        return f"topk({MOST_NAMED}, {self._kubelets()} unless {self._on} {self._seen_nodes()})"

    def deafest(self) -> str:
        """The nodes that were subscribed for the smallest share of the time they were seen."""
        slices = self._sliced("count", self._present())
        share = f"{self._sliced('sum', self._streaming())} / {self._on} {slices}"
        return self._with_runtime(f"bottomk({MOST_NAMED}, {share} < 0.99)")

    @property
    def point(self) -> int:
        """Seconds between two points of the charts."""
        return max(1, -(-self.span.slices // POINTS)) * self.span.step

    def missed_over_time(self) -> str:
        """Misses between a point of the charts and the previous one, by cause."""
        counters = f"{select(self.source.missed, self.selector)}[{self.point}s]"
        return f"sum by (cause) (increase({counters}))"

    def nodes_over_time(self) -> str:
        """Nodes with a kubelet, seen, and streaming, at each point of the charts."""
        numbers = {
            "watched": f"count({self._present()})",
            "streaming": f"sum({self._streaming()})",
        }
        if self.with_kubelets:
            ours = self._clusters(f" @ {self.span.end}")
            numbers["kubelets"] = f"count({self._kubelet()} and {ours})"
        return labelled(numbers)

    @property
    def _on(self) -> str:
        return f"on ({', '.join(self.labels)})"

    @property
    def _window(self) -> str:
        return f"[{self.span.seconds}s]"

    def _seen(self, metric: Metric, matchers: str = "", at: str = "") -> str:
        return f"last_over_time({select(metric, self.selector, matchers)}{self._window}{at})"

    def _seen_nodes(self, at: str = "") -> str:
        return f"group {by(*self.labels)} ({self._seen(self.source.present, at=at)})"

    def _increase(self, metric: Metric, matchers: str = "", per: tuple[str, ...] = ()) -> str:
        counters = f"{select(metric, self.selector, matchers)}{self._window}"
        return f"sum {by(*self.labels, *per)} (increase({counters}))"

    def _flapping(self) -> str:
        return f"(round({self._increase(self.source.disconnects)}) >= {FLAPS})"

    def lost_by_node(self, matchers: str = "") -> str:
        """What counts against the stream and never came: missed minus late, by cause."""
        labels, matchers = (*_EVENT, "cause"), _join(f'cause=~"{_LOST}"', matchers)
        missed, late = (
            self._increase(metric, matchers, labels)
            for metric in (self.source.missed, self.source.late)
        )
        return f"sum {by(*self.labels)} ({missed} - {late} > 0)"

    def judged_by_node(self, matchers: str = "") -> str:
        """Transitions witnessed while losses could be seen, without misses that have an excuse."""
        span, source = f"[{self.span.step}s]", self.source
        lifecycle = select(source.lifecycle, self.selector, matchers)
        each = f"sum {by(*self.labels)} (increase({lifecycle}{span}))"
        deaf = select(source.not_subscribed, self.selector)
        silence = f"max {by(*self.labels)} (max_over_time({deaf}{span})) > 0"
        kinds = f'stream=~"{"|".join(UNMEASURED)}"'
        shared = f"present_over_time({select(source.runtime, self.selector, kinds)}{span})"
        blind = f"({silence} or group {by(*self.labels)} ({shared}))"
        seen = self._sliced("sum", f"({each} unless {self._on} {blind})")
        excused = self._increase(source.missed, _join(f'cause!~"{_LOST}"', matchers))
        return f"clamp_min({seen} - {self._on} {excused}, 0)"

    def _sliced(self, how: str, expr: str) -> str:
        # One second less, so that Prometheus 2, too, excludes the slice before the window.
        return f"{how}_over_time({expr}[{self.span.seconds - 1}s:{self.span.step}s])"

    def _present(self) -> str:
        return f"group {by(*self.labels)} ({select(self.source.present, self.selector)})"

    def _share(self, metric: Metric) -> str:
        """Share of a slice, of nodes that are there at its end."""
        states = f"{select(metric, self.selector)}[{self.span.step}s]"
        # The scraped series of several states exclude each other.
        each = f"sum without (state) (avg_over_time({states}))"
        return f"(max {by(*self.labels)} ({each}) and {self._present()})"

    def _streaming(self) -> str:
        return self._share(self.source.streaming)

    def _kubelet(self) -> str:
        return f"group {by(*self.labels)} ({select(self.source.kubelet, self.kubelet_selector)})"

    def _kubelets(self) -> str:
        """Kubelets of the clusters seen in the metrics; Prometheus may know other clusters."""
        kubelet = select(self.source.kubelet, self.kubelet_selector)
        ever = f"last_over_time({kubelet}{self._window})"
        return f"(group {by(*self.labels)} ({ever}) and {self._clusters()})"

    def _clusters(self, at: str = "") -> str:
        place = ", ".join(self.labels[:-1])
        return f"on ({place}) group by ({place}) ({self._seen_nodes(at)})"

    def _runtimes(self) -> str:
        """Each node once, with its runtime; the name is UNKNOWN or SEVERAL if not unique."""
        each = f"group {by(*self.labels, *RUNTIME_LABELS)} ({self._seen(self.source.runtime)})"
        number = f"count {by(*self.labels)} ({each})"
        one = f"({each} and {self._on} ({number} == 1))"
        several = _label(f"group {by(*self.labels)} ({number} > 1)", "name", SEVERAL)
        none = f"{self._seen_nodes()} unless {self._on} {each}"
        return f"({one} or {several} or {_label(none, 'name', UNKNOWN)})"

    def _with_runtime(self, expr: str) -> str:
        joined = ", ".join(RUNTIME_LABELS)
        return f"({expr}) * {self._on} group_left ({joined}) {self._runtimes()}"

    def _by_runtime(self, expr: str, *per: str) -> str:
        return f"sum {by(*RUNTIME_LABELS, *per)} ({self._with_runtime(expr)})"


def select(metric: Metric, *matchers: str) -> str:
    """Series of a metric."""
    return f"{metric.name}{{{_join(metric.matchers, *matchers)}}}"


def _join(*matchers: str) -> str:
    return ",".join(filter(None, matchers))


def by(*labels: str) -> str:
    """A grouping."""
    return f"by ({', '.join(labels)})"


def _label(expr: str, label: str, value: str) -> str:
    return f'label_replace({expr}, "{label}", "{value}", "", "")'


def labelled(numbers: dict[str, str]) -> str:
    """Several numbers in one answer, distinguished by the label `what`."""
    return "\n or ".join(_label(expr, "what", name) for name, expr in numbers.items())
