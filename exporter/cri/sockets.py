"""Finds the runtime's socket, or explains in one line why it cannot be used."""

from __future__ import annotations

import os
import stat
from collections.abc import Sequence
from pathlib import Path

from exporter.errors import ConfigError, CriUnavailableError


def choose_socket(explicit: Path | None, candidates: Sequence[Path]) -> Path:
    """The given socket, else the first candidate that exists; CriUnavailableError if none does."""
    paths = [explicit] if explicit is not None else list(candidates)
    for path in paths:
        # A path that cannot be examined may still exist; `require_usable` reports that.
        if not _is_absent(path):
            return path
    looked = ", ".join(f"unix://{path}" for path in paths)
    raise CriUnavailableError(
        "unavailable",
        f"no runtime socket at {looked}: start the runtime, or name its socket"
        " with --runtime-endpoint",
    )


def _is_absent(path: Path) -> bool:
    try:
        path.stat()
    except (FileNotFoundError, NotADirectoryError):
        return True
    except OSError:
        return False
    return False


def require_usable(path: Path) -> None:
    """Raise ConfigError if that path exists but this process can never connect to it."""
    try:
        mode = path.stat().st_mode
    except FileNotFoundError:
        return
    except OSError as error:
        raise ConfigError(
            f"--runtime-endpoint: unix://{path} cannot be looked at: {error.strerror}"
        ) from None
    if not stat.S_ISSOCK(mode):
        raise ConfigError(
            f"--runtime-endpoint: {path} is not a socket: name the CRI socket of the runtime,"
            " like unix:///run/containerd/containerd.sock"
        )
    if not os.access(path, os.R_OK | os.W_OK, effective_ids=True):
        raise ConfigError(f"--runtime-endpoint: {permission_problem(path)}")


def permission_problem(path: Path) -> str:
    """The process's user, the socket's permissions and the remedy, in one line."""
    status = path.stat()
    return (
        f"permission denied on unix://{path}: it is {stat.filemode(status.st_mode)}"
        f" {status.st_uid}:{status.st_gid}, this process is {os.geteuid()}:{os.getegid()};"
        f" run it with gid {status.st_gid} or as uid {status.st_uid}"
    )
