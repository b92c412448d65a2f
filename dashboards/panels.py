"""Kinds of panels, and how their numbers look: by the names that `source.yaml` uses."""

from collections.abc import Mapping
from string import ascii_uppercase
from typing import Any, Final

from grafana_foundation_sdk.builders import (
    common,
    dashboard,
    prometheus,
    stat,
    statetimeline,
    table,
    timeseries,
)
from grafana_foundation_sdk.models import common as kinds
from grafana_foundation_sdk.models import dashboard as models
from grafana_foundation_sdk.models.prometheus import PromQueryFormat

from alerts.entries import ALERTS
from dashboards.queries import LIMITS, LINKS, LISTENING, MOODS, STATES
from dashboards.source import Named, Panel, Texts

SOURCE: Final = models.DataSourceRef(type_val="prometheus", uid="${datasource}")
# A hidden variable, so that one edit in Grafana is enough to set all links.
RUNBOOKS: Final = "${runbooks}"
GOOD, WARN, BAD, PLAIN, IDLE = "green", "orange", "red", "blue", "#808080"
Built = stat.Panel | timeseries.Panel | table.Panel | statetimeline.Panel
Steps = Mapping[float | None, str]

# Bars of less than a few scrapes (30 s by default) show the scrapes rather than the events.
_LEAST_BAR: Final = "2m"
_COLOUR_OF_STATE: Final = {
    "streaming": GOOD,
    "connecting": PLAIN,
    "backoff": BAD,
    "refused": IDLE,
    "unsupported": "purple",
    "disabled": WARN,
}
_STEPS: Final[Mapping[str, Steps]] = {
    "fine": {None: PLAIN},
    "good": {None: GOOD},
    "loss": {None: GOOD, 0.5: BAD},
    "share": {None: BAD, LISTENING: WARN, 0.99: GOOD},
    "late": {None: GOOD, LIMITS.exit_p50_seconds: BAD},
    "stale": {None: GOOD, LIMITS.relist_stale_seconds: BAD},
}
_NODE_LINK: Final = (
    f"/d/{LINKS.node_uid}?var-datasource=${{datasource}}"
    "&var-cluster=${__data.fields.Cluster}&var-node=${__data.fields.Node}&${__url_time_range}"
)
_RUNBOOK_LINK: Final = f"{RUNBOOKS}/${{__value.text}}.md"


def made(panel: Panel, texts: Texts, *, fleet: bool) -> Built:
    """A panel of a dashboard."""
    asked, about = texts.asked(panel), texts.text(panel.about)
    built: Built
    match panel.kind:
        case "number" | "state":
            built = _number(panel, asked)
        case "states":
            built = _states(panel, asked)
        case "table":
            built = _table(panel, asked, texts.named(panel.labels))
        case "lines" | "bars":
            built = _lines(panel, asked, texts)
            if panel.kind == "bars":
                built = _bars(built, fleet=fleet)
    built = built.title(panel.title).description(about).datasource(SOURCE)
    if panel.none:
        built = built.no_value(panel.none)
    if panel.decimals is not None:
        built = built.decimals(panel.decimals)
    if panel.runbook:
        # Of the alert that watches the same.
        if panel.runbook not in {alert.name for alert in ALERTS}:
            raise ValueError(f"{panel.runbook} is no alert")
        url = f"{RUNBOOKS}/{panel.runbook}.md"
        built = built.links([link(f"Runbook {panel.runbook}", url)])
    return built


def link(title: str, url: str) -> dashboard.DashboardLink:
    """A link to somewhere else."""
    to = dashboard.DashboardLink(title).type(models.DashboardLinkType.LINK).url(url).icon("doc")
    return to.target_blank(True)  # noqa: FBT003 -- the SDK's signature


def _number(panel: Panel, asked: Named) -> stat.Panel:
    """One number for the whole time range, or with a legend its name."""
    ((legend, expr),) = asked.items()
    fine = panel.steps == "fine"
    built = (
        stat.Panel()
        .with_target(_ask(expr, legend).instant())
        .unit(panel.unit)
        .no_value("no data")
        .thresholds(_thresholds(panel.steps))
        .color_scheme(dashboard.FieldColor().mode(models.FieldColorModeId.THRESHOLDS))
        .color_mode(kinds.BigValueColorMode.VALUE if fine else kinds.BigValueColorMode.BACKGROUND)
        .graph_mode(kinds.BigValueGraphMode.NONE)
        .reduce_options(common.ReduceDataOptions().calcs(["lastNotNull"]))
        .height(4)
    )
    if panel.kind == "state":
        built = built.mappings([_STATES["stream"]])
    return built.text_mode(kinds.BigValueTextMode.NAME) if legend else built


