"""The words that expressions and texts of rules are written with.

Here: what is said in more than one rule, and the templates' engine. A template
that uses a word which is not here does not render.
"""

from __future__ import annotations

from typing import Final

import jinja2
import promql_parser

from alerts.entries import Level
from alerts.values import Thresholds, Values, seconds

# Autoescaping is for HTML. What is unknown must not become an empty string.
_TEMPLATES: Final = jinja2.Environment(  # noqa: S701 - no HTML
    variable_start_string="<<",
    variable_end_string=">>",
    block_start_string="<%",
    block_end_string="%>",
    comment_start_string="<#",
    comment_end_string="#>",
    undefined=jinja2.StrictUndefined,
)
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


def _numbers(values: Values) -> dict[str, str]:
    """Thresholds, objective, severities."""
    chosen = {name: getattr(values.thresholds, name) for name in Thresholds.__struct_fields__}
    return {
        **{name: f"{number:g}" for name, number in chosen.items()},
        "objective": f"{values.slo.objective:g}",
        "relied_on": values.losses.relied_on,
        "otherwise": values.losses.otherwise,
    }


class Terms:
    """Renders templates with the words of one set of values."""

    def __init__(self, values: Values) -> None:
        self._values = values
        self._numbers = _numbers(values)
        labels, windows = values.labels, values.windows
        self.by_cluster = labels.cluster
        self.by_node = f"{labels.cluster}, {labels.node}"
        self._words: dict[str, object] = {
            "exporter": values.selectors.exporter,
            "kubelet": values.selectors.kubelet,
            "by_node": self.by_node,
            "by_cluster": self.by_cluster,
            "by_process": f"{self.by_node}, job, instance",
            "node_label": labels.node,
            "w": windows,
            "t": self._numbers,
            "slo": values.slo,
            "counted": self._counted,
            "lost_of": self._lost_of,
            "restarted": self._restarted(values.windows.losses),
            "snapshot": self._snapshot,
            "state": self._state,
            "age": self._age(),
            "on_many": self._on_many(),
            "lagging": self._lagging(),
            "beyond": self._beyond,
            "burns": self._burns(),
            "installed": self._installed(),
            "targets": self._targets(),
            "most": self._most(),
            "either": self._either,
            "grew": self._grew,
            "seconds": seconds,
            **self._recorded(),
            **self._said(),
        }

    def _recorded(self) -> dict[str, str]:
        """Names of recording rules that other rules use."""
        windows = self._values.windows
        return {
            "lost": self.lost,
            "owed": self.owed,
            "undelivered": f"shadow_pleg:node:undelivered_events:increase{windows.losses}",
            "reliance": f"shadow_pleg:node:kubelet_reliance:last{windows.gate}",
            "relied_lost": self._relied("lost"),
            "relied_owed": self._relied("owed"),
            "delivery": f"shadow_pleg:node:event_delivery_seconds:quantile{windows.node}",
            "exit_to_event": f"shadow_pleg:node:exit_to_event_seconds:quantile{windows.node}",
            "relist_duration": f"shadow_pleg:node:relist_duration_seconds:quantile{windows.node}",
            "steady": f"shadow_pleg:node:stream_steady:min{windows.steady}",
            "exporters": "shadow_pleg:cluster:exporters:sum",
        }

    def _said(self) -> dict[str, str]:
        """Words of annotations."""
        labels = self._values.labels
        return {
            "on_node": f"node {{{{ $labels.{labels.node} }}}}{self._of_cluster()}",
            "in_cluster": f"{{{{ with $labels.{labels.cluster} }}}}cluster {{{{ . }}}}"
            "{{ else }}the cluster{{ end }}",
            "number": '{{ printf "%.0f" $value }}',
            "percent": "{{ $value | humanizePercentage }}",
            "duration": "{{ $value | humanizeDuration }}",
        }

    @property
    def lost(self) -> str:
        """Name of the one series of losses."""
        return f"shadow_pleg:node:lost_events:increase{self._values.windows.losses}"

    @property
    def owed(self) -> str:
        """Name of the series of what they are a share of."""
        return f"shadow_pleg:node:owed_events:increase{self._values.windows.losses}"

    def text(self, template: str, **more: str) -> str:
        """A template's text, in one line."""
        rendered = _TEMPLATES.from_string(template).render(self._words | more)
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

    def runbook(self, alert: str) -> str:
        """The address of an alert's runbook."""
        return f"{self._values.links.runbooks}/{alert}.md"

    def _of_cluster(self) -> str:
        label = self._values.labels.cluster
        return f"{{{{ with $labels.{label} }}}} of cluster {{{{ . }}}}{{{{ end }}}}"

    def _counted(self, metric: str, window: str, matchers: str = "") -> str:
        """By how much a counter of the exporter grew: resets, and a new process' first counts.

        `increase()` needs two samples: what a process counts before its first scrape is in the
        value alone. All of that value is new while the process is younger than the window.
        """
        mine = self._values.selectors.exporter
        counter = f"{metric}{{{', '.join(filter(None, (mine, matchers)))}}}"
        return (
            f"(increase({counter}[{window}]) > 0"
            f" or ({counter} > 0 and on ({self.by_node}, instance)"
            f" time() - process_start_time_seconds{{{mine}}} < {seconds(window)}))"
        )

    def _lost_of(self, how: str) -> str:
        """Missed minus late by event and cause, of series that grew; `how`: delta or counted."""
        window, mine = self._values.windows.losses, self._values.selectors.exporter
        labels = f"sum by ({self.by_node}, event, cause)"

        def grown(metric: str, *matchers: str) -> str:
            if how == "counted":
                return f"{labels} ({self._counted(metric, window, ', '.join(matchers))})"
            return f"{labels} (delta({metric}{{{', '.join((mine, *matchers))}}}[{window}]) > 0)"

        missed = grown("kube_pod_missed_events_total", 'cause!="by_design"')
        late = grown("shadow_pleg_late_events_total")
        return f"({missed} - ({late} or 0 * {missed}))"

    def _restarted(self, window: str) -> str:
        """Nodes whose exporter was started within that window."""
        start = f"process_start_time_seconds{{{self._values.selectors.exporter}}}"
        return f"(max by ({self.by_node}) (time() - {start} < {seconds(window)}))"

    def _snapshot(self, metric: str, *by: str, matchers: str = "") -> str:
        """A counter of each process, to be sampled every five minutes.

        A young process has 0, so that `increase()` sees its first counts; one that has gone keeps
        its last ones until they were sampled.
        """
        mine = self._values.selectors.exporter
        counter = f"{metric}{{{', '.join(filter(None, (mine, matchers)))}}}"
        process = f"{self.by_node}, job, instance"
        return (
            f"sum by ({', '.join((process, *by))}) (last_over_time({counter}[5m])"
            f" * on ({process}) group_left ()"
            f" (time() - last_over_time(process_start_time_seconds{{{mine}}}[5m]) > bool 300))"
        )

    def _state(self, states: str) -> str:
        """1 for each node whose stream is in one of these states, joined by `|`; else 0."""
        mine = self._values.selectors.exporter
        return f'max by ({self.by_node}) (shadow_pleg_stream_state{{{mine}, state=~"{states}"}})'

    def _age(self) -> str:
        """Seconds since the last successful relist, or the process' start; as of the scrape."""
        mine = self._values.selectors.exporter
        last = f"shadow_pleg_last_seen_seconds{{{mine}}}"
        start = f"process_start_time_seconds{{{mine}}}"
        never = f"max by ({self.by_node}) ({last}) == 0"
        return (
            f"(max by ({self.by_node}) (timestamp({last}) - ({last} > 0)) or max by"
            f" ({self.by_node}) (timestamp({start}) - {start}) and on ({self.by_node}) {never})"
        )

    def _lagging(self) -> str:
        """Nodes whose exporter is too slow to measure: its delays are its own."""
        mine, values = self._values.selectors.exporter, self._values
        lag = f"rate(shadow_pleg_event_loop_lag_seconds_bucket{{{mine}}}[{values.windows.node}])"
        quantile = f"histogram_quantile(0.99, sum by ({self.by_node}, le) ({lag}))"
        return f"{quantile} > {self._numbers['loop_lag_seconds']}"

    def _either(self, metric: str) -> str:
        """A metric of the kubelet under any of its names."""
        names = "|".join((metric, *RENAMED[metric]))
        return f'{{__name__=~"{names}", {self._values.selectors.kubelet}}}'

    def _grew(self, metric: str, window: str) -> str:
        """By how much it grew. One `increase()` of all fails while a kubelet had two names."""
        every = (metric, *RENAMED[metric])
        kubelet = self._values.selectors.kubelet
        return "(" + " or ".join(f"increase({name}{{{kubelet}}}[{window}])" for name in every) + ")"

    def _beyond(self, cause: str, events: str) -> str:
        """Nodes that lost more of these events than the objective allows, and three deviations.

        The number lost is a matter of chance, with the root of its mean as standard deviation.
        """
        node = self.by_node
        lost = f'sum by ({node}) ({self.lost}{{cause="{cause}", {events}}})'
        owed = f"sum by ({node}) ({self.owed}{{{events}}})"
        allowed = f"(1 - {self._numbers['objective']} / 100) * {owed}"
        return f"({lost} > {allowed} + 3 * sqrt({allowed}))"

    def _relied(self, what: str) -> str:
        """Name of a cluster's losses, or of what was owed, where kubelets have nothing else."""
        return f"shadow_pleg:cluster:relied_{what}:increase{self._values.windows.losses}"

    def _on_many(self) -> str:
        """The number of nodes on which each alert fires, by its name (`problem`) and severity."""
        labels = self._values.labels
        firing = f'ALERTS{{alertname=~"ShadowPleg.+", alertstate="firing", {labels.node}!=""}}'
        named = f'label_replace({firing}, "problem", "$1", "alertname", "(.+)")'
        return f"count by ({self.by_cluster}, problem, severity) ({named})"

    def _installed(self) -> str:
        """Nodes of each cluster that had an exporter within a day; one that moves is not two."""
        steady = "min_over_time(shadow_pleg:cluster:exporters:sum[5m])"
        return f"max_over_time({steady}[{self._values.windows.installed}:5m])"

    def _targets(self) -> str:
        """Nodes of each cluster that has an exporter or had one, whose exporter is looked for."""
        now = f"max by ({self.by_node}) (up{{{self._values.selectors.exporter}}})"
        return f"(count by ({self.by_cluster}) ({now}) or 0 * {self._installed()})"

    def _most(self) -> str:
        """So many nodes of each cluster whose kubelets are scraped are most of them."""
        kubelets = f"max by ({self.by_node}) (up{{{self._values.selectors.kubelet}}})"
        return f"{self._numbers['installed_ratio']} * count by ({self.by_cluster}) ({kubelets})"

    def _burns(self) -> str:
        """The condition of each pair of windows, any of which fires."""
        budget = f"(1 - {self._numbers['objective']} / 100)"
        ratio = "shadow_pleg:cluster:slo_missed_ratio:avg"
        # Each loss is in so many samples.
        times = seconds(self._values.windows.losses) / seconds(self._values.intervals.recording)
        return " or ".join(
            f"({ratio}{pair.long} > {pair.factor:g} * {budget}"
            f" and {ratio}{pair.short} > {pair.factor:g} * {budget}"
            # Not an average: where a window has begun only, that would be of less.
            f" and sum_over_time({self._relied('lost')}[{pair.long}]) / {times:g}"
            f" >= {self._values.slo.least_losses})"
            for pair in self._values.slo.burns
        )
