"""Asks a running `serve` for a node condition, as a custom plugin of node-problem-detector.

Returns False where there is no problem, True where there is one; everything else, whatever goes
wrong included, is an UnknownError: a plugin that fails must not be taken for a node that does.
"""

import http.client
import sys
from typing import Final

from exporter.commands.health import ask
from exporter.errors import UnknownError
from exporter.settings.conditions import MOST_CHARACTERS, Condition
from exporter.settings.config import Config

_KNOWN: Final = {http.client.OK: False, http.client.SERVICE_UNAVAILABLE: True}


def holds(config: Config, condition: Condition, timeout: float = 3.0) -> bool:
    """Whether that condition holds; prints one line. UnknownError if it is not known."""
    status, said = ask(config, condition.path, timeout)
    line = said.strip().partition("\n")[0][:MOST_CHARACTERS]
    if status not in _KNOWN:
        raise UnknownError(line or "not known")
    sys.stdout.write(f"{line}\n")
    return _KNOWN[status]
