"""Renders the report as JSON, or as Markdown or HTML through templates."""

import json
import re
from typing import Any, Final

import jinja2

from exporter.evidence.reasons import CAUSE_MEANINGS
from exporter.report import charts
from exporter.report.document import document
from exporter.report.fleet import Fleet
from exporter.report.options import ReportFormat
from exporter.report.verdict import Decision, percent

# Characters of foreign names that Markdown would treat as markup.
_MARKUP = re.compile(r"([\\`*_\[\]<>|#])")
# CSS classes.
_MOODS: Final = {
    Decision.GO.value: "good",
    Decision.NO_GO.value: "bad",
    Decision.NOT_ENOUGH.value: "unsure",
}
_CAUSES: Final = {cause.value: text for cause, text in CAUSE_MEANINGS.items()}


def written(fleet: Fleet, objective: float, form: ReportFormat) -> str:
    """The whole report, with a line break at its end."""
    data = document(fleet, objective)
    if form is ReportFormat.JSON:
        return json.dumps(data, indent=2, allow_nan=False) + "\n"
    if form is ReportFormat.MARKDOWN:
        return _templates().get_template("report.md").render(report=data)
    page = _templates().get_template("report.html")
    return page.render(
        report=data,
        moods=_MOODS,
        box=charts,
        share_axis=charts.share_axis(fleet, objective),
        missed=charts.missed(fleet),
        nodes=charts.nodes(fleet),
    )


def _templates() -> jinja2.Environment:
    environment = jinja2.Environment(
        loader=jinja2.PackageLoader("exporter.report"),
        autoescape=jinja2.select_autoescape(["html"]),
        trim_blocks=True,
        lstrip_blocks=True,
        keep_trailing_newline=True,
        undefined=jinja2.StrictUndefined,
    )
    environment.filters["percent"] = lambda share: "-" if share is None else percent(share)
    environment.filters["number"] = lambda number: "-" if number is None else f"{number:,}"
    environment.filters["hours"] = _hours
    environment.filters["plain"] = lambda text: _MARKUP.sub(r"\\\1", str(text))
    environment.globals["causes"] = _CAUSES
    environment.globals["events"] = _events
    return environment


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
        rows.setdefault(count["event"], blank)[column] = count["number"]
    return list(rows.values())
