"""The status page in a real browser: live, without scripts, by keyboard, on a phone."""

import asyncio
import re
from pathlib import Path
from typing import Any, Literal

import pytest
import yaml
from playwright.async_api import Browser, Page, Route, ViewportSize

from exporter import RUNBOOKS
from exporter.web.status.page import MOST_VIEWERS
from testbed.waiting import until
from tests import ROOT
from tests.support.browser import (
    DESK,
    PHONE,
    Eyes,
    Look,
    NodeInBrowser,
    a_node,
    below,
    frozen,
    looking,
)
from tests.support.commands import fetch
from tests.support.web_clients import has_room

NOTHING_YET = "Watching, nothing has happened"
pytestmark = pytest.mark.asyncio(loop_scope="session")

# What a browser says when the server does not answer.
CUT_OFF = ("net::ERR_", "Failed to load resource")
LONG = "checkout-frontend-recommendations-7d9f8c6b54-x2x9z-a-name-may-be-longer-than-a-phone"


async def lost(node: NodeInBrowser, look: Look) -> str:
    """Lose one start, and wait until the page shows it; the container's name."""
    name = node.run(lost=True)
    await look.has(f"shop/{node.pod}-{node.number}/{name}")
    return name


async def test_a_loss_appears_and_nothing_that_a_reader_does_is_disturbed(
    browser: Browser, node: NodeInBrowser
) -> None:
    """No reload: focus, an open table, a selection and the place on the page stay."""
    async with looking(browser, node.url, Eyes(PHONE)) as look:
        page = look.page
        assert await look.state("live") == "Live"
        assert await page.locator("h1").inner_text() == NOTHING_YET
        first = await lost(node, look)
        await page.evaluate("window.before = true")
        await page.locator("#numbers summary").click()
        link = page.locator("#loss-1 a")
        await link.focus()
        await page.evaluate(
            "getSelection().selectAllChildren(document.querySelector('#loss-1 td:nth-child(3)'))"
        )
        await page.evaluate("scrollTo(0, document.body.scrollHeight)")
        place = await page.evaluate("scrollY")
        await lost(node, look)
        assert await page.locator(".losses tr[id]").count() == 2
        assert await page.evaluate("document.activeElement.closest('tr').id") == "loss-1"
        assert first in await page.evaluate("String(getSelection())")
        assert await page.locator("#numbers").get_attribute("open") is not None
        assert place > 0
        assert abs(await page.evaluate("scrollY") - place) < 200
        assert await page.evaluate("window.before")
        assert await page.locator("meta[http-equiv=refresh]").count() == 0
        assert look.asked.count(node.url) == 1
        assert await page.locator("h1").inner_text() == "The event stream lost a few events"


async def test_the_timeline_shows_witnesses_and_losses(
    browser: Browser, node: NodeInBrowser
) -> None:
    """Drawn, said in words, and in numbers; each is the same."""
    async with looking(browser, node.url) as look:
        page = look.page
        node.run()
        # Then the stream is known to be served: what is lost later is lost.
        known = page.locator("#drawing-text", has_text=" 4 events announced")
        await known.wait_for(state="attached")
        for _ in range(4):
            node.run()
        await lost(node, look)
        await page.locator("use[href='#is-lost']").first.wait_for(state="attached")
        words = await page.locator("#drawing-text").text_content() or ""
        # Six pods: a sandbox and a container each, created and started, of which one is not told.
        assert re.search(
            r"\d+ transitions seen by the relist, 23 events announced .*, 1 lost,", words
        )
        await page.locator("#numbers summary").click()
        rows = await page.locator("#numbers tr:has(td)").all_inner_texts()
        cells = [row.split("\t") for row in rows]
        assert sum(int(row[2]) for row in cells) == 23
        assert sum(int(row[4]) for row in cells) == 1
        assert {row[8] for row in cells} == {"up"}
        for bars in ("path.relist", "path.stream"):
            box = await page.locator(f".timeline {bars}").bounding_box()
            assert box is not None
            assert box["height"] >= 10


