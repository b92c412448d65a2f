"""Fixtures: a quiet log, and a simulated runtime that writes down what it is asked."""

from __future__ import annotations

from collections.abc import AsyncIterator, Iterator
from pathlib import Path

import pytest
import pytest_asyncio
import structlog
from structlog.typing import EventDict

from exporter.simulator.server import SimulatedServer
from tests.support.runtimes import RecordedCalls, short_folder, simulated


@pytest.fixture
def log() -> Iterator[list[EventDict]]:
    """Every line that is logged, in order, at any level."""
    with structlog.testing.capture_logs() as lines:
        yield lines


@pytest.fixture(scope="module")
def _recorded() -> Iterator[None]:
    """Simulated runtimes write down what they are asked."""
    with pytest.MonkeyPatch.context() as patch:
        patch.setattr("exporter.simulator.server.CallFaults", RecordedCalls)
        yield


@pytest.fixture
def folder() -> Iterator[Path]:
    """A folder whose path leaves room for a socket's name."""
    with short_folder() as path:
        yield path


@pytest_asyncio.fixture
async def server() -> AsyncIterator[SimulatedServer]:
    """A quiet containerd 2 without pods."""
    async with simulated() as quiet:
        yield quiet
