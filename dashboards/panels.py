"""Kinds of panels, each with this house's defaults.

Each returns a builder of the SDK, so that a caller may change what is special about it.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Any, Final, TypeVar

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

from dashboards.queries import STATES

SOURCE: Final = models.DataSourceRef(type_val="prometheus", uid="${datasource}")
GOOD, WARN, BAD, PLAIN, IDLE = "green", "orange", "red", "blue", "#808080"

# Each one counts: no thousands are left out.
WHOLE: Final = "locale"
# Bars of less than a few scrapes (30 s by default) show the scrapes rather than the events.
_LEAST_BAR: Final = "2m"

_NOTHING: Final = models.SpecialValueMap(
    options=models.DashboardSpecialValueMapOptions(
        match=models.SpecialValueMatch.NULL_AND_NAN,
        result=models.ValueMappingResult(text="-", color="transparent", index=0),
    )
)

P = TypeVar("P", stat.Panel, timeseries.Panel, table.Panel, statetimeline.Panel)
Steps = Mapping[float | None, str]
Queries = Mapping[str, str]

FINE: Final[Steps] = {None: PLAIN}
COLOUR_OF_STATE: Final = {
    "streaming": GOOD,
    "connecting": PLAIN,
    "backoff": BAD,
    "refused": IDLE,
    "unsupported": "purple",
    "disabled": WARN,
}


def above(limit: float, colour: str = BAD) -> Steps:
    """Good below a limit, and from there on not."""
    return {None: GOOD, limit: colour}


def stat_panel(  # noqa: PLR0913 -- what a number needs to be read
    title: str, about: str, expr: str, unit: str, steps: Steps = FINE, *, legend: str = ""
) -> stat.Panel:
    """One number for the whole time range, or with a legend its name."""
    return (
        _framed(stat.Panel(), title, about)
        .with_target(_ask(expr, legend).instant())
        .unit(unit)
        .no_value("no data")
        .thresholds(_thresholds(steps))
        .color_scheme(_colours(models.FieldColorModeId.THRESHOLDS))
        .color_mode(
            kinds.BigValueColorMode.VALUE if steps is FINE else kinds.BigValueColorMode.BACKGROUND
        )
        .graph_mode(kinds.BigValueGraphMode.NONE)
        .reduce_options(common.ReduceDataOptions().calcs(["lastNotNull"]))
        .height(4)
    )


def lines(title: str, about: str, asked: Queries, unit: str, line: float = 0) -> timeseries.Panel:
    """Lines over time: `asked` is legend to expression; `line` is the alerts' threshold."""
    panel = (
        _framed(timeseries.Panel(), title, about)
        .unit(unit)
        .axis_soft_min(0)
        .draw_style(kinds.GraphDrawStyle.LINE)
        .line_width(1)
        .fill_opacity(8)
        .show_points(kinds.VisibilityMode.NEVER)
        .color_scheme(_colours(models.FieldColorModeId.PALETTE_CLASSIC))
        .legend(_legend())
        .tooltip(_tooltip())
        .height(7)
    )
    for ref, (legend, expr) in zip("ABCDEFGH", asked.items(), strict=False):
        panel.with_target(_ask(expr, legend, ref))
    if line:
        style = common.GraphThresholdsStyleConfig().mode(kinds.GraphTresholdsStyleMode.DASHED)
        panel.thresholds(_thresholds({None: "transparent", line: BAD})).thresholds_style(style)
    return panel


def bars(title: str, about: str, asked: Queries, unit: str = "short") -> timeseries.Panel:
    """Counts of each interval, on top of each other."""
    return (
        lines(title, about, asked, unit)
        .draw_style(kinds.GraphDrawStyle.BARS)
        .fill_opacity(80)
        .line_width(0)
        .stacking(common.StackingConfig().mode(kinds.StackingMode.NORMAL).group("A"))
        # A quiet panel is flat, rather than full of fractions of an event.
        .axis_soft_max(1)
        .interval(_LEAST_BAR)
    )


def states(title: str, about: str, expr: str, legend: str) -> statetimeline.Panel:
    """The state of the subscription over time, a row each; `expr` gives numbers of `STATES`."""
    return (
        _framed(statetimeline.Panel(), title, about)
        .with_target(_ask(expr, legend))
        .unit("short")
        .mappings([state_names()])
        .thresholds(_thresholds({None: GOOD}))
        .color_scheme(_colours(models.FieldColorModeId.THRESHOLDS))
        .show_value(kinds.VisibilityMode.NEVER)
        .merge_values(True)  # noqa: FBT003 -- the SDK's signature
        .row_height(0.8)
        .fill_opacity(80)
        .line_width(0)
        .legend(_legend())
        .tooltip(_tooltip())
        .height(8)
    )


