"""Pieces of PromQL as text, and the formulas that more than one surface asks with."""

from collections.abc import Mapping


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
