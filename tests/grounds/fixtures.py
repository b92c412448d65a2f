"""Fixtures that start real parts; load them with `pytest_plugins = ["tests.grounds.fixtures"]`.

A part that cannot run here skips the test with its reason. Where CI is "true" it fails instead:
a green build that tested nothing would be a lie.
"""

import asyncio
import os
from collections.abc import AsyncIterator
from pathlib import Path
from typing import NoReturn

import pytest
import pytest_asyncio

from tests.grounds import debian
from tests.grounds.containerd import VERSIONS, Containerd, why_not
from tests.grounds.leftovers import sweep_abandoned


def unavailable(reason: str) -> NoReturn:
    """Skip the test, or fail it in CI."""
    if os.environ.get("CI") == "true":
        pytest.fail(reason, pytrace=False)
    pytest.skip(reason)


async def _running(version: str) -> AsyncIterator[Containerd]:
    if reason := why_not(version):
        unavailable(reason)
    await asyncio.to_thread(sweep_abandoned)
    async with Containerd(version) as containerd:
        yield containerd


@pytest_asyncio.fixture
async def containerd_21() -> AsyncIterator[Containerd]:
    """Start containerd 2.1 (broadcast event stream)."""
    async for containerd in _running("2.1"):
        yield containerd


@pytest_asyncio.fixture
async def containerd_17() -> AsyncIterator[Containerd]:
    """Start containerd 1.7 (subscribers share the events)."""
    async for containerd in _running("1.7"):
        yield containerd


@pytest_asyncio.fixture
async def containerd_16() -> AsyncIterator[Containerd]:
    """Start containerd 1.6 (no event stream)."""
    async for containerd in _running("1.6"):
        yield containerd


@pytest_asyncio.fixture(params=VERSIONS)
async def containerd(request: pytest.FixtureRequest) -> AsyncIterator[Containerd]:
    """Start each containerd in turn."""
    async for containerd in _running(request.param):
        yield containerd


@pytest.fixture(scope="session")
def promtool() -> Path:
    """Return the path of Prometheus' own checker of rules and metrics."""
    path = debian.find("promtool")
    if path is None:
        unavailable("promtool was not fetched (python -m tests.grounds.debian fetch promtool)")
    return path
