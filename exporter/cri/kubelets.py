"""Which socket the node's kubelet uses, by its command line and its configuration files.

Blind spots: a pod sees neither, unless it shares the node's PID namespace or mounts the files; k3s
and MicroK8s run the kubelet inside a process of their own, so only their files tell.
"""

import re
from collections.abc import Iterator
from pathlib import Path
from typing import Final, NamedTuple

from exporter.settings.files import read_file
from exporter.settings.sockets import KUBELET_FILES

_LARGEST: Final = 1 << 20
# As a flag, also within a variable, and in YAML or JSON.
_ENDPOINT: Final = re.compile(
    rb"""^[^#\n]*?container-?runtime-?endpoint["']?[\s:=]+["']?(?:unix://)?(/[^\s"',]+)""",
    re.IGNORECASE | re.MULTILINE,
)
_CONFIG: Final = re.compile(rb"--config[=\s]+(/\S+)")


class Named(NamedTuple):
    """A socket that a kubelet names. `running`: in a process that runs, or in a file of it."""

    path: Path
    source: str
    running: bool


def named_by_kubelet(root: Path) -> tuple[Named, ...]:
    """What kubelets of the node whose file system is at `root` name; running ones alone, if any."""
    running = tuple(_of_processes(root))
    return running or tuple(_of_files(root, KUBELET_FILES))


def beneath(root: Path, path: Path) -> Path:
    """Where a path of the node is; /var/run is a link there that leads elsewhere here."""
    run = Path("/var/run")
    if root != Path("/") and path.is_relative_to(run):
        path = Path("/run") / path.relative_to(run)
    return root / path.relative_to("/")


def _of_processes(root: Path) -> Iterator[Named]:
    for process in sorted(root.glob("proc/[1-9]*")):
        try:
            command = (process / "cmdline").read_bytes()
            program = command.partition(b"\0")[0].rpartition(b"/")[2]
            if program != b"kubelet" or _is_inside(process):
                continue
        except OSError:
            continue  # It has ended, or is hidden.
        line = command.replace(b"\0", b" ")
        if found := _ENDPOINT.search(line):
            source = f"--container-runtime-endpoint of the kubelet, process {process.name}"
            yield Named(_path(found), source, running=True)
        elif config := _CONFIG.search(line):
            for named in _of_files(root, (_path(config),)):
                yield named._replace(running=True)


def _is_inside(process: Path) -> bool:
    """Whether it belongs to a container with process ids of its own, as kind's nodes do."""
    status = (process / "status").read_text(errors="replace")
    (ids,) = re.findall(r"^NSpid:\s+(.*)$", status, re.MULTILINE) or [""]
    return len(ids.split()) > 1


def _of_files(root: Path, paths: tuple[Path, ...]) -> Iterator[Named]:
    for path in paths:
        try:
            text = read_file(beneath(root, path), _LARGEST)
        except (OSError, ValueError):
            continue
        if found := _ENDPOINT.search(text):
            yield Named(_path(found), str(path), running=False)


def _path(found: re.Match[bytes]) -> Path:
    return Path(found[1].decode(errors="replace"))
