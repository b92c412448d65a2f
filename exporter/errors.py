"""Every error of this package, split by what the caller does next.

ShadowPlegError
+-- ConfigError                say it, exit 2
+-- PrometheusError            no report can be made: say it, exit 1
+-- KubeletError               the kubelet did not tell: count `reason`, ask again later
+-- CriError                   what a runtime answered, `reason` is the gRPC code
    +-- CriUnavailableError    nobody there, or too slow: try again later
    +-- CriUnimplementedError  the runtime has no such call: fall back
    +-- CriNotFoundError       the container is gone: no answer to be had
"""

from __future__ import annotations


class ShadowPlegError(Exception):
    """Root of the errors that this package raises on purpose."""


class ConfigError(ShadowPlegError):
    """A flag, an environment variable or a file that cannot be used; the message names it."""


class PrometheusError(ShadowPlegError):
    """A Prometheus cannot be reached, refuses, or knows nothing of us; the message says what."""


class KubeletError(ShadowPlegError):
    """The kubelet's metrics could not be had. `reason`: a `pleg.kubelet.Problem`, by its value."""

    def __init__(self, reason: str, message: str) -> None:
        super().__init__(message)
        self.reason = reason


class CriError(ShadowPlegError):
    """A call to the runtime failed. `reason`: gRPC's code in lower case."""

    def __init__(self, reason: str, message: str) -> None:
        super().__init__(message)
        self.reason = reason


class CriUnavailableError(CriError):
    """The runtime did not answer, or not in time."""


class CriUnimplementedError(CriError):
    """The runtime does not have this call."""


class CriNotFoundError(CriError):
    """The runtime does not know this id (any more)."""
