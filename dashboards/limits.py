"""What the alerts' values file says that the dashboards need too, so that both draw one line."""

from __future__ import annotations

import sys
from dataclasses import dataclass
from pathlib import Path
from typing import Final

from alerts import render, values
from alerts.terms import Terms


@dataclass(frozen=True, slots=True)
class Limits:
    """Thresholds in seconds or as shares of 1; labels, selectors and links as text."""

    node: str
    cluster: str
    kubelet: str
    runtime: str
    runbooks: str
    fleet_uid: str
    node_uid: str
    # The share of lifecycle events that may be missed.
    budget: float
    delivery_p99: float
    exit_p50: float
    relist_stale: float
    relist_slow: float
    relist_stretched: float
    loop_lag: float
    # Windows of the burn rates.
    windows: tuple[str, ...]
    # Names of the alerts, and of the recording rules.
    alerts: tuple[str, ...]
    records: tuple[str, ...]


def read(path: Path = values.FILE) -> Limits:
    """Read the values file; what is wrong with it ends the program with one line."""
    try:
        chosen = values.load(path)
    except values.ValuesError as error:
        sys.exit(str(error))
    terms = Terms(chosen)
    return Limits(
        node=chosen.labels.node,
        cluster=chosen.labels.cluster,
        kubelet=chosen.selectors.kubelet,
        runtime=chosen.selectors.runtime,
        runbooks=chosen.links.runbooks,
        fleet_uid=chosen.links.fleet_uid,
        node_uid=chosen.links.node_uid,
        budget=round(1 - chosen.slo.objective / 100, 9),
        delivery_p99=chosen.thresholds.delivery_p99_seconds,
        exit_p50=chosen.thresholds.exit_p50_seconds,
        relist_stale=chosen.thresholds.relist_stale_seconds,
        relist_slow=chosen.thresholds.relist_slow_seconds,
        relist_stretched=chosen.thresholds.relist_stretched_seconds,
        loop_lag=chosen.thresholds.loop_lag_seconds,
        windows=tuple(chosen.slo.windows),
        alerts=tuple(chosen.alerts),
        records=tuple(
            terms.text(record.name) for each in render.records(chosen).values() for record in each
        ),
    )


LIMITS: Final = read()
