"""The loops' log is captured, and simulated runtimes write down what they are asked."""

from __future__ import annotations

import pytest


@pytest.fixture(autouse=True)
def _stage(log: None, _recorded: None) -> None:
    """Both, for each test."""
