"""The command `conformance`."""

import argparse
from typing import Final

from conformance.options import Options
from exporter.cli import config_of, only
from exporter.settings.declaring import Command, flags_of, from_text


def _conformance(given: argparse.Namespace) -> bool:
    config, options = config_of(given), from_text(Options, vars(given))
    from conformance.run import conforms

    return conforms(config, options)


CONFORMANCE: Final = Command(
    _conformance,
    "for maintainers of runtimes: test a runtime's event stream",
    only("runtime_endpoint") + flags_of(Options),
    endings="Exit codes: 0 as expected, 1 an unexpected breach, 2 it could not run.",
)
