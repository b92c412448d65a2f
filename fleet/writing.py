"""Renders the report as JSON, or as Markdown or HTML through templates."""

import json
import re
from typing import Any, Final

import jinja2

from exporter.evidence.reasons import CAUSE_MEANINGS
from exporter.kubelet.state import MEANINGS
from exporter.process.log import printable
from fleet import charts
from fleet.document import document
from fleet.fleet import Fleet
from fleet.options import ReportFormat, Standard
from fleet.queries import FLAPS
from fleet.verdict import Decision
from fleet.words import duration, in_nodes, percent

# What Markdown would treat as markup in foreign names; lists only at the begin.
_MARKUP: Final = re.compile(r"([\\`*_\[\]<>|#~=&$@]|^[-+]|:(?=//)|(?<=www)\.)")
_ITEM: Final = re.compile(r"^(\d{1,9})(?=[.)] )")
# CSS classes.
_MOODS: Final = {
    Decision.GO.value: "good",
    Decision.NO_GO.value: "bad",
    Decision.NOT_YET.value: "unsure",
    Decision.NOT_ENOUGH.value: "unsure",
}
_CAUSES: Final = {cause.value: text for cause, text in CAUSE_MEANINGS.items()}


def written(fleet: Fleet, standard: Standard, form: ReportFormat) -> str:
    """The whole report, with a line break at its end."""
    data = document(fleet, standard)
    if form is ReportFormat.JSON:
        return json.dumps(data, indent=2, allow_nan=False) + "\n"
    if form is ReportFormat.MARKDOWN:
        return _templates().get_template("report.md").render(report=data)
    page = _templates().get_template("report.html")
    return page.render(
        report=data,
        moods=_MOODS,
        flaps=FLAPS,
        box=charts,
        share_axis=charts.share_axis(fleet, standard.allowed),
        missed=charts.missed(fleet),
        nodes_chart=charts.nodes(fleet),
    )


def _templates() -> jinja2.Environment:
    environment = jinja2.Environment(
        loader=jinja2.PackageLoader("fleet"),
        autoescape=jinja2.select_autoescape(["html"]),
        trim_blocks=True,
        lstrip_blocks=True,
        keep_trailing_newline=True,
        undefined=jinja2.StrictUndefined,
        finalize=_finalized,
    )
    environment.filters["percent"] = lambda share: "-" if share is None else percent(share)
    environment.filters["number"] = lambda number: "not known" if number is None else f"{number:,}"
    environment.filters["measured"] = _measured
    environment.filters["seconds"] = _seconds
    environment.filters["hours"] = _hours
    environment.filters["duration"] = duration
    environment.filters["plain"] = _plain
    environment.globals["causes"] = _CAUSES
    environment.globals["configurations"] = {state.value: said for state, said in MEANINGS.items()}
    environment.globals["events"] = _events
    environment.globals["nodes"] = in_nodes
    return environment


def _finalized(value: object) -> object:
    """Foreign names may go to a terminal: control characters are escaped, not sent."""
    # What macros return is no name; like all that is HTML already, it says so.
    if isinstance(value, str) and not hasattr(value, "__html__"):
        return printable(value)
    return value


def _plain(text: object) -> str:
    """In one line, and without a meaning to Markdown."""
    return _ITEM.sub(r"\1\\", _MARKUP.sub(r"\\\1", printable(" ".join(str(text).split()))))


def _measured(number: int | None) -> str:
    return "not measured" if number is None else f"{number:,}"


def _seconds(seconds: float | None) -> str:
    return "not measured" if seconds is None else f"{seconds:.3g} s"


def _hours(hours: float | None) -> str:
    if hours is None:
        return "-"
    whole = hours >= 10 or hours == int(hours)  # noqa: PLR2004 - a digit more where it is needed
    return f"{hours:,.0f} h" if whole else f"{hours:,.1f} h"


def _events(group: dict[str, Any]) -> list[dict[str, Any]]:
    """A group's losses as one row per event: a number for each cause, late, and gaps."""
    rows: dict[str, dict[str, Any]] = {}
    counts = [(each["cause"], each) for each in group["missed"] if each["cause"] in _CAUSES]
    counts += [(kind, each) for kind in ("late", "gaps") for each in group[kind]]
    for column, count in counts:
        blank = {"event": count["event"], **dict.fromkeys((*_CAUSES, "late", "gaps"), 0)}
        rows.setdefault(count["event"], blank)[column] += count["number"]
    return list(rows.values())
