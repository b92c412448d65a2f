"""Renders the dashboards: `make generate` writes them."""

from __future__ import annotations

import json
from pathlib import Path
from typing import Final

from grafana_foundation_sdk.cog.encoder import JSONEncoder

from dashboards import fleet, node

HERE: Final = Path(__file__).parent


def rendered() -> dict[Path, str]:
    """The text of each file."""
    boards = (fleet.build(), node.build())
    return {
        HERE / f"{board.uid}.json": json.dumps(board, cls=JSONEncoder, indent=2, sort_keys=True)
        + "\n"
        for board in boards
    }
