"""PromQL: every query of a report, each about the whole fleet.

Answers do not grow with the number of nodes: Prometheus does the aggregation.

Counters are read with increase() over the whole window, per process, before they are summed, so
restarts and resets do not distort them. The denominator is the exception: it must exclude the time
in which a node owed nothing, so it is summed from slices of the window. A slice loses what happens
between its last scrape and the first scrape of the next slice, and increase() adds as much on
average: good enough for many transitions, too coarse for a single miss.
"""

import re
from dataclasses import dataclass, replace
from typing import Final

from exporter import metrics
from exporter.node.state import StreamState
from exporter.pleg.findings import Cause
from exporter.report.options import Span

MOST_NAMED: Final = 10
UNKNOWN: Final = "unknown"
SEVERAL: Final = "several"
RUNTIME_LABELS: Final = ("name", "version", "stream")
POINTS: Final = 56

_BUILD: Final = f"{metrics.BUILD.name}_info"
_RUNTIME: Final = f"{metrics.RUNTIME.name}_info"
MISSED: Final = f"{metrics.MISSED.name}_total"
LIFECYCLE: Final = f"{metrics.LIFECYCLE.name}_total"
LATE: Final = f"{metrics.LATE.name}_total"
GAPS: Final = f"{metrics.GAPS.name}_total"
_STATE: Final = metrics.STREAM_STATE.name
# One series on each kubelet, whatever its version.
_KUBELET: Final = "kubelet_pleg_relist_interval_seconds_count"

_SILENT: Final = f'cause="{Cause.SILENT.value}"'
_EXCUSED: Final = f'cause!="{Cause.SILENT.value}"'
_STREAMING: Final = f'state="{StreamState.STREAMING.value}"'
# The name is empty until the runtime answers for the first time.
_ANSWERED: Final = 'name!=""'
# A stream that is refused, disabled or unsupported owes no announcements.
_OWES_NOTHING: Final = (StreamState.DISABLED, StreamState.REFUSED, StreamState.UNSUPPORTED)
_DEAF: Final = 'state=~"{}"'.format("|".join(state.value for state in _OWES_NOTHING))