def _lines(panel: Panel, asked: Named, texts: Texts) -> timeseries.Panel:
    """Lines over time."""
    built = (
        timeseries.Panel()
        .unit(panel.unit)
        .axis_soft_min(0)
        .draw_style(kinds.GraphDrawStyle.LINE)
        .line_width(1)
        .fill_opacity(8)
        .show_points(kinds.VisibilityMode.NEVER)
        .color_scheme(dashboard.FieldColor().mode(models.FieldColorModeId.PALETTE_CLASSIC))
        .legend(_legend())
        .tooltip(_tooltip())
        .height(7)
    )
    for ref, (legend, expr) in zip(ascii_uppercase, asked.items(), strict=False):
        built.with_target(_ask(expr, legend, ref))
    if panel.line:
        style = common.GraphThresholdsStyleConfig().mode(kinds.GraphTresholdsStyleMode.DASHED)
        steps = {None: "transparent", float(texts.text(panel.line)): BAD}
        built.thresholds(_thresholds(steps)).thresholds_style(style)
    if panel.top:
        built.axis_soft_max(float(texts.text(panel.top)))
    for name, colour in panel.colours.items():
        built.override_by_name(name, _dynamic({"color": {"mode": "fixed", "fixedColor": colour}}))
    return built


def _bars(panel: timeseries.Panel, *, fleet: bool) -> timeseries.Panel:
    """Counts of each interval, on top of each other."""
    panel = (
        panel.draw_style(kinds.GraphDrawStyle.BARS)
        .fill_opacity(80)
        .line_width(0)
        .stacking(common.StackingConfig().mode(kinds.StackingMode.NORMAL).group("A"))
        # A quiet panel is flat, rather than full of fractions of an event.
        .axis_soft_max(1)
        .interval(_LEAST_BAR)
    )
    # What rules keep, they keep every five minutes; and few enough bars for many nodes.
    return panel.interval("5m").max_data_points(100) if fleet else panel


def _states(panel: Panel, asked: Named) -> statetimeline.Panel:
    """States over time, a row each."""
    ((legend, expr),) = asked.items()
    return (
        statetimeline.Panel()
        .with_target(_ask(expr, legend))
        .unit("short")
        .mappings([_STATES[panel.states]])
        .thresholds(_thresholds("good"))
        .color_scheme(dashboard.FieldColor().mode(models.FieldColorModeId.THRESHOLDS))
        .show_value(kinds.VisibilityMode.NEVER)
        .merge_values(True)  # noqa: FBT003 -- the SDK's signature
        .row_height(0.8)
        .fill_opacity(80)
        .line_width(0)
        .legend(_legend())
        .tooltip(_tooltip())
        .height(8)
    )


def _table(panel: Panel, asked: Named, labels: Named) -> table.Panel:
    """One row for each set of labels, a column for each of them and for each expression."""
    labels = {name: title for name, title in labels.items() if name}
    by = [common.TableSortByFieldState().display_name(it).desc(True) for it in panel.sorted]  # noqa: FBT003
    built = (
        table.Panel()
        .with_transformation(models.DataTransformerConfig(id_val="merge", options={}))
        .with_transformation(_organized(asked, labels))
        .unit("short")
        .no_value("no data")
        .thresholds(_thresholds("fine"))
        .override_by_regexp(".*", _dynamic({"custom.minWidth": 76, "noValue": "-"}))
        .color_scheme(dashboard.FieldColor().mode(models.FieldColorModeId.THRESHOLDS))
        .show_header(True)  # noqa: FBT003 -- the SDK's signature
        .cell_height(kinds.TableCellHeight.SM)
        .sort_by([*by])
        .height(8)
    )
    for ref, (name, expr) in zip(ascii_uppercase, asked.items(), strict=False):
        built.with_target(_ask(expr, "", ref).instant().format(PromQueryFormat.TABLE))
        # As wide as its title, and an arrow: all fit on a screen of 1024 pixels.
        built.override_by_name(name, _dynamic({"custom.minWidth": 26 + 7 * len(name)}))
    for name, how in panel.columns.items():
        built.override_by_name(name, _dynamic(_COLUMNS[how]))
    return built