async def test_it_works_below_the_path_of_a_proxy(browser: Browser, node: NodeInBrowser) -> None:
    """As Kubernetes' API server gives it: live, from a loss to its evidence and back."""
    async with below(node.url) as url, looking(browser, url) as look:
        await look.state("live")
        name = await lost(node, look)
        await look.page.locator("#loss-1 a").click()
        record = look.page.locator("article:target")
        await record.wait_for()
        assert await record.get_attribute("id") == "record-1"
        text = await record.inner_text()
        assert f"shop/pod-1/{name}" in text
        assert "no STARTED came within the grace" in text
        await look.page.get_by_role("link", name="Status").click()
        await look.state("live")
        assert all(each.startswith(url) for each in look.asked)


async def test_without_scripts_the_page_is_complete_and_loads_itself_again(
    browser: Browser, node: NodeInBrowser
) -> None:
    """What came meanwhile is there after the next load, which this test does not wait 10 s for."""
    assert "loaded again every 10 s" in (await fetch(node.url)).text
    loads, happened = 0, asyncio.Event()

    async def load(route: Route) -> None:
        nonlocal loads
        loads += 1
        seconds = 1
        if loads > 1:
            await happened.wait()
            seconds = 3600
        page = (await route.fetch()).text
        text = (await page()).replace('"refresh" content="10"', f'"refresh" content="{seconds}"')
        await route.fulfill(body=text, content_type="text/html")

    async with looking(browser, node.url, Eyes(scripts=False, loaded=False)) as look:
        page = look.page
        await page.route(node.url, load)
        await page.goto(node.url)
        name = node.run(lost=True)

        async def is_shown() -> bool:
            return f"shop/pod-1/{name}" in (await fetch(node.url)).text

        await until(is_shown, "the next load has it")
        # Until the next load is there, the browser answers nothing about the page.
        happened.set()
        await look.has(f"shop/pod-1/{name}")
        assert await page.locator(".timeline").is_visible()
        for heading in ("Last misses", "Runtime", "Event stream", "Health", "Missed events"):
            assert await page.get_by_role("heading", name=heading).first.is_visible()
        assert [url for url in look.asked if url.endswith("/events")] == []
        assert look.asked.count(node.url) == loads == 2


FOCUS = """() => {
  const at = document.activeElement, box = at.getBoundingClientRect();
  const style = getComputedStyle(at);
  return {
    name: at === document.body ? ''
      : at.getAttribute('href') || at.getAttribute('aria-label') || at.tagName,
    seen: box.width > 0 && box.top >= 0 && box.bottom <= innerHeight + 1,
    outline: style.outlineStyle === 'none' ? 0 : parseFloat(style.outlineWidth),
  };
}"""


async def tabbed(page: Page) -> list[dict[str, Any]]:
    """All that the tab key comes to, in its order."""
    found: list[dict[str, Any]] = []
    for _ in range(60):
        await page.keyboard.press("Tab")
        at = await page.evaluate(FOCUS)
        if not at["name"]:
            return found
        found.append(at)
    raise AssertionError(f"there is no way out: {found}")


async def test_the_keyboard_comes_to_everything_and_shows_where_it_is(
    browser: Browser, node: NodeInBrowser
) -> None:
    """In the order of the page; a table opens with Enter."""
    async with looking(browser, node.url) as look:
        page = look.page
        await lost(node, look)
        await page.locator("#numbers summary").focus()
        await page.keyboard.press("Enter")
        assert await page.locator("#numbers table").is_visible()
        await page.evaluate("document.activeElement.blur(); getSelection().removeAllRanges()")
        await page.reload()
        await page.locator("#numbers summary").evaluate("each => each.click()")
        stops = await tabbed(page)
        assert [stop["name"] for stop in stops] == [
            f"{RUNBOOKS}/ShadowPlegMissedEvents.md",
            "SUMMARY",
            "The timeline in numbers",
            "./debug/misses?record=1#record-1",
            *("./metrics", "./livez", "./readyz", "./debug/misses"),
        ]
        assert all(stop["seen"] and stop["outline"] >= 2 for stop in stops), stops


