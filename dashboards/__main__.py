"""Render the dashboards: `python -m dashboards [--check]`."""

from __future__ import annotations

import json
import sys
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


def main() -> int:
    """Write the files; with --check say instead which are not what would be written."""
    if sys.argv[1:] not in ([], ["--check"]):
        sys.stderr.write("usage: python -m dashboards [--check]\n")
        return 2
    if not sys.argv[1:]:
        for path, text in rendered().items():
            path.write_text(text, encoding="utf-8")
        return 0
    stale = [
        path.name
        for path, text in rendered().items()
        if not path.is_file() or path.read_text(encoding="utf-8") != text
    ]
    for name in stale:
        sys.stderr.write(f"dashboards/{name} is not what dashboards/*.py render: make dashboards\n")
    return 1 if stale else 0


if __name__ == "__main__":
    sys.exit(main())
