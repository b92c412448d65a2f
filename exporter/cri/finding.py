"""Where the node's runtime is, if no flag says: the only one of the usual sockets that exists."""

from collections.abc import Iterator
from pathlib import Path
from typing import Final

from exporter.errors import ConfigError, CriUnavailableError
from exporter.runtimes.known import PLACES

# A node's own root, and where a pod has the node's /run mounted: its own /run holds its secrets.
ROOTS: Final = (Path("/"), Path("/host"))


def find(roots: tuple[Path, ...] = ROOTS) -> Path:
    """The socket; CriUnavailableError if there is none, ConfigError if there are several.

    To watch another runtime than the kubelet's would look like a node on which nothing happens.
    """
    there = dict(_existing(roots))
    if not there:
        raise absent(*(_beneath(root, place.path) for root in roots for place in PLACES))
    if len(there) == 1:
        return next(iter(there))
    said = ", ".join(f"unix://{path} ({used_by})" for path, used_by in there.items())
    raise ConfigError(f"several runtimes' sockets exist: {said}", "choose with --runtime-endpoint")


def absent(*looked: Path) -> CriUnavailableError:
    """The error that says where no socket is."""
    places = ", ".join(f"unix://{path}" for path in looked)
    remedy = "start the runtime, or name its socket with --runtime-endpoint"
    return CriUnavailableError("unavailable", f"no runtime socket at {places}", remedy)


def _beneath(root: Path, path: Path) -> Path:
    return root / path.relative_to("/")


def _existing(roots: tuple[Path, ...]) -> Iterator[tuple[Path, str]]:
    """The sockets that exist, and who has them there; each once: some are links to others."""
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
