"""A browser, and a node that it looks at."""

from collections.abc import AsyncIterator

import pytest_asyncio
from playwright.async_api import Browser

from testbed.fixtures import unavailable
from tests.support.browser import NodeInBrowser, a_node, browsing, why_no_browser


@pytest_asyncio.fixture(scope="session", loop_scope="session")
async def browser() -> AsyncIterator[Browser]:
    """One for all tests; each has a context of its own."""
    if reason := why_no_browser():
        unavailable(reason)
    async with browsing() as found:
        yield found


@pytest_asyncio.fixture(loop_scope="session")
async def node() -> AsyncIterator[NodeInBrowser]:
    """A node that is watched."""
    async with a_node() as found, found.watched():
        yield found