@pytest.mark.parametrize("scheme", ["light", "dark"])
@pytest.mark.parametrize("viewport", [PHONE, DESK], ids=["phone", "desk"])
async def test_it_is_accessible(
    browser: Browser, node: NodeInBrowser, scheme: Literal["light", "dark"], viewport: ViewportSize
) -> None:
    """By the rules of WCAG to AA, contrast with them; nothing is wider than the screen."""
    async with looking(browser, node.url, Eyes(viewport, scheme)) as look:
        page, node.pod = look.page, LONG
        await fits(page)
        await lost(node, look)
        await page.locator("#numbers summary").click()
        assert await look.judged() == []
        await fits(page)
        await page.locator("#loss-1 a").click()
        await page.locator("article:target").wait_for()
        for summary in await page.locator("summary").all():
            await summary.click()
        assert await look.judged() == []
        await fits(page)


async def fits(page: Page) -> None:
    """No scrolling sideways."""
    wide, room = await page.evaluate("[document.documentElement.scrollWidth, innerWidth]")
    assert wide <= room


async def test_a_lost_connection_is_shown_and_comes_back(browser: Browser) -> None:
    """With the time since when; what is shown stays, and is updated once the server is back."""
    async with (
        a_node() as node,
        looking(browser, node.url, Eyes(loaded=False, excused=CUT_OFF)) as look,
    ):
        async with node.watched():
            await look.page.goto(node.url)
            await look.state("live")
            name = await lost(node, look)
        words = await look.state("lost")
        assert re.fullmatch(r"Not live since \d\d:\d\d:\d\d UTC, trying again", words)
        assert await look.page.get_by_text(name).is_visible()
        async with node.watched():
            assert await look.state("live") == "Live"
            await look.page.get_by_text(name).wait_for(state="detached")
            await lost(node, look)


async def test_a_stopped_process_is_noticed(browser: Browser) -> None:
    """The connection stays, but no beat comes: ages go on, and after a while it is not live."""
    async with (
        a_node() as node,
        node.watched() as process,
        looking(browser, node.url, Eyes(loaded=False, excused=CUT_OFF)) as look,
    ):
        await look.page.clock.install()
        await look.page.goto(node.url)
        await look.state("live")
        ages = []
        with frozen(process):
            for _ in range(4):
                await look.page.clock.run_for(1000)
                age = await look.page.locator("[data-since]").inner_text()
                ages.append(int(age.removesuffix(" s ago")))
            await look.page.clock.fast_forward(30_000)
            await look.state("lost")
        await look.page.clock.fast_forward(30_000)
        await look.state("live")
    assert ages == sorted(set(ages))


async def test_it_works_under_the_headers_of_the_example(browser: Browser, tmp_path: Path) -> None:
    """Style, scripts, live updates and evidence; a browser complains about what is blocked."""
    example = yaml.safe_load((ROOT / "docs" / "web-config.example.yml").read_text("utf-8"))
    headers = example["http_server_config"]["headers"]
    file = tmp_path / "web.yml"
    file.write_text(yaml.safe_dump({"http_server_config": {"headers": headers}}))
    async with (
        a_node() as node,
        node.watched(f"--web.config.file={file}"),
        looking(browser, node.url) as look,
    ):
        sent = (await fetch(node.url)).headers
        assert sent.items() >= headers.items()
        assert await look.state("live") == "Live"
        await lost(node, look)
        edge = "getComputedStyle(document.querySelector('.headline')).borderLeftStyle"
        assert await look.page.evaluate(edge) == "solid"
        await look.page.locator("#loss-1 a").click()
        await look.page.locator("article:target").wait_for()


HIDE = """(value) => {
  Object.defineProperty(document, 'hidden', { value, configurable: true });
  document.dispatchEvent(new Event('visibilitychange'));
}"""


async def test_a_hidden_page_frees_its_place(browser: Browser, node: NodeInBrowser) -> None:
    """It is live again when it is shown."""
    async with looking(browser, node.url) as look:
        await look.state("live")
        await look.page.evaluate(HIDE, True)  # noqa: FBT003 -- a value

        await until(lambda: has_room(node.url, MOST_VIEWERS), "others find a place")
        name = node.run(lost=True)
        await look.page.evaluate(HIDE, False)  # noqa: FBT003 -- a value
        await look.has(f"shop/pod-1/{name}")
