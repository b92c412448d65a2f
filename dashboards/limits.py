"""What the alerts' values file says that the dashboards need too, so that both draw one line.

Here: reading it. Not here: what the values mean; `alerts/values.yaml` says that beside each.
"""

from __future__ import annotations

import sys
from dataclasses import dataclass
from pathlib import Path
from typing import Any, Final

import yaml

VALUES: Final = Path(__file__).parents[1] / "alerts" / "values.yaml"


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
    relist_stale: float
    relist_slow: float
    relist_stretched: float
    loop_lag: float
    # Names of the alerts, for annotations.
    alerts: tuple[str, ...]


def read(path: Path = VALUES) -> Limits:
    """Read the values file; what is wrong with it ends the program with one line."""
    try:
        return _limits(yaml.safe_load(path.read_text(encoding="utf-8")))
    except (OSError, yaml.YAMLError) as error:
        sys.exit(f"{path}: {' '.join(str(error).split())}")
    except KeyError as error:
        sys.exit(f"{path}: {error} is missing")


def _limits(values: dict[str, Any]) -> Limits:
    labels, links, thresholds = values["labels"], values["links"], values["thresholds"]
    return Limits(
        node=labels["node"],
        cluster=labels["cluster"],
        kubelet=values["selectors"]["kubelet"],
        runtime=values["selectors"]["runtime"],
        runbooks=links["runbooks"],
        fleet_uid=links["fleet_uid"],
        node_uid=links["node_uid"],
        budget=round(1 - values["slo"]["objective"] / 100, 9),
        delivery_p99=thresholds["delivery_p99_seconds"],
        relist_stale=thresholds["relist_stale_seconds"],
        relist_slow=thresholds["relist_slow_seconds"],
        relist_stretched=thresholds["relist_stretched_seconds"],
        loop_lag=thresholds["loop_lag_seconds"],
        alerts=tuple(values["alerts"]),
    )


LIMITS: Final = read()
