"""Fixtures: a captured log, a folder for sockets, and a scripted runtime."""

from __future__ import annotations

from collections.abc import AsyncIterator, Iterator
from pathlib import Path

import pytest
import pytest_asyncio
import structlog
from structlog.typing import EventDict

from tests.support.runtimes import short_folder, simulated
from tests.support.scripted_runtime import ScriptedServer


@pytest.fixture
def log() -> Iterator[list[EventDict]]:
    """Every line that is logged, in order, at any level."""
    with structlog.testing.capture_logs() as lines:
        yield lines


@pytest.fixture
def folder() -> Iterator[Path]:
    """A folder whose path leaves room for a socket's name."""
    with short_folder() as path:
        yield path


@pytest_asyncio.fixture
async def server() -> AsyncIterator[ScriptedServer]:
    """A quiet containerd 2 without pods."""
    async with simulated() as quiet:
        yield quiet