@dataclass(frozen=True, slots=True)
class Queries:
    """The queries about one span.

    `labels` identify nodes; the node's own label is the last. `with_kubelets` is False if these
    labels differ on kubelets.
    """

    span: Span
    labels: tuple[str, ...]
    selector: str = ""
    kubelet_selector: str = ""
    with_kubelets: bool = True

    def processes(self) -> str:
        """Number of targets, and how many of them have the node's own label."""
        named = self._seen(_BUILD, f'{self.labels[-1]}!=""')
        return _named({"all": f"count({self._seen(_BUILD)})", "named": f"count({named})"})

    def nodes(self) -> str:
        """Number of nodes, by runtime."""
        return f"count {_by(*RUNTIME_LABELS)} ({self._runtimes()})"

    def increases(self, counter: str, *by: str) -> str:
        """What a counter counted, by runtime and these labels."""
        return self._by_runtime(self._increase(counter, by=by), *by)

    def judged(self) -> str:
        """Transitions whose silent loss would have been counted, by runtime."""
        return self._by_runtime(self.judged_by_node())

    def worst(self) -> str:
        """The nodes with the most silent misses, with their runtimes."""
        silent = f"topk({MOST_NAMED}, round({self._increase(MISSED, _SILENT)}) > 0)"
        return self._with_runtime(silent)

    def judged_on(self, nodes: tuple[str, ...]) -> str:
        """Judged transitions on each of these nodes; may include other nodes of the same name."""
        pattern = "|".join(
            re.escape(node).replace("\\", "\\\\").replace('"', '\\"') for node in nodes
        )
        mine = f'{self.labels[-1]}=~"{pattern}"'
        return replace(self, selector=_join(self.selector, mine)).judged_by_node()

    def coverage(self) -> str:
        """Numbers of nodes and node-slices: how many nodes were seen in how many slices."""
        here, streaming = self._present(_BUILD), self._present(_STATE, _STREAMING, "max")
        deaf = self._present(_STATE, _DEAF, "max")
        at = f"timestamp({here})"
        numbers = {
            "seen": f"count({self._seen_nodes()})",
            "now": f"count({here})",
            "present": f"sum({self._sliced('count', here)})",
            "lived": f"sum({self._sliced('max', at)} - {self._sliced('min', at)})"
            f" / {self.span.step} + count({self._sliced('count', here)})",
            "streaming": f"sum({self._sliced('sum', streaming)})",
            "deaf": f"sum({self._sliced('sum', deaf)})",
            "first": f"min({self._sliced('min', at)})",
        }
        return _named(numbers | (self._beside_kubelets(streaming) if self.with_kubelets else {}))

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
        here, streaming = self._present(_BUILD), self._present(_STATE, _STREAMING, "max")
        share = f"{self._sliced('sum', streaming)} / {self._on} {self._sliced('count', here)}"
        return self._with_runtime(f"bottomk({MOST_NAMED}, {share} < 0.99)")

    @property
    def point(self) -> int:
        """Seconds between two points of the charts."""
        return max(1, -(-self.span.slices // POINTS)) * self.span.step

    def missed_over_time(self) -> str:
        """Misses between a point of the charts and the previous one, by cause."""
        return f"sum by (cause) (increase({_select(MISSED, self.selector)}[{self.point}s]))"

    def nodes_over_time(self) -> str:
        """Nodes with a kubelet, seen, and streaming, at each point of the charts."""
        streaming = self._present(_STATE, _STREAMING, "max")
        numbers = {
            "watched": f"count({self._present(_BUILD)})",
            "streaming": f"sum({streaming})",
        }
        if self.with_kubelets:
            known = f"{self._kubelet()} and {self._on} {self._kubelets(at_end=True)}"
            numbers["kubelets"] = f"count({known})"
        return _named(numbers)

    @property
    def _on(self) -> str:
        return f"on ({', '.join(self.labels)})"

    @property
    def _window(self) -> str:
        return f"[{self.span.seconds}s]"

    def _seen(self, name: str, matchers: str = "", at: str = "") -> str:
        return f"last_over_time({_select(name, self.selector, matchers)}{self._window}{at})"

    def _seen_nodes(self, at: str = "") -> str:
        return f"group {_by(*self.labels)} ({self._seen(_BUILD, at=at)})"

    def _increase(self, name: str, matchers: str = "", by: tuple[str, ...] = ()) -> str:
        counters = f"{_select(name, self.selector, matchers)}{self._window}"
        return f"sum {_by(*self.labels, *by)} (increase({counters}))"

    def judged_by_node(self) -> str:
        """Transitions witnessed while they were owed, without misses of other causes."""
        span = f"[{self.span.step}s]"
        each = f"sum {_by(*self.labels)} (increase({_select(LIFECYCLE, self.selector)}{span}))"
        deaf = _select(_STATE, self.selector, _DEAF)
        silence = f"max {_by(*self.labels)} (max_over_time({deaf}{span})) > 0"
        owed = self._sliced("sum", f"({each} unless {self._on} ({silence}))")
        return f"clamp_min({owed} - {self._on} {self._increase(MISSED, _EXCUSED)}, 0)"

    def _sliced(self, how: str, expr: str) -> str:
        # One second less, so that Prometheus 2, too, excludes the slice before the window.
        return f"{how}_over_time({expr}[{self.span.seconds - 1}s:{self.span.step}s])"

    def _present(self, name: str, matchers: str = "", how: str = "group") -> str:
        return f"{how} {_by(*self.labels)} ({_select(name, self.selector, matchers)})"

    def _kubelet(self) -> str:
        return f"group {_by(*self.labels)} ({_select(_KUBELET, self.kubelet_selector)})"

    def _kubelets(self, *, at_end: bool = False) -> str:
        """Kubelets of the clusters seen in the metrics; Prometheus may know other clusters."""
        at, place = f" @ {self.span.end}" if at_end else "", ", ".join(self.labels[:-1])
        ever = f"last_over_time({_select(_KUBELET, self.kubelet_selector)}{self._window}{at})"
        ours = f"group by ({place}) ({self._seen_nodes(at)})"
        return f"(group {_by(*self.labels)} ({ever}) and on ({place}) {ours})"

    def _runtimes(self) -> str:
        """Each node once, with its runtime; the name is UNKNOWN or SEVERAL if not unique."""
        each = f"group {_by(*self.labels, *RUNTIME_LABELS)} ({self._seen(_RUNTIME, _ANSWERED)})"
        number = f"count {_by(*self.labels)} ({each})"
        one = f"({each} and {self._on} ({number} == 1))"
        several = _label(f"group {_by(*self.labels)} ({number} > 1)", "name", SEVERAL)
        none = f"{self._seen_nodes()} unless {self._on} {each}"
        return f"({one} or {several} or {_label(none, 'name', UNKNOWN)})"

    def _with_runtime(self, expr: str) -> str:
        joined = ", ".join(RUNTIME_LABELS)
        return f"({expr}) * {self._on} group_left ({joined}) {self._runtimes()}"

    def _by_runtime(self, expr: str, *by: str) -> str:
        return f"sum {_by(*RUNTIME_LABELS, *by)} ({self._with_runtime(expr)})"


def _select(name: str, *matchers: str) -> str:
    return f"{name}{{{_join(*matchers)}}}"


def _join(*matchers: str) -> str:
    return ",".join(filter(None, matchers))


def _by(*labels: str) -> str:
    return f"by ({', '.join(labels)})"


def _label(expr: str, label: str, value: str) -> str:
    return f'label_replace({expr}, "{label}", "{value}", "", "")'


def _named(numbers: dict[str, str]) -> str:
    """Several numbers in one answer, distinguished by the label `what`."""
    return "\n or ".join(_label(expr, "what", name) for name, expr in numbers.items())
