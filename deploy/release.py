"""Write a release of this commit into dist: `make release`.

Refused where the tree has changes, or CHANGELOG.md no section for the version: a release is what a
commit says. Files have the commit's time, so that two releases of a commit have the same bytes.
Nothing is signed or published, and images are built by their distributors (CONTRIBUTING.md).
"""

import gzip
import hashlib
import io
import re
import shutil
import sys
import tarfile
from collections.abc import Mapping
from pathlib import Path
from tempfile import TemporaryDirectory

from exporter import __version__
from setup import published
from testbed import debian
from testbed.debian import FetchError, part, run

ROOT = Path(__file__).parents[1]
DIST = ROOT / "dist"
NAME = f"shadow-pleg-{__version__}"


def section(changes: str, version: str = __version__) -> str:
    """What the changelog says of a version; empty if nothing."""
    heading = rf"^## {re.escape(version)}(?: [^\n]*)?\n(.*?)(?=^## |\Z)"
    found = re.search(heading, changes, re.MULTILINE | re.DOTALL)
    return found[1].strip() if found else ""


def obstacle(status: str, changes: str, tags: list[str]) -> str:
    """Why nothing is released, in one line, or nothing: of git's status, changelog, HEAD's tags."""
    if status:
        first = status.splitlines()[0].split(maxsplit=1)[1]
        return f"the tree is not clean: commit or remove {first}"
    if not section(changes):
        return (
            f"CHANGELOG.md says nothing under '## {__version__}': write that section, or change"
            " __version__ in exporter/__init__.py"
        )
    if tags and f"v{__version__}" not in tags:
        return f"HEAD is {tags[0]}, and __version__ in exporter/__init__.py is {__version__}"
    return ""


def git(*argv: str | Path) -> list[str]:
    """What git answers, by line."""
    return run("git", *argv).splitlines()


def commit_time() -> int:
    """Seconds since 1970."""
    return int(run("git", "log", "-1", "--format=%ct"))


def archive(path: Path, files: Mapping[str, bytes]) -> None:
    """A compressed archive whose bytes depend on nothing but these files and the commit."""
    with (
        path.open("wb") as raw,
        gzip.GzipFile("", "wb", fileobj=raw, mtime=commit_time()) as out,
        tarfile.open(fileobj=out, mode="w") as into,
    ):
        for name, content in sorted(files.items()):
            member = tarfile.TarInfo(name)
            member.size, member.mtime = len(content), commit_time()
            into.addfile(member, io.BytesIO(content))


def wheel(folder: Path) -> None:
    """The Python package, from the commit's files alone, by the locked build tool."""
    with TemporaryDirectory() as place:
        packed = Path(place, "source.tar")
        run("git", "archive", "--output", packed, "HEAD")
        shutil.unpack_archive(packed, place)
        # Git is not there.
        Path(place, "exporter/commit.txt").write_text(f"{run('git', 'rev-parse', 'HEAD')}\n")
        locked = ("--build-constraint", ROOT / "deploy/build-requirements.lock")
        run(
            *(sys.executable, "-m", "pip", "wheel", "--quiet", "--no-deps", *locked),
            *("--wheel-dir", folder, place),
            SOURCE_DATE_EPOCH=str(commit_time()),
        )


def chart(folder: Path) -> None:
    """As `helm package` does, but for the time of its files."""
    home = ROOT / "deploy/helm"
    paths = [ROOT / name for name in git("ls-files", home)]
    files = {str(path.relative_to(home)): path.read_bytes() for path in paths}
    archive(folder / f"{NAME}.tgz", files)


def manifests(folder: Path) -> None:
    """Each overlay as kustomize renders it, the rules, and the dashboards."""
    debian.fetch_parts(["kustomize"])
    files = {
        name: (ROOT / name).read_bytes()
        for name in git("ls-files", "alerts/*.y*ml", "dashboards/*.json")
    }
    for name in git("ls-files", "deploy/overlays/*/kustomization.yaml"):
        overlay = Path(name).parent
        files[f"{overlay.name}.yaml"] = f"{run(part('kustomize'), 'build', overlay)}\n".encode()
    below = {f"{NAME}-manifests/{name}": content for name, content in files.items()}
    archive(folder / f"{NAME}-manifests.tar.gz", below)


def write(folder: Path) -> None:
    """All files of a release, and their checksums."""
    shutil.rmtree(folder, ignore_errors=True)
    folder.mkdir()
    wheel(folder)
    chart(folder)
    manifests(folder)
    notes = published(section((ROOT / "CHANGELOG.md").read_text(encoding="utf-8"))) + "\n"
    (folder / "release-notes.md").write_text(notes, encoding="utf-8")
    digests = {path.name: hashlib.sha256(path.read_bytes()) for path in sorted(folder.iterdir())}
    lines = [f"{digest.hexdigest()}  {name}\n" for name, digest in digests.items()]
    (folder / "SHA256SUMS").write_text("".join(lines))


def main() -> int:
    """Refuse, or write all files and say which."""
    changes = (ROOT / "CHANGELOG.md").read_text(encoding="utf-8")
    status = run("git", "status", "--porcelain")
    refused = obstacle(status, changes, git("tag", "--points-at", "HEAD", "--list", "v*"))
    if refused:
        sys.stderr.write(f"make release: {refused}\n")
        return 1
    try:
        write(DIST)
    except FetchError as error:
        sys.stderr.write(f"make release: {error}\n")
        return 1
    for path in sorted(DIST.iterdir()):
        sys.stdout.write(f"{path.stat().st_size / 1000:8.0f} kB  dist/{path.name}\n")
    return 0


if __name__ == "__main__":
    sys.exit(main())
