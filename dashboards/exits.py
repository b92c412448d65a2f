"""Panels about exits: how late they are noticed, and what events save.

Blind spot: with a list and a stream that tell of different exits, the difference of their means is
not that of one exit.
"""

from __future__ import annotations

from typing import Final

from grafana_foundation_sdk.builders import table, timeseries

from dashboards import frame, panels
from dashboards.limits import LIMITS
from dashboards.panels import FINE, IDLE, above
from dashboards.queries import (
    INTERVAL,
    NODE,
    RANGE,
    VERSION_NAMES,
    increase,
    kubelet,
    mean,
    of_version,
    own,
    quantile,
    rate,
)
from exporter import metrics

_EVENT: Final = metrics.EXIT_TO_EVENT.name
_LIST: Final = metrics.EXIT_TO_LIST.name
_COLOURS: Final = {
    "announced, 50 %": "blue",
    "announced, 99 %": "light-blue",
    "listed, 50 %": "orange",
    "listed, 99 %": "light-orange",
}
_DAY_SECONDS: Final = 86400
# A list every second shows an exit half a second after the event, on average.
_HALF_A_RELIST: Final = 0.5


def noticed() -> timeseries.Panel:
    """How late the stream and the lists tell of an exit."""
    about = (
        "Time from the end of a container's processes until its exit was announced, and until the "
        "first shadow relist that shows it. Good: announced within 0.1 s; listed within a relist "
        "period, 10 s by default. Both late by as much: the runtime cleans up slowly. Half of "
        f"them announced later than {LIMITS.exit_p50:g} s, the line, is an alert."
    )
    asked = {
        f"{name}, {share * 100:g} %": quantile(share, own(f"{histogram}_bucket"))
        for name, histogram in (("announced", _EVENT), ("listed", _LIST))
        for share in (0.5, 0.99)
    }
    panel = panels.lines("From exit to notice", about, asked, "s", LIMITS.exit_p50)
    panels.coloured(panel, _COLOURS)
    return panel.links([frame.runbook("ShadowPlegExitsAnnouncedLate")])


def saved(*, scraped: bool) -> timeseries.Panel:
    """What events are worth, in time; `scraped`: beside the kubelet's own relists, too."""
    theirs = "the kubelet's relist with its mean interval, or by " if scraped else ""
    about = (
        "For how many seconds a day exits of a node would be known sooner by events than by lists: "
        "exits a day, times what an event is earlier on average. Measured: than by shadow-pleg's "
        f"relist, with its own period. Computed: than by {theirs}one every second; such a list "
        "shows an exit half an interval after the event on average. Good: above zero; zero means "
        "that events come no sooner. A day has 86400 s. Nodes without exits are left out."
    )
    exits = f"{_DAY_SECONDS} * ({rate(own(f'{_EVENT}_count'), NODE)} > 0)"
    late = {each: mean(own(f"{each}_sum"), own(f"{each}_count"), NODE) for each in (_EVENT, _LIST)}
    sooner = f"clamp_min({late[_LIST]} - {late[_EVENT]}, 0)"
    asked = {
        "than the shadow relist, measured": f"avg({exits} * {sooner})",
        "than a relist every second, computed": f"avg({exits} * {_HALF_A_RELIST})",
    }
    if scraped:
        relists = "kubelet_pleg_relist_interval_seconds"
        interval = mean(kubelet(f"{relists}_sum"), kubelet(f"{relists}_count"), NODE)
        asked["than the kubelet's relist, computed"] = f"avg({exits} * {interval} / 2)"
    panel = panels.lines("What events save, a day", about, asked, "s")
    colours = ("blue", IDLE, "orange")
    return panels.coloured(panel, dict(zip(asked, colours, strict=False)))


def by_version() -> timeseries.Panel:
    """How late each runtime tells of an exit, over time."""
    about = (
        "Time from the end of a container's processes until its exit was announced, by runtime "
        "version: a line that rises with a new version is that version's. Good: within 0.1 s. "
        f"Half of them above {LIMITS.exit_p50:g} s, the line, is an alert of the nodes."
    )
    asked = {
        f"{{{{name}}}} {{{{version}}}}, {share * 100:g} %": _quantile(share, _EVENT, INTERVAL)
        for share in (0.5, 0.99)
    }
    title = "From exit to event by runtime version"
    panel = panels.lines(title, about, asked, "s", LIMITS.exit_p50)
    return panel.links([frame.runbook("ShadowPlegExitsAnnouncedLate")])


def versions() -> table.Panel:
    """How late each runtime tells of an exit, and what its events save."""
    about = (
        "Time from the end of a container's processes until the event that announces its exit, and "
        "until the first shadow relist that shows it, over the time range; a node whose runtime "
        "changed in it counts for no version. Sooner by: what the event takes off the time in "
        "which a kubelet that relists every second notices, in the median. Good: half of the "
        f"events within 0.1 s; above {LIMITS.exit_p50:g} s is an alert of the nodes. Both late by "
        "as much: the runtime cleans up slowly, and events save little."
    )
    columns = {"Exits": of_version(increase(own(f"{_EVENT}_count"), RANGE, NODE))} | {
        f"{name}, {share * 100:g} %": _quantile(share, histogram, RANGE)
        for name, histogram in (("Event", _EVENT), ("List", _LIST))
        for share in (0.5, 0.99)
    }
    half = "Event, 50 %"
    columns["Sooner by"] = f"{_HALF_A_RELIST} / ({_HALF_A_RELIST} + {columns[half]})"
    title = "From exit to notice by runtime version"
    panel = panels.rows(title, about, columns, VERSION_NAMES)
    panels.column(panel, "Exits", "short", decimals=0)
    for name in columns:
        if "%" in name:
            panels.column(panel, name, "s", above(LIMITS.exit_p50) if name == half else FINE)
    panels.column(panel, "Sooner by", "percentunit")
    panel.links([frame.runbook("ShadowPlegExitsAnnouncedLate")])
    return panels.sorted_by(panel.height(5), "Exits")


def _quantile(share: float, histogram: str, span: str) -> str:
    """A quantile of each runtime's exits; absent where there was none."""
    buckets = increase(own(f"{histogram}_bucket"), span, f"{NODE}, le")
    return f"histogram_quantile({share}, {of_version(buckets, 'le', span)}) >= 0"
