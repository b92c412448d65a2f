"""Names as a cluster gives them: 64-digit ids, pod names with hashes, sidecars.

Here: everything that is drawn at random to look real.
"""

from __future__ import annotations

import random
import uuid
from typing import Final

# What Kubernetes uses in generated names: nothing that could spell a word.
_SAFE: Final = "bcdfghjklmnpqrstvwxz2456789"

_WORKLOADS: Final = (
    ("checkout", "payments"),
    ("checkout", "cart"),
    ("checkout", "invoice-writer"),
    ("catalog", "search"),
    ("catalog", "product-api"),
    ("catalog", "image-resizer"),
    ("identity", "login"),
    ("identity", "token-issuer"),
    ("logistics", "route-planner"),
    ("logistics", "stock"),
    ("observability", "log-router"),
    ("batch", "report-builder"),
)
_CONTAINERS: Final = (
    "app",
    "proxy",
    "log-shipper",
    "metrics",
    "config-reloader",
    "cache",
    "secrets-agent",
)


class Names:
    """A source of ids and names; the same `rng` state gives the same ones."""

    def __init__(self, rng: random.Random) -> None:
        self._rng = rng

    def id(self) -> str:
        """64 hexadecimal digits."""
        return f"{self._rng.getrandbits(256):064x}"

    def uid(self) -> str:
        """A pod's uid."""
        return str(uuid.UUID(int=self._rng.getrandbits(128), version=4))

    def pod(self, index: int) -> tuple[str, str]:
        """A fresh name, and the namespace, of a pod of the workload in place `index`."""
        namespace, workload = _WORKLOADS[index % len(_WORKLOADS)]
        return f"{workload}-{self._draw(9)}-{self._draw(5)}", namespace

    def _draw(self, length: int) -> str:
        return "".join(self._rng.choices(_SAFE, k=length))


def container_name(index: int) -> str:
    """The name of the container in place `index` of its pod."""
    if index < len(_CONTAINERS):
        return _CONTAINERS[index]
    return f"sidecar-{index}"
