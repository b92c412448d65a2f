"""Draw the status page of the demo for the README.

`python -m tests.web.pictures [MINUTES]`: the demo runs for so long (12), so that there is
something to see.
"""

import asyncio
import re
import sys
from typing import Final, Literal

from tests import ROOT
from tests.dashboards.pictures import slimmed
from tests.support.browser import browsing, looking, why_no_browser
from tests.support.commands import ANYWHERE, Running

FOLDER: Final = ROOT / "docs"
_FLAGS: Final = (
    *("--drop=0.4%", "--churn=1", "--disconnect-every=290s", "--duplicate=0", "--ghosts=0.5%"),
    *("--strays=0%", "--twins=0%", "--flaws=0%", "--stale=0%", "--wrong=0%"),
)


async def _main(minutes: float) -> int:
    if reason := why_no_browser():
        sys.stderr.write(f"{reason}\n")
        return 1
    async with (
        Running("demo", ANYWHERE, "--log.level=error", *_FLAGS) as demo,
        browsing() as browser,
    ):
        found = re.search(r"http://\S+", await demo.printed())
        assert found
        await asyncio.sleep(minutes * 60)
        schemes: tuple[Literal["light", "dark"], ...] = ("light", "dark")
        for scheme in schemes:
            async with looking(browser, found[0], {"width": 960, "height": 860}, scheme) as look:
                await look.page.screenshot(path=FOLDER / f"status-{scheme}.png")
            slimmed(FOLDER / f"status-{scheme}.png")
    return 0


if __name__ == "__main__":
    sys.exit(asyncio.run(_main(float(sys.argv[1]) if sys.argv[1:] else 12)))
