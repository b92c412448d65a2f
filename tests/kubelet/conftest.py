"""The log is captured for each test."""

from __future__ import annotations

import pytest


@pytest.fixture(autouse=True)
def _quiet(log: None) -> None:
    """The log is captured."""
