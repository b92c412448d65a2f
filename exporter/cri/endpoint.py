"""The node's runtime as the loops reach it: its socket, one shared connection, others on demand."""

import os
import socket
import stat
from collections.abc import Sequence
from pathlib import Path
from typing import Final

import structlog

from exporter.cri.client import CriClient
from exporter.errors import ConfigError, CriError, CriUnavailableError
from exporter.settings.config import DEFAULT_SOCKETS

_log = structlog.get_logger()

_PROBE_SECONDS: Final = 1.0


class Endpoint:
    """Where the runtime is: at `explicit`, or at the first of `candidates` that exists."""

    def __init__(self, explicit: Path | None, candidates: Sequence[Path] = DEFAULT_SOCKETS) -> None:
        self._paths = candidates if explicit is None else (explicit,)
        self._shared: CriClient | None = None

    def socket(self) -> Path:
        """The runtime's socket; CriUnavailableError while there is none."""
        for path in self._paths:
            try:
                path.stat()
            except (FileNotFoundError, NotADirectoryError):
                continue
            except OSError:
                # A path that cannot be examined may still exist; `require_usable` reports that.
                pass
            return path
        looked = ", ".join(f"unix://{path}" for path in self._paths)
        raise CriUnavailableError(
            "unavailable",
            f"no runtime socket at {looked}: start the runtime, or name its socket"
            " with --runtime-endpoint",
        )

    def require_usable(self) -> None:
        """Raise ConfigError if this process can never connect; an absent socket may still come."""
        try:
            require_usable(self.socket())
        except CriError as error:
            # A node's runtime often starts after its exporters.
            _log.warning("waiting for the runtime", error=str(error))

    def shared(self) -> CriClient:
        """The connection for lists and inquiries."""
        if self._shared is None:
            self._shared = CriClient(self.socket())
        return self._shared

    def separate(self) -> CriClient:
        """A separate connection for a subscription; the caller closes it."""
        return CriClient(self.socket(), patient=True)

    def reconsider(self) -> None:
        """Retry features that the previous runtime lacked; the runtime was replaced."""
        if self._shared is not None:
            self._shared.reconsider()

    async def close(self) -> None:
        """Close the shared connection."""
        if self._shared is not None:
            await self._shared.close()
            self._shared = None


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


def make_way(path: Path) -> None:
    """Remove a socket without a server; OSError for anything else at that path."""
    if not path.exists():
        return
    if not path.is_socket():
        raise FileExistsError(f"{path} exists and is not a socket")
    with socket.socket(socket.AF_UNIX) as probe:
        probe.settimeout(_PROBE_SECONDS)
        try:
            probe.connect(str(path))
        except ConnectionRefusedError:
            path.unlink(missing_ok=True)
            return
    raise FileExistsError(f"another process serves {path}")
