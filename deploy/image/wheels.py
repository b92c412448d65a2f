"""The wheels of the image: libraries and build tools by their hashes; our own, with its sdist.

pip is Debian's, whose archive apt verifies; it runs outside of any virtualenv. What it fetches is
named in a lock with the hashes of its files. Our own packages are built without an index, so no
tool that is not in the lock can take part.
"""

import os
import shutil
import subprocess
import sys
import tempfile
from pathlib import Path

from deploy.image import archives
from testbed import debian
from testbed.mirror import FetchError

ROOT = Path(__file__).parents[2]
LIBRARIES = ROOT / "deploy/requirements.lock"
TOOLS = ROOT / "deploy/build-requirements.lock"
# What our own packages are made of.
SOURCES = ("alerts", "exporter", "pyproject.toml", "setup.py", "README.md", "LICENSE")
_SDIST = "import sys; from setuptools import build_meta; build_meta.build_sdist(sys.argv[1])"


def run(*argv: str | Path, env: dict[str, str] | None = None, cwd: Path = ROOT) -> str:
    """Run a command; its stdout. What it complains of goes to stderr."""
    done = subprocess.run(argv, cwd=cwd, env=env, stdout=subprocess.PIPE, text=True, check=False)  # noqa: S603
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


def build_own(tools: Path, folder: Path, epoch: str) -> None:
    """Build our sdist into `folder`, and the wheel from it; `tools`: wheels of the build's tools.

    The bytes are the same each time: sources are copied, so that nothing takes part that an earlier
    build left or that git does not know; `epoch` is the time of every file.
    """
    with tempfile.TemporaryDirectory() as place:
        site, source = Path(place) / "site", Path(place) / "source"
        offline = ("--no-index", "--find-links", tools)
        _pip("install", *_only(TOOLS), *offline, "--target", site)
        for name in run("git", "ls-files", "-co", "--exclude-standard", *SOURCES).splitlines():
            (source / name).parent.mkdir(parents=True, exist_ok=True)
            (source / name).write_bytes((ROOT / name).read_bytes())
        # Git is not there.
        (source / "exporter/commit.txt").write_text(f"{run('git', 'rev-parse', 'HEAD')}\n")
        env = os.environ | {"PYTHONPATH": str(site), "SOURCE_DATE_EPOCH": epoch}
        # It tells its progress.
        run(sys.executable, "-W", "ignore", "-c", _SDIST, folder.absolute(), env=env, cwd=source)
        (sdist,) = folder.glob("*.tar.gz")
        archives.write(sdist, archives.read(sdist), int(epoch))
        isolated = ("--no-build-isolation", "--check-build-dependencies", "--no-index")
        _pip("wheel", "--no-deps", *isolated, "--wheel-dir", folder, sdist, **env)


def install(python: Path, folder: Path) -> None:
    """Install our wheel and the locked libraries, all from `folder`, where `python` is."""
    offline = ("--python", python, "install", "--no-index", "--find-links", folder)
    _pip(*offline, *_only(LIBRARIES))
    _pip(*offline, "--no-deps", "--only-binary", ":all:", "shadow-pleg")


def _only(lock: Path) -> tuple[str | Path, ...]:
    only = ("--no-deps", "--only-binary", ":all:")
    return (*only, "--require-hashes", "--requirement", lock)


def _pip(*argv: str | Path, **settings: str) -> None:
    wheel, python = part("pip"), Path(sys.executable).resolve()
    env = os.environ | {"PYTHONPATH": "", "PIP_ROOT_USER_ACTION": "ignore"} | settings
    # A wheel is a zip file that Python runs as it is.
    run(python, wheel / "pip", "--quiet", *argv, env=env)
