"""How the loops reach the node's runtime: its socket, one shared connection, others on demand."""

import asyncio
import os
import socket
import stat
import time
from collections.abc import Iterator
from pathlib import Path
from typing import Final

import structlog

from exporter.cri.client import CriClient
from exporter.errors import ConfigError, CriError, CriUnavailableError
from exporter.runtimes.known import PLACES

_log = structlog.get_logger()

_LOOK_SECONDS: Final = 0.2
_PATIENCE_SECONDS: Final = 10.0
_USE: Final = os.R_OK | os.W_OK
_GROUP_USE: Final = stat.S_IRGRP | stat.S_IWGRP
# A node's own root, and where a pod has the node's /run mounted: a pod's /run holds its secrets.
ROOTS: Final = (Path("/"), Path("/host"))
# The folder in which the manifests put the socket of `filter`.
_FILTERS: Final = "shadow-pleg"


# Distinguishes a socket from earlier ones at the same path: device, inode, change time in ns.
Seen = tuple[int, int, int]


class Endpoint:
    """Where the runtime is: at `explicit`, or at the only usual socket below these roots.

    The socket is found once: while a runtime restarts, its socket is gone for a moment, and another
    runtime's would be the only one.
    """

    def __init__(self, explicit: Path | None, roots: tuple[Path, ...] = ROOTS) -> None:
        self._found = explicit
        self._roots = roots
        self._shared: CriClient | None = None

    def socket(self) -> Path:
        """The runtime's socket; CriUnavailableError while there is none, ConfigError if several."""
        self._found = self._found or _find(self._roots)
        try:
            self._found.stat()
        except (FileNotFoundError, NotADirectoryError):
            raise _absent(self._found) from None
        except OSError:
            # A path that cannot be examined may still exist; `require_usable` reports that.
            pass
        return self._found

    @property
    def seen(self) -> Seen | None:
        """The socket that is there now; None if there is none, or if none was found yet."""
        try:
            status = self._found.stat() if self._found else None
        except OSError:
            return None
        return (status.st_dev, status.st_ino, status.st_ctime_ns) if status else None

    def is_another(self, before: Seen | None) -> bool:
        """Whether another socket is there than `before`: a runtime has started."""
        return self.seen not in (None, before)

    async def another(self, before: Seen | None) -> None:
        """Return soon after `is_another` becomes true."""
        while not self.is_another(before):  # noqa: ASYNC110 - no event announces it
            await asyncio.sleep(_LOOK_SECONDS)

    def require_usable(self) -> None:
        """Raise ConfigError if this process can never connect; an absent socket may still come."""
        try:
            require_usable(self.socket())
        except CriError as error:
            _log.info("waiting for the runtime", error=str(error))

    async def awaited(self) -> None:
        """Return once there is a socket, or after ten seconds without one, which is an error then.

        A node's runtime often starts after its exporters, and a pod's filter beside its exporter.
        """
        until = time.monotonic() + _PATIENCE_SECONDS
        while time.monotonic() < until:
            try:
                self.socket()
            except CriError:
                await asyncio.sleep(_LOOK_SECONDS)
            else:
                return

    def for_lists(self) -> CriClient:
        """The connection for lists and inquiries."""
        self._shared = self._shared or CriClient(self.socket())
        return self._shared

    def separate(self) -> CriClient:
        """A separate connection for a subscription; the caller closes it."""
        return CriClient(self.socket(), patient=True)

    async def reconnect(self) -> None:
        """Let the next call connect at once; gRPC would look for the runtime every 5 s only."""
        if self._shared is not None and self._shared.idle:
            await self.close()

    def reconsider(self) -> None:
        """Retry features that the previous runtime lacked; the runtime was replaced."""
        if self._shared is not None:
            self._shared.reconsider()

    async def close(self) -> None:
        """Close the shared connection."""
        client, self._shared = self._shared, None
        if client is not None:
            await client.close()


def _find(roots: tuple[Path, ...] = ROOTS) -> Path:
    """The only socket; CriUnavailableError if there is none, ConfigError if there are several.

    If the exporter chose another runtime than the kubelet's, nothing would seem to happen there.
    """
    there = dict(_existing(roots))
    if not there:
        raise _absent(*candidates(roots[:1]), below=roots[1:])
    if len(there) == 1:
        return next(iter(there))
    said = ", ".join(f"unix://{path} ({used_by})" for path, used_by in there.items())
    raise ConfigError(f"several runtimes' sockets exist: {said}", "choose with --runtime-endpoint")


