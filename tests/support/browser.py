"""A scripted node, an exporter that watches it, and a browser that shows its page.

Blind spot: the browser has no window; how the page looks is for `pictures` and a person.
"""

import contextlib
import os
from collections.abc import AsyncIterator
from dataclasses import dataclass, field
from typing import Any, Final, Literal

from aiohttp.test_utils import unused_port
from playwright.async_api import Browser, BrowserContext, Page, ViewportSize, async_playwright

from exporter.model.events import EventType
from testbed import debian
from tests import ROOT
from tests.support.commands import Exporter
from tests.support.runtimes import simulated
from tests.support.scripted_runtime import ScriptedServer

# What `make render` wrote.
RENDERED: Final = ROOT / ".cache" / "render" / "out"
_AXE: Final = RENDERED / "axe.min.js"
PHONE: Final[ViewportSize] = {"width": 360, "height": 740}
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
class NodeInBrowser:
    """A runtime in which containers start on command, and the exporter that watches it."""

    runtime: ScriptedServer
    port: int
    number: int = 0
    pod: str = "pod"

    @property
    def url(self) -> str:
        """Of the page; the same after a restart."""
        return f"http://127.0.0.1:{self.port}/"

    @contextlib.asynccontextmanager
    async def watched(self) -> AsyncIterator[Exporter]:
        at = (f"--web.listen-address=127.0.0.1:{self.port}", "--node-name=node-7")
        async with Exporter(self.runtime.socket, *at) as exporter:
            await exporter.streaming()
            yield exporter

    def run(self, *, lost: bool = False) -> str:
        """A pod with a container that starts, which is announced unless it is lost; its name."""
        world, self.number = self.runtime.runtime, self.number + 1
        name = f"app-{self.number}"
        container = world.create(world.run_pod(f"{self.pod}-{self.number}", "shop"), name)
        if lost:
            world.outbox.drop_next(container, EventType.STARTED)
        world.start(container)
        return name


@contextlib.asynccontextmanager
async def a_node() -> AsyncIterator[NodeInBrowser]:
    async with simulated() as runtime:
        yield NodeInBrowser(runtime, unused_port())


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
