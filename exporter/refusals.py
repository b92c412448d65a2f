"""What the HTTP face turned away, and whether its configuration is the one on disk.

Here: the state that metrics read. Not here: who turns away (`web`).
"""

from __future__ import annotations

from collections import Counter
from dataclasses import dataclass, field
from enum import Enum


class Refusal(Enum):
    """Why somebody got no page."""

    BUSY = "busy"
    CONNECTIONS = "connections"
    CREDENTIALS = "credentials"
    HANDSHAKE = "handshake"
    MALFORMED = "malformed"
    RATE = "rate"
    TIMEOUT = "timeout"


@dataclass(slots=True)
class FaceState:
    """`reloaded`: whether the web configuration in force is the one on disk."""

    refusals: Counter[Refusal] = field(default_factory=Counter)
    reloaded: bool = True

    def refuse(self, why: Refusal) -> None:
        """One more was turned away."""
        self.refusals[why] += 1
