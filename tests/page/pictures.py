"""Draw the status page of the demo for the README: `python -m tests.page.pictures [MINUTES]`.

The demo runs for so long (12), so that there is something to see. Here: the run and the pictures.
"""

from __future__ import annotations

import asyncio
import re
import sys
from pathlib import Path
from typing import Final

from tests.dashboards.pictures import slimmed
from tests.face.commands import ANYWHERE, running
from tests.page.stand import Eyes, browsing, looking, why_not

FOLDER: Final = Path(__file__).parents[2] / "docs"
_FLAGS: Final = ("--drop=0.004", "--churn=1", "--disconnect-every=290", "--duplicate=0")


async def _main(minutes: float) -> int:
    if reason := why_not():
        sys.stderr.write(f"{reason}\n")
        return 1
    async with (
        running("demo", ANYWHERE, "--log.level=error", *_FLAGS) as demo,
        browsing() as browser,
    ):
        found = re.search(r"http://\S+", await demo.printed())
        assert found
        await asyncio.sleep(minutes * 60)
        for scheme in ("light", "dark"):
            eyes = Eyes({"width": 960, "height": 860}, scheme)
            async with looking(browser, found[0], eyes) as look:
                await look.state("live")
                await look.page.screenshot(path=FOLDER / f"status-{scheme}.png")
            slimmed(FOLDER / f"status-{scheme}.png")
    return 0


if __name__ == "__main__":
    sys.exit(asyncio.run(_main(float(sys.argv[1]) if sys.argv[1:] else 12)))
