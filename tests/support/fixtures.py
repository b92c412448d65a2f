"""Fixtures: a process that gets back what a command changes, logs, terminals, a runtime."""

import logging
import signal
from collections.abc import AsyncIterator, Iterator
from pathlib import Path

import pytest
import pytest_asyncio
import structlog
from structlog.typing import EventDict

from exporter.settings.config import Config
from exporter.settings.declaring import flags_of
from tests.support.runtimes import short_folder, simulated
from tests.support.scripted_runtime import ScriptedServer


@pytest.fixture
def borrowed_process(monkeypatch: pytest.MonkeyPatch) -> Iterator[None]:
    """Signals and logging, as a command in this process changes them, go back to what they were."""
    for setting in flags_of(Config):
        monkeypatch.delenv(setting.env, raising=False)
    handlers = {each: signal.getsignal(each) for each in (signal.SIGTERM, signal.SIGINT)}
    root = logging.getLogger()
    level, listeners = root.level, root.handlers[:]
    yield
    structlog.reset_defaults()
    root.setLevel(level)
    root.handlers[:] = listeners
    for each, handler in handlers.items():
        signal.signal(each, handler)


@pytest.fixture
def log() -> Iterator[list[EventDict]]:
    """Every line that is logged, in order, at any level."""
    with structlog.testing.capture_logs() as lines:
        yield lines


@pytest.fixture
def sound_log(log: list[EventDict]) -> Iterator[None]:
    """The log of this process is shown where a test fails, and has no exception."""
    yield
    print(*log, sep="\n")  # noqa: T201
    assert not any(line.get("exc_info") for line in log), "an exception logged"


@pytest.fixture
def folder() -> Iterator[Path]:
    with short_folder() as path:
        yield path


@pytest_asyncio.fixture
async def server() -> AsyncIterator[ScriptedServer]:
    """A quiet containerd 2 without pods."""
    async with simulated() as quiet:
        yield quiet
