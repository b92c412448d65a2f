"""Every error of this package, by what the caller does next; and how text is shown."""

from __future__ import annotations

import sys
import unicodedata
from typing import TYPE_CHECKING, Final

if TYPE_CHECKING:
    import jinja2

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


def templates(package: str, *, keep_trailing_newline: bool = False) -> jinja2.Environment:
    """A package's text templates; they escape foreign texts, which must not control a terminal."""
    import jinja2  # noqa: PLC0415 - two MiB, which few commands need

    return jinja2.Environment(
        loader=jinja2.PackageLoader(package),
        autoescape=False,  # noqa: S701 - not HTML
        trim_blocks=True,
        lstrip_blocks=True,
        keep_trailing_newline=keep_trailing_newline,
        undefined=jinja2.StrictUndefined,
        finalize=lambda value: printable(value) if isinstance(value, str) else value,
    )


class ShadowPlegError(Exception):
    """Root of the errors that this package raises on purpose.

    `remedy`: what to do about the `problem`; "" if that says so itself. The message has both.
    """

    def __init__(self, problem: str = "", remedy: str = "") -> None:
        super().__init__(f"{problem}: {remedy}" if remedy else problem)
        self.problem, self.remedy = problem, remedy


class ConfigError(ShadowPlegError):
    """An unusable flag, variable or file, which the message names: report it, exit 2."""


class UnknownError(ShadowPlegError):
    """A condition of the node is not known, and one line says why: print it, exit 2."""


class OutputError(ShadowPlegError):
    """Text was not written to stdout: report the message; without one, its reader left; exit 1."""


class PrometheusError(ShadowPlegError):
    """Prometheus is unreachable, refuses, or has no shadow-pleg metrics: report that, exit 1."""


class KubeletError(ShadowPlegError):
    """The kubelet's pods were not read: count `reason`, the value of a `PodsEnd`; retry later."""

    def __init__(self, reason: str, message: str) -> None:
        super().__init__(message)
        self.reason = reason


class KernelError(ShadowPlegError):
    """The containers' cgroups cannot be read: report it as a state; retry at the next relist."""

    def __init__(self, error: OSError, root: str) -> None:
        super().__init__(f"{printable(str(error.filename or root))}: {error.strerror}")


class CriError(ShadowPlegError):
    """A call to the runtime failed. `reason`: gRPC's code in lower case."""

    def __init__(self, reason: str, problem: str, remedy: str = "") -> None:
        super().__init__(problem, remedy)
        self.reason = reason


class CriUnavailableError(CriError):
    """The runtime did not answer, or not in time: retry later."""


class CriUnimplementedError(CriError):
    """The runtime does not implement this call: fall back."""


class CriNotFoundError(CriError):
    """The runtime does not know this id, or no longer does: there is no answer."""


class CriUnsendableError(CriError):
    """The answer is larger than one message of the runtime may be: ask for less."""


class UndecodableError(CriError):
    """The bytes are not a message of this kind: count it, retry later."""

    def __init__(self, what: str) -> None:
        super().__init__("internal", f"the runtime sent a {what} that is no protobuf message")


class TooLargeError(CriError):
    """The runtime sent more than `cri.limits` allow: count it, retry later."""

    def __init__(self, what: str) -> None:
        remedy = "see with crictl what is so large, and remove what has exited"
        super().__init__("resource_exhausted", f"the runtime sent {what}", remedy)


class CrowdedError(TooLargeError):
    """It would fit if less were known already: count it, retry later, and finally restart."""


class OutgrownError(ShadowPlegError):
    """Only a process that knows nothing yet can take what the runtime lists: exit 1."""


class RecordingError(ShadowPlegError):
    """The recording is incomplete, and the message says why: report it, exit 1."""


def say(text: str) -> None:
    """Write the text to stdout at once, or raise OutputError; escape what its encoding lacks."""
    encoding = sys.stdout.encoding or "utf-8"
    try:
        sys.stdout.write(text.encode(encoding, "backslashreplace").decode(encoding))
        sys.stdout.flush()
    except BrokenPipeError:
        raise OutputError from None
    except OSError as error:
        raise OutputError(f"stdout: {error.strerror}") from None
