"""Fixtures: a quiet log, certificates, recorded calls of the runtime."""

from __future__ import annotations

import ssl
from dataclasses import dataclass
from pathlib import Path

import pytest
import trustme


@dataclass(frozen=True, slots=True)
class Papers:
    """A certificate for 127.0.0.1, the file of its authority, and a file with a token."""

    server: ssl.SSLContext
    ca: Path
    token: Path
    authority: trustme.CA


@pytest.fixture(autouse=True)
def _quiet(log: None) -> None:
    """The log is captured."""


@pytest.fixture(scope="session")
def authority() -> trustme.CA:
    """Who signs."""
    return trustme.CA()


@pytest.fixture
def papers(authority: trustme.CA, tmp_path: Path) -> Papers:
    """All that a kubelet and who asks it need."""
    server = ssl.create_default_context(ssl.Purpose.CLIENT_AUTH)
    authority.issue_cert("127.0.0.1").configure_cert(server)
    ca, token = tmp_path / "ca.crt", tmp_path / "token"
    authority.cert_pem.write_to_path(str(ca))
    token.write_text("first-token\n", encoding="ascii")
    return Papers(server, ca, token, authority)