def rows(
    title: str, about: str, columns: Queries, names: Mapping[str, str], *, without: str = "no data"
) -> table.Panel:
    """One row for each set of labels: `columns` is title to expression, `names` label to title.

    `without`: what a table without a row says.
    """
    panel = (
        _framed(table.Panel(), title, about)
        .with_transformation(models.DataTransformerConfig(id_val="merge", options={}))
        .with_transformation(_organized(columns, names))
        .unit("short")
        .no_value(without)
        .thresholds(_thresholds(FINE))
        .override_by_regexp(".*", dynamic({"custom.minWidth": 88, "noValue": "-"}))
        .color_scheme(_colours(models.FieldColorModeId.THRESHOLDS))
        .show_header(True)  # noqa: FBT003 -- the SDK's signature
        .cell_height(kinds.TableCellHeight.SM)
        .height(8)
    )
    for ref, (name, expr) in zip("ABCDEFGHIJ", columns.items(), strict=False):
        panel.with_target(_ask(expr, "", ref).instant().format(PromQueryFormat.TABLE))
        # As wide as its title, and an arrow: all fit on a screen of 1024 pixels.
        panel.override_by_name(name, dynamic({"custom.minWidth": 26 + 7 * len(name)}))
    return panel


def column(
    panel: table.Panel, name: str, unit: str, steps: Steps = FINE, **more: object
) -> table.Panel:
    """Give a column of numbers its unit and colours; `more` are properties by their names."""
    properties: dict[str, object] = {"unit": unit}
    if steps is not FINE:
        # What is not known is neither good nor bad.
        properties["mappings"] = [_NOTHING]
        properties["thresholds"] = _thresholds(steps).build()
        cell = {"type": "color-background", "mode": "basic"}
        properties["custom.cellOptions"] = cell
    return panel.override_by_name(name, dynamic(properties | more))


def dynamic(properties: Mapping[str, object]) -> list[models.DynamicConfigValue]:
    """Properties of an override."""
    return [models.DynamicConfigValue(id_val=name, value=of) for name, of in properties.items()]


def state_names() -> models.ValueMap:
    """Names and colours for the numbers of `STATES`."""
    return named({code: (name, COLOUR_OF_STATE[name]) for name, code in STATES.items()})


def named(values: Mapping[int, tuple[str, str]] | Mapping[str, tuple[str, str]]) -> models.ValueMap:
    """Text and colour for each value."""
    shown = enumerate(values.items())
    options = {
        str(value): models.ValueMappingResult(text=text, color=colour, index=index)
        for index, (value, (text, colour)) in shown
    }
    return models.ValueMap(options=options)


def coloured(panel: timeseries.Panel, colours: Mapping[str, str]) -> timeseries.Panel:
    """Fix the colours of series, by their legends."""
    for name, colour in colours.items():
        panel.override_by_name(name, dynamic({"color": {"mode": "fixed", "fixedColor": colour}}))
    return panel


def _framed(panel: P, title: str, about: str) -> P:
    return panel.title(title).description(about).datasource(SOURCE)


def _ask(expr: str, legend: str = "", ref: str = "A") -> prometheus.Dataquery:
    ask = prometheus.Dataquery().expr(expr).ref_id(ref).datasource(SOURCE).range()
    return ask.legend_format(legend or "__auto")


def _thresholds(steps: Steps) -> dashboard.ThresholdsConfig:
    # Grafana wants the values to rise, and the first one to be absent.
    ordered = [models.Threshold(value=value, color=colour) for value, colour in steps.items()]
    return dashboard.ThresholdsConfig().mode(models.ThresholdsMode.ABSOLUTE).steps(ordered)


def _colours(mode: models.FieldColorModeId) -> dashboard.FieldColor:
    return dashboard.FieldColor().mode(mode)


def _legend() -> common.VizLegendOptions:
    legend = common.VizLegendOptions().display_mode(kinds.LegendDisplayMode.LIST)
    shown = legend.placement(kinds.LegendPlacement.BOTTOM)
    return shown.show_legend(True).calcs([])  # noqa: FBT003 -- the SDK's signature


def _tooltip() -> common.VizTooltipOptions:
    tooltip = common.VizTooltipOptions().mode(kinds.TooltipDisplayMode.MULTI)
    return tooltip.sort(kinds.SortOrder.DESCENDING)


def _organized(columns: Queries, names: Mapping[str, str]) -> models.DataTransformerConfig:
    values = {f"Value #{ref}": title for ref, title in zip("ABCDEFGHIJ", columns, strict=False)}
    # One query alone is not numbered.
    if len(columns) == 1:
        values = {"Value": next(iter(columns))}
    renamed = {**names, **values}
    options: dict[str, Any] = {
        "excludeByName": {"Time": True},
        "indexByName": {name: place for place, name in enumerate(("Time", *renamed))},
        "renameByName": renamed,
    }
    return models.DataTransformerConfig(id_val="organize", options=options)


def sorted_by(panel: table.Panel, *columns: str) -> table.Panel:
    """The greatest first."""
    by: Sequence[common.TableSortByFieldState] = [
        common.TableSortByFieldState().display_name(name).desc(True)  # noqa: FBT003
        for name in columns
    ]
    return panel.sort_by(list(by))
