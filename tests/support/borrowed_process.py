"""What a command leaves behind in a process, taken back."""

from __future__ import annotations

import logging
import signal
from collections.abc import Iterator

import pytest
import structlog

from exporter.settings.config import Config
from exporter.settings.declaring import flags_of


@pytest.fixture
def clean_environment(monkeypatch: pytest.MonkeyPatch) -> None:
    """No variable of this machine chooses a setting."""
    for setting in flags_of(Config):
        monkeypatch.delenv(setting.env, raising=False)


@pytest.fixture
def borrowed_process(clean_environment: None) -> Iterator[None]:  # noqa: ARG001 -- wanted for what it does
    """Signals and logging, as a command in this process changes them, go back to what they were."""
    handlers = {each: signal.getsignal(each) for each in (signal.SIGTERM, signal.SIGINT)}
    root = logging.getLogger()
    level, listeners = root.level, root.handlers[:]
    yield
    structlog.reset_defaults()
    root.setLevel(level)
    root.handlers[:] = listeners
    for each, handler in handlers.items():
        signal.signal(each, handler)