def _absent(*looked: Path, below: tuple[Path, ...] = ()) -> CriUnavailableError:
    """The error that names the places without a socket; `below`: roots with the same places."""
    places = ", ".join(f"unix://{path}" for path in looked)
    places += "".join(f", nor below {root}" for root in below)
    remedy = "start the runtime, or name its socket with --runtime-endpoint"
    if {path.parent.name for path in looked} == {_FILTERS}:
        remedy = "`filter` has not begun to serve there: its own log says why, if that lasts"
    return CriUnavailableError("unavailable", f"no runtime socket at {places}", remedy)


def candidates(roots: tuple[Path, ...] = ROOTS) -> list[Path]:
    """The paths at which a runtime's socket may be."""
    return [_beneath(root, place.path) for root in roots for place in PLACES]


def _beneath(root: Path, path: Path) -> Path:
    return root / path.relative_to("/")


def _existing(roots: tuple[Path, ...]) -> Iterator[tuple[Path, str]]:
    """Each socket that exists, and who uses that path; once, since some paths are links."""
    seen: set[tuple[int, int]] = set()
    for root in roots:
        for place in PLACES:
            path = _beneath(root, place.path)
            try:
                status = path.stat()
            except (FileNotFoundError, NotADirectoryError):
                continue
            except OSError:
                # What cannot be examined may still exist; `require_usable` reports that.
                yield path, place.used_by
                continue
            if (identity := (status.st_dev, status.st_ino)) not in seen:
                seen.add(identity)
                yield path, place.used_by


def require_usable(path: Path) -> None:
    """Raise ConfigError if `path` exists but this process can never connect to it."""
    try:
        mode = path.stat().st_mode
    except FileNotFoundError:
        return
    except OSError as error:
        raise ConfigError(
            f"--runtime-endpoint: unix://{path} cannot be looked at: {error.strerror}",
            "give a path that this user can reach",
        ) from None
    if not stat.S_ISSOCK(mode):
        raise ConfigError(
            f"--runtime-endpoint: {path} is not a socket",
            "name the CRI socket of the runtime, like unix:///run/containerd/containerd.sock",
        )
    # The kernel may refuse to connect, whatever the mode says.
    may = os.access(path, _USE, effective_ids=True)
    if not may or isinstance(refusal(path), PermissionError):
        raise _not_permitted(path)


def refusal(path: Path) -> OSError | None:
    """The error of connecting to that socket; None if a server listens, however full its queue."""
    with socket.socket(socket.AF_UNIX) as probe:
        probe.setblocking(False)  # noqa: FBT003 - its only argument
        try:
            probe.connect(str(path))
        except BlockingIOError:
            return None
        except OSError as error:
            return error
    return None


def _not_permitted(path: Path) -> ConfigError:
    """The error that names the socket's owner, this process's uid and gid, and the remedy."""
    status = path.stat()
    who = f"with gid {status.st_gid} or as uid {status.st_uid}"
    if status.st_mode & _GROUP_USE != _GROUP_USE:
        who = f"as uid {status.st_uid}, or give the socket the mode 0660"
    return ConfigError(
        f"--runtime-endpoint: permission denied on unix://{path}: it is"
        f" {stat.filemode(status.st_mode)} {status.st_uid}:{status.st_gid}, this process is"
        f" {os.geteuid()}:{os.getegid()}",
        f"run it {who}; if it is already, SELinux"
        " (then seLinuxType: spc_t in the chart) or AppArmor denies it: the node's audit log says",
    )


def make_way(path: Path) -> None:
    """Remove a socket without a server; OSError for anything else at that path."""
    if not path.exists():
        return
    if not path.is_socket():
        raise FileExistsError(f"{path} exists and is not a socket")
    if not isinstance(refusal(path), ConnectionRefusedError):
        raise FileExistsError(f"another process serves {path}")
    path.unlink(missing_ok=True)


def not_made(path: Path) -> OSError:
    """Why gRPC could not make that socket: its own error does not say."""
    if os.path.lexists(path):
        return FileExistsError(f"{path} exists and is needed meanwhile: remove it")
    return OSError(f"no socket can be made in {path.parent}: it must exist and be writable")
