"""Every error of this package, split by what the caller does next.

ShadowPlegError
+-- ConfigError                say it, exit 2
+-- PrometheusError            no report can be made: say it, exit 1
+-- KubeletError               the kubelet did not tell: count `reason`, ask again later
+-- RecordingError             the recording is not whole: say it, exit 1
+-- FormError                  a line of a recording is malformed: the file is damaged there
+-- DamageError                nothing behind this byte of a recording is believed: say it, exit 1
+-- BusyError                  too many wait already: answer 429 or 503
+-- CriError                   what a runtime answered, `reason` is the gRPC code
    +-- CriUnavailableError    nobody there, or too slow: try again later
    +-- CriUnimplementedError  the runtime has no such call: fall back
    +-- CriNotFoundError       the container is gone: no answer to be had
    +-- UndecodableError       the bytes are no message: count it, try again later
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


class UndecodableError(CriError):
    """The bytes are no message of this kind."""

    def __init__(self, what: str) -> None:
        super().__init__("internal", f"the runtime sent a {what} that is no protobuf message")


class RecordingError(ShadowPlegError):
    """The recording is not whole; the message says why, and what to do."""


class FormError(ShadowPlegError):
    """A line is not of the form that it should have; the message says in what."""


class DamageError(ShadowPlegError):
    """From byte `at` on, the file is no recording; the message says why."""

    def __init__(self, at: int, why: str) -> None:
        super().__init__(why)
        self.at = at


class BusyError(ShadowPlegError):
    """There is no room to wait in."""
