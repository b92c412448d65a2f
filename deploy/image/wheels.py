"""The wheels of the image: libraries and build tools by their hashes, and our own.

pip is Debian's, whose archive apt verifies; it runs outside of any virtualenv. What it fetches is
named in a lock with the hashes of its files. Our own wheel is built without an index, so no tool
that is not in the lock can take part.
"""

import os
import shutil
import subprocess
import sys
import tempfile
from pathlib import Path

from tests.support.real import debian
from tests.support.real.mirror import FetchError

ROOT = Path(__file__).parents[2]
LIBRARIES = ROOT / "deploy/requirements.lock"
TOOLS = ROOT / "deploy/build-requirements.lock"


def run(*argv: str | Path, env: dict[str, str] | None = None) -> str:
    """Run a command; its stdout. What it complains of goes to stderr."""
    done = subprocess.run(argv, env=env, stdout=subprocess.PIPE, text=True, check=False)  # noqa: S603
    if done.returncode:
        raise FetchError(f"{Path(argv[0]).name} failed with exit code {done.returncode}")
    return done.stdout.strip()


def part(name: str) -> Path:
    """The file of a part that was fetched."""
    found = debian.find(name)
    if found is None:
        raise FetchError(f"{name} was not fetched")
    return found


def fetched(lock: Path, folder: Path) -> Path:
    """The folder with the wheels that a lock names; fetched if the lock changed."""
    stamp, locked = folder / lock.name, lock.read_text(encoding="utf-8")
    if not stamp.is_file() or stamp.read_text(encoding="utf-8") != locked:
        shutil.rmtree(folder, ignore_errors=True)
        _pip("download", *_only(lock), "--python-version", "3.11", "--dest", folder)
        stamp.write_text(locked, encoding="utf-8")
    return folder


def build_own(tools: Path, folder: Path) -> None:
    """Build this checkout's wheel into `folder`; `tools`: the wheels of the build's tools."""
    # What setuptools left of modules that are gone would be in our wheel.
    for left in (ROOT / "build/lib", *(ROOT / "build").glob("bdist.*")):
        shutil.rmtree(left, ignore_errors=True)
    with tempfile.TemporaryDirectory() as site:
        offline = ("--no-index", "--find-links", tools)
        _pip("install", *_only(TOOLS), *offline, "--target", site)
        isolated = ("--no-build-isolation", "--check-build-dependencies", "--no-index")
        _pip("wheel", "--no-deps", *isolated, "--wheel-dir", folder, ROOT, path=site)


def _only(lock: Path) -> tuple[str | Path, ...]:
    only = ("--no-deps", "--only-binary", ":all:")
    return (*only, "--require-hashes", "--requirement", lock)


def _pip(*argv: str | Path, path: str = "") -> None:
    wheel, python = part("pip"), Path(sys.executable).resolve()
    settings = {"PYTHONPATH": path, "PIP_ROOT_USER_ACTION": "ignore"}
    # A wheel is a zip file that Python runs as it is.
    run(python, wheel / "pip", "--quiet", *argv, env=os.environ | settings)
