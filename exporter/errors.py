"""Every error of this package, split by what the caller does next, and how foreign text is shown.

ShadowPlegError
+-- ConfigError                report it, exit 2
+-- UnknownError               the question has no answer now: print it, exit 2
+-- PrometheusError            no report is possible: report that, exit 1
+-- KubeletError               a reading failed: count `reason`, retry later
+-- KernelError                there are no cgroups to read: a state, retry at the next relist
+-- RecordingError             the recording is incomplete: report it, exit 1
+-- OutgrownError              this process cannot go on with what it knows: exit 1, be restarted
+-- CriError                   a call to the runtime failed, `reason` is the gRPC code
    +-- CriUnavailableError    not reachable, or too slow: retry later
    +-- CriUnimplementedError  the runtime does not implement the call: fall back
    +-- CriNotFoundError       the container is gone: there is no answer
    +-- CriUnsendableError     an answer is larger than the runtime can send: ask for less
    +-- UndecodableError       the bytes are not a message: count it, retry later
    +-- TooLargeError          more than there is room for: count it, retry later
        +-- CrowdedError       it would fit, were less known already: the same, and at last restart
"""

import unicodedata
from typing import Final

# Control and format characters, lone surrogates, line and paragraph separators.
_UNFIT: Final = frozenset({"Cc", "Cf", "Cs", "Zl", "Zp"})


def printable(text: str, keep: str = "") -> str:
    """The text with unsafe characters escaped, except for those in `keep`."""
    if text.isprintable():
        return text
    return "".join(
        char.encode("unicode_escape").decode()
        if unicodedata.category(char) in _UNFIT and char not in keep
        else char
        for char in text
    )


class ShadowPlegError(Exception):
    """Root of the errors that this package raises on purpose.

    `remedy`: what to do about the `problem`, where it is kept apart from it; the text has both.
    """

    def __init__(self, problem: str = "", remedy: str = "") -> None:
        super().__init__(f"{problem}: {remedy}" if remedy else problem)
        self.problem, self.remedy = problem, remedy


class ConfigError(ShadowPlegError):
    """An unusable flag, environment variable or file; the message names it."""


class UnknownError(ShadowPlegError):
    """A condition of the node is not known; the message is one line that says why."""


class PrometheusError(ShadowPlegError):
    """Prometheus is unreachable, refuses, or has no shadow-pleg metrics; the message says which."""


class KubeletError(ShadowPlegError):
    """The kubelet's pods were not read. `reason`: the value of a `PodsEnd`."""

    def __init__(self, reason: str, message: str) -> None:
        super().__init__(message)
        self.reason = reason


class KernelError(ShadowPlegError):
    """The containers' cgroups cannot be read; the message names the file, printably."""

    def __init__(self, error: OSError, root: str) -> None:
        super().__init__(f"{printable(str(error.filename or root))}: {error.strerror}")


class CriError(ShadowPlegError):
    """A call to the runtime failed. `reason`: gRPC's code in lower case."""

    def __init__(self, reason: str, problem: str, remedy: str = "") -> None:
        super().__init__(problem, remedy)
        self.reason = reason


class CriUnavailableError(CriError):
    """The runtime did not answer, or not in time."""


class CriUnimplementedError(CriError):
    """The runtime does not implement this call."""


class CriNotFoundError(CriError):
    """The runtime does not know this id, or no longer does."""


class CriUnsendableError(CriError):
    """The answer is larger than one message of the runtime may be."""


class UndecodableError(CriError):
    """The bytes are not a message of this kind."""

    def __init__(self, what: str) -> None:
        super().__init__("internal", f"the runtime sent a {what} that is no protobuf message")


class TooLargeError(CriError):
    """The runtime sent more than `cri.limits` allow."""

    def __init__(self, what: str) -> None:
        remedy = "see with crictl what is so large, and remove what has exited"
        super().__init__("resource_exhausted", f"the runtime sent {what}", remedy)


class CrowdedError(TooLargeError):
    """More in the lists is new than there is room for beside what is known."""


class OutgrownError(ShadowPlegError):
    """Only a process that knows nothing yet can take what the runtime lists."""


class RecordingError(ShadowPlegError):
    """The recording is incomplete; the message says why, and what to do."""
