"""A browser that shows a page. It has no window: how a page looks, pictures show to a person.

`python -m tests.support.browser [MINUTES]` draws the status page for the README: of a demo that
runs for so long (12), so that there is something to see.
"""

import asyncio
import contextlib
import os
import re
import sys
from collections.abc import AsyncIterator
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any, Final, Literal

from PIL import Image
from playwright.async_api import Browser, BrowserContext, Page, ViewportSize, async_playwright

from testbed import debian
from tests import ROOT
from tests.support.commands import ANYWHERE, Running

# What `make render` wrote.
RENDERED: Final = ROOT / ".cache" / "render" / "out"
_AXE: Final = RENDERED / "axe.min.js"
DESK: Final[ViewportSize] = {"width": 1280, "height": 900}
_PATIENCE_MS: Final = 60_000
# It is not on the net, and has no screen.
_ALONE: Final = (
    *("--disable-gpu", "--disable-quic", "--no-first-run", "--disable-background-networking"),
    *("--disable-component-update", "--disable-sync"),
)


def why_no_browser() -> str:
    """Say what is missing; nothing if all is there."""
    parts = (debian.find("chromium"), _AXE)
    missing = not all(part and part.exists() for part in parts)
    return "nothing to look with: make render" if missing else ""


@contextlib.asynccontextmanager
async def browsing() -> AsyncIterator[Browser]:
    async with async_playwright() as playwright:
        browser = await playwright.chromium.launch(
            executable_path=debian.find("chromium"),
            args=list(_ALONE),
            chromium_sandbox=False,
            env={**os.environ, **debian.environment("chromium")},
        )
        try:
            yield browser
        finally:
            await browser.close()


@dataclass(slots=True)
class Look:
    """A page in a browser, what it asked for, and what it complained about."""

    page: Page
    context: BrowserContext
    complaints: list[str] = field(default_factory=list)
    asked: list[str] = field(default_factory=list)

    async def has(self, text: str) -> None:
        await self.page.get_by_text(text).first.wait_for()

    async def judged(self) -> list[Any]:
        """What axe-core finds wrong, by the rules of WCAG 2.2 up to AA; pixels and all."""
        await self.page.evaluate(_AXE.read_text(encoding="utf-8"))
        tags = ["wcag2a", "wcag2aa", "wcag21a", "wcag21aa", "wcag22aa", "best-practice"]
        found = await self.page.evaluate("tags => axe.run({runOnly: tags})", tags)
        assert len(found["passes"]) > 10
        return [
            (each["id"], [node["html"] for node in each["nodes"]]) for each in found["violations"]
        ]


@contextlib.asynccontextmanager
async def looking(
    browser: Browser,
    url: str,
    viewport: ViewportSize = DESK,
    scheme: Literal["light", "dark"] = "light",
    *,
    scripts: bool = True,
) -> AsyncIterator[Look]:
    """The page at `url`, in a context of its own.

    At the end, no other server was asked, and there are no complaints.
    """
    context = await browser.new_context(
        viewport=viewport, color_scheme=scheme, java_script_enabled=scripts
    )
    context.set_default_timeout(_PATIENCE_MS)
    page = await context.new_page()
    look = Look(page, context)
    page.on("request", lambda request: look.asked.append(request.url))
    page.on("pageerror", lambda error: look.complaints.append(str(error)))
    page.on(
        "console",
        lambda message: (
            look.complaints.append(message.text) if message.type in ("error", "warning") else None
        ),
    )
    try:
        await page.goto(url)
        yield look
    finally:
        await context.close()
    origin = url.split("/")[2]
    assert {each.split("/")[2] for each in look.asked} == {origin}
    assert look.complaints == []


def slimmed(picture: Path) -> None:
    """Reduce a picture to 256 colours: a third of the size, and no visible difference."""
    with Image.open(picture) as image:
        few = image.convert("RGB").quantize(
            256, method=Image.Quantize.MAXCOVERAGE, dither=Image.Dither.NONE
        )
    few.save(picture, optimize=True)


_DEMO: Final = (
    *("--drop=0.4%", "--churn=1", "--disconnect-every=290s", "--duplicate=0", "--ghosts=0.5%"),
    *("--strays=0%", "--twins=0%", "--flaws=0%", "--stale=0%", "--wrong=0%"),
)


async def _main(minutes: float) -> int:
    if reason := why_no_browser():
        sys.stderr.write(f"{reason}\n")
        return 1
    async with (
        Running("demo", ANYWHERE, "--log.level=error", *_DEMO) as demo,
        browsing() as browser,
    ):
        found = re.search(r"http://\S+", await demo.printed())
        assert found
        await asyncio.sleep(minutes * 60)
        schemes: tuple[Literal["light", "dark"], ...] = ("light", "dark")
        for scheme in schemes:
            picture = ROOT / "docs" / f"status-{scheme}.png"
            async with looking(browser, found[0], {"width": 960, "height": 860}, scheme) as look:
                await look.page.screenshot(path=picture)
            slimmed(picture)
    return 0


if __name__ == "__main__":
    sys.exit(asyncio.run(_main(float(sys.argv[1]) if sys.argv[1:] else 12)))
