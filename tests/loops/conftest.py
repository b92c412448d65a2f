"""The loops' log is captured."""

from __future__ import annotations

import pytest


@pytest.fixture(autouse=True)
def _stage(log: None) -> None:
    """For each test."""
