"""Which mounts this process could write to, by `/proc/self/mountinfo`. Source: proc(5)."""

import re
from collections.abc import Iterable, Iterator
from pathlib import Path
from typing import Final

TABLE: Final = Path("/proc/self/mountinfo")
_ESCAPED: Final = re.compile(r"\\([0-7]{3})")


def writable(folders: Iterable[Path], table: str) -> list[Path]:
    """The mounts that hold these folders, or lie below them, and are not read-only."""
    mounts = dict(_parsed(table))
    found = set()
    for folder in folders:
        found |= {each for each in mounts if folder in each.parents}
        found.add(next((each for each in (folder, *folder.parents) if each in mounts), Path("/")))
    return sorted(each for each in found if mounts.get(each))


def _parsed(table: str) -> Iterator[tuple[Path, bool]]:
    """Each mount point, and whether it is writable; of several at one point, the uppermost last."""
    for line in table.splitlines():
        point, options = line.split(" ")[4:6]
        decoded = _ESCAPED.sub(lambda found: chr(int(found[1], 8)), point)
        yield Path(decoded), "ro" not in options.split(",")
