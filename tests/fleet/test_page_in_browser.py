"""The HTML report in a real browser: all of it is visible, on a screen and on paper."""

import re

import pytest

from testbed.fixtures import unavailable
from tests.fleet.conftest import Mixed
from tests.support.browser import browsing, why_no_browser

# Regions whose content is wider than they are, and the page if it is.
HIDING = """() => [...document.querySelectorAll('.scroll, html')]
    .filter(each => each.scrollWidth > each.clientWidth + 1)
    .map(each => each.getAttribute('aria-label') || 'the page')"""
# A4 across within the page's own margins, in CSS pixels.
PAPER = 1032


@pytest.mark.parametrize(
    ("width", "medium", "hidden"),
    [
        (1440, "screen", r""),
        (1024, "screen", r""),
        (PAPER, "print", r""),
        # Wide tables and charts are scrolled by themselves; the page is not.
        (390, "screen", r"(Chart|Table) of .*"),
    ],
)
async def test_nothing_is_cut_off(mixed: Mixed, width: int, medium: str, hidden: str) -> None:
    """Every column of every table, and every chart."""
    if reason := why_no_browser():
        unavailable(reason)
    text = (await mixed("--output-format=html")).out
    async with browsing() as browser:
        page = await browser.new_page(viewport={"width": width, "height": 900})
        await page.emulate_media(media="print" if medium == "print" else "screen")
        await page.set_content(text)
        found = await page.evaluate(HIDING)
    assert [name for name in found if not re.fullmatch(hidden, name)] == []