def _organized(asked: Named, labels: Named) -> models.DataTransformerConfig:
    # One query alone is not numbered.
    names = ["Value"] if len(asked) == 1 else [f"Value #{ref}" for ref in ascii_uppercase]
    renamed = {**labels, **dict(zip(names, asked, strict=False))}
    options: dict[str, Any] = {
        "excludeByName": {"Time": True},
        "indexByName": {name: place for place, name in enumerate(("Time", *renamed))},
        "renameByName": renamed,
    }
    return models.DataTransformerConfig(id_val="organize", options=options)


def _dynamic(properties: Mapping[str, object]) -> list[models.DynamicConfigValue]:
    """Properties of an override."""
    return [models.DynamicConfigValue(id_val=name, value=of) for name, of in properties.items()]


def _named(values: Mapping[int, tuple[str, str]]) -> models.ValueMap:
    """Text and colour for each value."""
    shown = enumerate(values.items())
    return models.ValueMap(
        options={
            str(value): models.ValueMappingResult(text=text, color=colour, index=index)
            for index, (value, (text, colour)) in shown
        }
    )


def _ask(expr: str, legend: str = "", ref: str = "A") -> prometheus.Dataquery:
    ask = prometheus.Dataquery().expr(expr).ref_id(ref).datasource(SOURCE).range()
    return ask.legend_format(legend or "__auto")


def _thresholds(steps: str | Steps) -> dashboard.ThresholdsConfig:
    # Grafana wants the values to rise, and the first one to be absent.
    values = _STEPS[steps] if isinstance(steps, str) else steps
    ordered = [models.Threshold(value=value, color=colour) for value, colour in values.items()]
    return dashboard.ThresholdsConfig().mode(models.ThresholdsMode.ABSOLUTE).steps(ordered)


def _legend() -> common.VizLegendOptions:
    legend = common.VizLegendOptions().display_mode(kinds.LegendDisplayMode.LIST)
    shown = legend.placement(kinds.LegendPlacement.BOTTOM)
    return shown.show_legend(True).calcs([])  # noqa: FBT003 -- the SDK's signature


def _tooltip() -> common.VizTooltipOptions:
    tooltip = common.VizTooltipOptions().mode(kinds.TooltipDisplayMode.MULTI)
    return tooltip.sort(kinds.SortOrder.DESCENDING)


def _cell(steps: str) -> dict[str, object]:
    """A column's colours; what is not known is neither good nor bad."""
    unknown = models.SpecialValueMap(
        options=models.DashboardSpecialValueMapOptions(
            match=models.SpecialValueMatch.NULL_AND_NAN,
            result=models.ValueMappingResult(text="-", color="transparent", index=0),
        )
    )
    return {
        "mappings": [unknown],
        "thresholds": _thresholds(steps).build(),
        "custom.cellOptions": {"type": "color-background", "mode": "basic"},
    }


_STATES: Final = {
    "stream": _named({code: (name, _COLOUR_OF_STATE[name]) for name, code in STATES.items()}),
    "moods": _named(
        {
            code: (mood, colour)
            for (mood, code), colour in zip(MOODS.items(), (GOOD, WARN, BAD), strict=True)
        }
    ),
    "held": _named({0: ("no", "transparent"), 1: ("holds", WARN)}),
}
_SEVERITIES: Final = _named({1: ("info", PLAIN), 2: ("warning", WARN), 3: ("critical", BAD)})
_TEXT: Final[dict[str, object]] = {"custom.cellOptions": {"type": "color-text"}}
# Each loss counts: no thousands are left out.
_WHOLE: Final[dict[str, object]] = {"unit": "locale"}
_COLUMNS: Final[Mapping[str, Mapping[str, object]]] = {
    "count": _WHOLE | {"decimals": 0},
    "loss": _WHOLE | _cell("loss") | {"decimals": 0},
    "percent": {"unit": "percentunit", "decimals": 1},
    "seconds": {"unit": "s"},
    "late": {"unit": "s"} | _cell("late"),
    "stale": {"unit": "s"} | _cell("stale"),
    "state": {"mappings": [_STATES["stream"]], **_TEXT, "custom.minWidth": 100},
    "severity": {"mappings": [_SEVERITIES], **_TEXT},
    "event": {"custom.minWidth": 138},
    "node": {"links": [{"title": "Show this node", "url": _NODE_LINK}]},
    "alert": {
        "links": [{"title": "Runbook", "url": _RUNBOOK_LINK, "targetBlank": True}],
        "custom.minWidth": 240,
    },
}
