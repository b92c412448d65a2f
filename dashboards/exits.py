"""Panels of the node's dashboard about exits: how late they are noticed, and what events save.

Blind spot: with a list and a stream that tell of different exits, the difference of their means is
not that of one exit.
"""

from __future__ import annotations

from typing import Final

from grafana_foundation_sdk.builders import timeseries

from dashboards import frame, panels
from dashboards.limits import LIMITS
from dashboards.panels import IDLE
from dashboards.queries import kubelet, mean, own, quantile, rate
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


def saved() -> timeseries.Panel:
    """What events are worth, in time."""
    about = (
        "For how many seconds a day exits would be known sooner by events than by lists: exits a "
        "day, times what an event is earlier on average. Measured: than by shadow-pleg's relist, "
        "with its own period. Computed: than by the kubelet's relist with its mean interval, or by "
        "one every second; such a list shows an exit half an interval after the event on average. "
        "Good: above zero; zero means that events come no sooner. A day has 86400 s."
    )
    exits = f"{_DAY_SECONDS} * {rate(own(f'{_EVENT}_count'))}"
    late = {each: mean(own(f"{each}_sum"), own(f"{each}_count")) for each in (_EVENT, _LIST)}
    theirs = "kubelet_pleg_relist_interval_seconds"
    interval = mean(kubelet(f"{theirs}_sum"), kubelet(f"{theirs}_count"))
    sooner = f"clamp_min({late[_LIST]} - {late[_EVENT]}, 0)"
    asked = {
        "than the shadow relist, measured": f"{exits} * {sooner}",
        "than the kubelet's relist, computed": f"{exits} * {interval} / 2",
        "than a relist every second, computed": f"{exits} / 2",
    }
    panel = panels.lines("What events save, a day", about, asked, "s")
    colours = ("blue", "orange", IDLE)
    return panels.coloured(panel, dict(zip(asked, colours, strict=True)))
