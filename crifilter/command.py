"""The command `filter`."""

import argparse
from typing import Final

from crifilter.options import FilterOptions
from exporter.cli import config_of, finish, only, start_log
from exporter.settings.declaring import Command, flags_of, from_text


def _filter(given: argparse.Namespace) -> bool:
    config, options = config_of(given), from_text(FilterOptions, vars(given))
    start_log(config)
    from crifilter.server import run_filter

    finish(run_filter(config, options))
    return True


FILTER: Final = Command(
    _filter,
    "a proxy that keeps the runtime's or kubelet's socket from serve",
    flags_of(FilterOptions)
    + only("runtime_endpoint", "kubelet_pods_endpoint", "watchdog_timeout", "log_"),
)
