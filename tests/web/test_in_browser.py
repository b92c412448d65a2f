"""The status page in a real browser: it loads itself again, on a phone, for all users."""

import itertools
import signal
from collections.abc import AsyncIterator
from contextlib import AsyncExitStack, asynccontextmanager
from dataclasses import dataclass
from typing import Final, Literal

import pytest
import pytest_asyncio
from aiohttp.test_utils import unused_port
from playwright.async_api import Browser, ViewportSize

from exporter.model.events import EventType
from testbed.fixtures import unavailable
from tests.support.browser import DESK, Look, browsing, looking, why_no_browser
from tests.support.commands import Exporter, answered
from tests.support.runtimes import ScriptedServer, simulated

pytestmark = pytest.mark.asyncio(loop_scope="session")

PHONE: Final[ViewportSize] = {"width": 360, "height": 740}


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

    @asynccontextmanager
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


@asynccontextmanager
async def a_node() -> AsyncIterator[NodeInBrowser]:
    async with simulated() as runtime:
        yield NodeInBrowser(runtime, unused_port())


@pytest_asyncio.fixture(scope="session", loop_scope="session")
async def browser() -> AsyncIterator[Browser]:
    """One for all tests; each has a context of its own."""
    if reason := why_no_browser():
        unavailable(reason)
    async with browsing() as found:
        yield found


@pytest_asyncio.fixture(loop_scope="session")
async def node() -> AsyncIterator[NodeInBrowser]:
    async with a_node() as found, found.watched():
        yield found


LONG = "checkout-frontend-recommendations-7d9f8c6b54-x2x9z-a-name-may-be-longer-than-a-phone"


@pytest.mark.parametrize("scripts", [True, False])
async def test_a_loss_appears_and_the_place_on_the_page_stays(
    browser: Browser, node: NodeInBrowser, *, scripts: bool
) -> None:
    """In place, with the focus; or by a reload where there are no scripts."""
    node.run()
    async with looking(browser, node.url, PHONE, scripts=scripts) as look:
        await look.page.mouse.wheel(0, 500)
        await look.page.locator("nav a").first.evaluate("it => it.focus({preventScroll: true})")
        before = await look.page.evaluate("scrollY")
        assert before > 100
        name = node.run(lost=True)
        await look.has(f"shop/{node.pod}-{node.number}/{name}")
        assert look.asked.count(node.url) > 1
        assert abs(await look.page.evaluate("scrollY") - before) < 200
        focused = await look.page.evaluate("document.activeElement.getAttribute('href')")
        assert focused == "./metrics" or not scripts
        heading = await look.page.locator("h1").inner_text()
        assert heading == "The event stream lost a few events"
        lane = look.page.locator("tr", has_text="missed").locator("path").first
        assert await lane.get_attribute("d")


async def test_an_exporter_that_is_gone_is_noticed_and_comes_back(browser: Browser) -> None:
    async with a_node() as node, AsyncExitStack() as stack:
        exporter = await stack.enter_async_context(node.watched())
        look = await stack.enter_async_context(looking(browser, node.url))
        await exporter.end(signal.SIGKILL)
        await look.page.locator("body.lost main").wait_for()
        async with node.watched():
            await look.page.locator("body:not(.lost) main").wait_for()
        assert all("net::ERR_" in each for each in look.complaints)
        look.complaints.clear()


async def test_the_page_is_accessible(browser: Browser, node: NodeInBrowser) -> None:
    """By the rules of WCAG to AA, contrast with them; nothing is wider than the screen."""
    node.pod = LONG
    name = node.run(lost=True)
    await answered(node.url, lambda page: f"{LONG}-1/{name}" in page.text, "the loss is shown")
    schemes: tuple[Literal["light", "dark"], ...] = ("light", "dark")
    for scheme, viewport in itertools.product(schemes, (PHONE, DESK)):
        async with looking(browser, node.url, viewport, scheme) as look:
            await is_good(look)
            await look.page.locator(".cases a").click()
            await look.page.locator("article:target").wait_for()
            await is_good(look)


async def is_good(look: Look) -> None:
    for summary in await look.page.locator("summary").all():
        await summary.click()
    assert await look.judged() == []
    sizes = "[document.documentElement.scrollWidth, innerWidth]"
    wide, room = await look.page.evaluate(sizes)
    assert wide <= room
