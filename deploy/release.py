"""Write a release of this commit into dist, as root: `make release`.

Refused where the tree has changes, or CHANGELOG.md no section for the version: a release is what a
commit says. Files have the commit's time, so that two builds of a commit from the same packages
have the same bytes. Nothing is signed or published: who has the keys does that (CONTRIBUTING.md).
"""

import json
import os
import re
import shutil
import sys
import venv
from pathlib import Path

from deploy.image import archives, provenance, wheels
from deploy.image.wheels import part, run
from exporter import __version__
from setup import published
from testbed import debian
from testbed.mirror import FetchError

ROOT = Path(__file__).parents[1]
DIST = ROOT / "dist"
IMAGE = ROOT / "build/image"
NAME = f"shadow-pleg-{__version__}"


def section(changes: str, version: str = __version__) -> str:
    """What the changelog says of a version; empty if nothing."""
    heading = rf"^## {re.escape(version)}(?: [^\n]*)?\n(.*?)(?=^## |\Z)"
    found = re.search(heading, changes, re.MULTILINE | re.DOTALL)
    return found[1].strip() if found else ""


def obstacle(status: str, changes: str, tags: list[str]) -> str:
    """Why nothing is released, in one line, or nothing: of git's status, changelog, HEAD's tags."""
    if status:
        return (
            f"the tree is not clean: commit or remove {status.splitlines()[0].split(maxsplit=1)[1]}"
        )
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


def packages() -> None:
    """The wheel that is in the image, and the sdist that it was built from."""
    for path in (IMAGE / "wheels").glob("shadow_pleg-*"):
        shutil.copy(path, DIST)


def image() -> None:
    """The archive for this architecture, its bill of materials, and what it was made of."""
    architecture = json.loads((IMAGE / "config.json").read_text(encoding="utf-8"))["architecture"]
    for name in ("shadow-pleg.tar", "sbom.cdx.json", "provenance.json"):
        kind = name.removeprefix("shadow-pleg")
        shutil.copy(IMAGE / name, DIST / f"{NAME}-image-{architecture}.{kind.lstrip('.')}")


def bill() -> None:
    """The bill of materials of what the wheel installs, from an installation that starts."""
    home = ROOT / "build/release"
    venv.create(home, clear=True, symlinks=True)
    python = home / "bin/python"
    wheels.install(python, IMAGE / "wheels")
    said = run(home / "bin/shadow-pleg", "--version")
    if __version__ not in said:
        raise FetchError(f"the wheel's shadow-pleg --version says {said}")
    tool = (ROOT / ".venv/bin/cyclonedx-py", "environment", "--output-reproducible")
    to = ("--output-file", DIST / f"{NAME}.sbom.cdx.json")
    run(*tool, *to, python)


def chart() -> None:
    """As `helm package` does, but for the time of its files."""
    home = ROOT / "deploy/helm"
    paths = [ROOT / name for name in git("ls-files", home)]
    files = {str(path.relative_to(home)): path.read_bytes() for path in paths}
    archives.write(DIST / f"{NAME}.tgz", files, commit_time())


def manifests() -> None:
    """Each overlay as kustomize renders it, the rules, and the dashboards."""
    debian.fetch_parts(["kustomize"])
    files = {
        name: (ROOT / name).read_bytes()
        for name in git("ls-files", "alerts/*.y*ml", "dashboards/*.json")
    }
    for name in git("ls-files", "deploy/overlays/*/kustomization.yaml"):
        folder = Path(name).parent
        files[f"{folder.name}.yaml"] = f"{run(part('kustomize'), 'build', folder)}\n".encode()
    below = {f"{NAME}-manifests/{name}": content for name, content in files.items()}
    archives.write(DIST / f"{NAME}-manifests.tar.gz", below, commit_time())


def commit_time() -> int:
    """Seconds since 1970."""
    return int(run("git", "log", "-1", "--format=%ct"))


def main(arguments: list[str]) -> int:
    """Refuse, or write all files and say which; with --check, only the former."""
    changes = (ROOT / "CHANGELOG.md").read_text(encoding="utf-8")
    status = run("git", "status", "--porcelain")
    refused = obstacle(status, changes, git("tag", "--points-at", "HEAD", "--list", "v*"))
    if not refused and os.geteuid():
        refused = "needs root, for the owners of the image's files"
    if refused:
        sys.stderr.write(f"make release: {refused}\n")
        return 1
    if arguments == ["--check"]:
        return 0
    shutil.rmtree(DIST, ignore_errors=True)
    DIST.mkdir()
    try:
        run(sys.executable, "deploy/image/build", env=os.environ | {"PYTHONPATH": str(ROOT)})
        packages()
        image()
        bill()
        chart()
        manifests()
    except FetchError as error:
        sys.stderr.write(f"make release: {error}\n")
        return 1
    notes = published(section(changes)) + "\n"
    (DIST / "release-notes.md").write_text(notes, encoding="utf-8")
    made = sorted(DIST.iterdir())
    sums = "".join(f"{provenance.sha256(path)}  {path.name}\n" for path in made)
    (DIST / "SHA256SUMS").write_text(sums)
    for path in made:
        sys.stdout.write(f"{path.stat().st_size / 1000:8.0f} kB  dist/{path.name}\n")
    return 0


if __name__ == "__main__":
    sys.exit(main(sys.argv[1:]))
