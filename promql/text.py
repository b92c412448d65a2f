"""Pieces of PromQL as text, and the formulas that more than one surface asks with."""

from collections.abc import Mapping
from typing import Final

import jinja2

# Of rules, dashboards and queries: braces are PromQL's. Autoescaping is for HTML. What is unknown
# must not become an empty string.
TEMPLATES: Final = jinja2.Environment(  # noqa: S701 - no HTML
    variable_start_string="<<",
    variable_end_string=">>",
    block_start_string="<%",
    block_end_string="%>",
    comment_start_string="<#",
    comment_end_string="#>",
    undefined=jinja2.StrictUndefined,
)
TEMPLATES.filters["number"] = "{:g}".format
# The version, or the gate, of a kubelet that did not keep it.
CHANGED: Final = "changed"


def join(*parts: str) -> str:
    """Label matchers, or labels, without those that are empty."""
    return ", ".join(filter(None, parts))


def by(*labels: str) -> str:
    """A grouping."""
    return f"by ({join(*labels)})"


def select(name: str, *matchers: str) -> str:
    """Series of a metric."""
    return f"{name}{{{join(*matchers)}}}"


def label(expr: str, name: str, value: str) -> str:
    """The same with one more label."""
    return f'label_replace({expr}, "{name}", "{value}", "", "")'


def moved(expr: str, name: str) -> str:
    """The same with the value of that label in the label `what`, too."""
    return f'label_replace({expr}, "what", "$1", "{name}", "(.*)")'


def labelled(numbers: Mapping[str, str]) -> str:
    """Several numbers in one answer, distinguished by the label `what`."""
    return "\n or ".join(label(expr, "what", name) for name, expr in numbers.items())


def never_came(missed: str, late: str) -> str:
    """What was lost for good: missed, and not announced after all.

    Of each series: a late announcement must not hide the loss of another node, event or cause.
    """
    return f"clamp_min({missed} - {late}, 0)"


def owed(witnessed: str, by_design: str) -> str:
    """Lifecycle events that a stream had to announce."""
    return f"{witnessed} - {by_design}"


def only_one(each: str, node: str) -> str:
    """Of series with a node's runtime: those of nodes that had one and the same all the time.

    What a node lost before an upgrade must not be held against its new version.
    """
    return f"{each} and on ({node}) count by ({node}) ({each}) == 1"


def _one_or_changed(each: str, node: str, name: str) -> str:
    several = f"group by ({node}) (count by ({node}) ({each}) > 1)"
    return f"({only_one(each, node)} or {label(several, name, CHANGED)})"


def by_kubelet(per_node: str, builds: str, gates: str, over: str, node: str, *also: str) -> str:
    """A number of each node, by the version and the gate (on, off) that its kubelet had.

    Each is `changed` if it had both in this time. `builds`, `gates`: what kubelets say of them.
    `over`: range and step of a subquery. `node`: its labels. `also`: labels to keep.
    """
    on, off = (
        label(f"{how}_over_time({gates}[{over}]) == {value}", "gate", name)
        for how, value, name in (("max", 1, "on"), ("min", 0, "off"))
    )
    version, gate = (
        _one_or_changed(f"group {by(node, name)} ({of})", node, name)
        for name, of in (
            ("git_version", f"last_over_time({builds}[{over}])"),
            ("gate", f"{on} or {off}"),
        )
    )
    kubelet = f"({version} * on ({node}) group_left (gate) {gate})"
    known = f"{per_node} * on ({node}) group_left (git_version, gate) {kubelet}"
    return f"sum {by('git_version', 'gate', *also)} ({known})"
