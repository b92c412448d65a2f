"""The words that expressions and texts of rules are written with.

Those of `source.yaml`, and the values that they are made of. A template that uses a word which is
not there does not render.
"""

from collections.abc import Mapping
from typing import Final

import jinja2
import promql_parser

from alerts.entries import HOLD, SOURCE, Level
from alerts.values import Thresholds, Values, seconds
from exporter.metrics.families import NODE_CONDITION
from exporter.runtimes.kubelets import FIRST_HINTED, REPLACED
from promql.series import BY_DESIGN, IN_OPEN_STREAM, STREAMING
from promql.text import TEMPLATES, join

# The other names of counters of the kubelet: the later one (kubernetes/kubernetes#138417), and the
# one that OpenTelemetry's receiver makes of the first by appending _total.
RENAMED: Final = {
    "kubelet_pleg_discard_events": ("kubelet_pleg_discard_events_total",),
    "kubelet_evented_pleg_connection_error_count": (
        "kubelet_evented_pleg_connection_error_total",
        "kubelet_evented_pleg_connection_error_count_total",
    ),
    "kubelet_evented_pleg_connection_success_count": (
        "kubelet_evented_pleg_connection_success_total",
        "kubelet_evented_pleg_connection_success_count_total",
    ),
}


def compiled(words: Mapping[str, str]) -> jinja2.Template:
    """Templates by word, as one that defines them all; a word with arguments is a macro."""
    kinds = {word: "macro" if "(" in word else "set" for word in words}
    return TEMPLATES.from_string(
        "".join(f"<% {kinds[it]} {it} %>{text}<% end{kinds[it]} %>" for it, text in words.items())
    )


_WORDS: Final = compiled(SOURCE.words)
# As the recording rule has it of kubelets that are scraped.
RELIANCE: Final = {"replace": 2, "hint": 1, "ignore": 0}


class Terms:
    """Renders templates with the words of one set of values."""

    def __init__(self, values: Values) -> None:
        self._values = values
        numbers = {name: getattr(values.thresholds, name) for name in Thresholds.__struct_fields__}
        numbers["objective"] = values.slo.objective
        given: dict[str, object] = {
            "exporter": values.selectors.exporter,
            "kubelet": values.selectors.kubelet,
            "labels": values.labels,
            "w": values.windows,
            "t": {name: f"{number:g}" for name, number in numbers.items()},
            "slo": values.slo,
            "severity": values.losses,
            "kubelets": {
                "first_hinted": FIRST_HINTED,
                "trusting": f"v1[.]({'|'.join(map(str, REPLACED))})[^0-9].*",
                "assumed": RELIANCE.get(values.kubelets, values.kubelets),
            },
            "recording": values.intervals.recording,
            "gauge": NODE_CONDITION.name,
            "hold": HOLD,
            "in_open_stream": IN_OPEN_STREAM,
            "by_design": BY_DESIGN,
            "streaming": STREAMING,
            "names": {metric: (metric, *others) for metric, others in RENAMED.items()},
            "join": join,
            "seconds": seconds,
        }
        self._words = given | vars(_WORDS.make_module(given))

    def text(self, template: str, **more: str) -> str:
        """A template's text, in one line."""
        rendered = TEMPLATES.from_string(template).render(self._words | more)
        return " ".join(rendered.split())

    def promql(self, template: str, **more: str) -> str:
        """A template's expression in the canonical form of a PromQL parser; ValueError if none."""
        written = self.text(template, **more)
        try:
            return promql_parser.parse(written).prettify()
        except ValueError as error:
            raise ValueError(f"{error}: {written}") from None

    def dashboard(self, level: Level) -> str:
        """The address of the dashboard of what an alert is about."""
        links, labels = self._values.links, self._values.labels
        cluster = f"?var-cluster={{{{ $labels.{labels.cluster} }}}}"
        if level is Level.CLUSTER:
            return f"{links.dashboards}/d/{links.fleet_uid}{cluster}"
        node = f"&var-node={{{{ $labels.{labels.node} }}}}"
        return f"{links.dashboards}/d/{links.node_uid}{cluster}{node}"
