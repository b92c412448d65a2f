"""Names as in a real cluster: 64-digit ids, pod names with hashes, sidecars."""

import random
import uuid
from typing import Final

# The alphabet of Kubernetes' generated names, which cannot spell words.
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
    """Generates ids and names; the same `rng` state yields the same ones."""

    def __init__(self, rng: random.Random) -> None:
        self._rng = rng

    def id(self) -> str:
        """64 hexadecimal digits."""
        return f"{self._rng.getrandbits(256):064x}"

    def uid(self) -> str:
        """A pod's uid."""
        return str(uuid.UUID(int=self._rng.getrandbits(128), version=4))

    def pod(self, index: int) -> tuple[str, str]:
        """A new name, and the namespace, for a workload's pod in place `index`."""
        namespace, workload = _WORKLOADS[index % len(_WORKLOADS)]
        return f"{workload}-{self._draw(9)}-{self._draw(5)}", namespace

    def _draw(self, length: int) -> str:
        return "".join(self._rng.choices(_SAFE, k=length))


def container_name(index: int) -> str:
    """The name of the container in place `index` of its pod."""
    if index < len(_CONTAINERS):
        return _CONTAINERS[index]
    return f"sidecar-{index}"
