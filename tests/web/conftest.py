"""Timings for the tests of access control."""

from __future__ import annotations

import pytest


@pytest.fixture(autouse=True)
def _not_nice(monkeypatch: pytest.MonkeyPatch) -> None:
    """Passwords are looked at as soon as anything else: on a busy machine the nicest wait long."""
    monkeypatch.setattr("exporter.web.access.credentials._NICEST", 0)


@pytest.fixture
def _attentive(monkeypatch: pytest.MonkeyPatch) -> None:
    """Files are looked at a good deal more often than in earnest."""
    monkeypatch.setattr("exporter.web.access.policy._EVERY", 0.02)
