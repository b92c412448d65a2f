"""Archives whose bytes depend on nothing but their files and one time."""

import gzip
import io
import tarfile
from collections.abc import Mapping
from contextlib import nullcontext
from pathlib import Path


def read(path: Path) -> dict[str, bytes]:
    """The files of an archive, by name; links and folders are left out."""
    with tarfile.open(path) as archive:
        members = [member for member in archive if member.isreg()]
        return {each.name: file.read() for each in members if (file := archive.extractfile(each))}


def write(path: Path, files: Mapping[str, bytes], epoch: int) -> None:
    """An archive of these files, readable for all and root's; compressed if its name says so."""
    compressed = path.suffix in {".gz", ".tgz"}
    with (
        path.open("wb") as raw,
        gzip.GzipFile("", "wb", fileobj=raw, mtime=epoch)
        if compressed
        else nullcontext(raw) as out,
        tarfile.open(fileobj=out, mode="w") as archive,
    ):
        for name, content in sorted(files.items()):
            member = tarfile.TarInfo(name)
            member.size, member.mtime = len(content), epoch
            archive.addfile(member, io.BytesIO(content))
