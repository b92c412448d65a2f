"""Fetch Debian packages of several suites into `.cache/`, apart from the machine's own apt.

Each suite gives its current version: mirrors drop what is superseded. Standard library only,
because `scripts/venv` runs this before there is a virtualenv. Blind spots: a part must run on the
machine's own libc; a machine whose apt knows no Debian archive (Ubuntu) is refused.
"""

import argparse
import fcntl
import os
import re
import shutil
import subprocess
import sys
from collections.abc import Iterable
from dataclasses import dataclass
from pathlib import Path


@dataclass(frozen=True, slots=True)
class Part:
    """One file of one package that tests use."""

    suite: str
    package: str
    # A glob below the package's root.
    path: str
    # Tests use it.
    by_default: bool = True
    # Further packages to fetch, all with their dependencies.
    whole: tuple[str, ...] | None = None


BUILDAH_LIBRARIES = {
    "libassuan0": "libassuan",
    "libdevmapper1.02.1": "libdevmapper",
    "libgpg-error0": "libgpg-error",
    "libgpgme11": "libgpgme",
    "libseccomp2": "libseccomp",
}

PARTS = {
    "containerd-2.1": Part("forky", "containerd", "usr/bin/containerd"),
    "containerd-1.7": Part("trixie", "containerd", "usr/bin/containerd"),
    "containerd-1.6": Part("bookworm", "containerd", "usr/bin/containerd"),
    # bookworm's, because later ones need a newer libc than bookworm has.
    "runc": Part("bookworm", "runc", "usr/sbin/runc"),
    "crun": Part("bookworm", "crun", "usr/bin/crun", whole=()),
    # gVisor; bookworm's is years older.
    "runsc": Part("trixie", "runsc", "usr/bin/runsc"),
    "busybox": Part("bookworm", "busybox-static", "bin/busybox"),
    "promtool": Part("forky", "promtool", "usr/bin/promtool"),
    "prometheus": Part("forky", "prometheus", "usr/bin/prometheus"),
    "alertmanager": Part("forky", "prometheus-alertmanager", "usr/bin/prometheus-alertmanager"),
    "kustomize": Part("forky", "kustomize", "usr/bin/kustomize"),
    # What builds the image; buildah links against these, and the machine may lack them.
    "mmdebstrap": Part("bookworm", "mmdebstrap", "usr/bin/mmdebstrap"),
    "buildah": Part("bookworm", "buildah", "usr/bin/buildah"),
    **{
        package: Part("bookworm", package, f"**/{file}.so.*")
        for package, file in BUILDAH_LIBRARIES.items()
    },
    # trixie's, because bookworm's pip fails on Python 3.12 and later.
    "pip": Part("trixie", "python3-pip-whl", "usr/share/python-wheels/pip-*.whl", by_default=False),
    # The one without a window: with its libraries, half of the whole browser.
    "chromium": Part(
        "bookworm",
        "chromium-headless-shell",
        "usr/lib/chromium/chromium-headless-shell",
        whole=("fonts-liberation", "fontconfig-config"),
    ),
    # Builds the Go client that bench compares with, from gRPC's and the CRI's own sources.
    "go": Part(
        "forky",
        "golang-go",
        "usr/lib/go-*/bin/go",
        by_default=False,
        whole=("golang-k8s-cri-api-dev", "golang-github-golang-protobuf-1-5-dev"),
    ),
    # An emulated machine, and what its kernel boots: testbed/vm.
    "qemu": Part(
        "bookworm", "qemu-system-x86", "usr/bin/qemu-system-x86_64", by_default=False, whole=()
    ),
    "e2fsprogs": Part("bookworm", "e2fsprogs", "sbin/mke2fs", by_default=False, whole=()),
    "guest": Part(
        "trixie",
        "systemd",
        "usr/lib/systemd/systemd",
        by_default=False,
        whole=("dbus", "libseccomp2", "libstdc++6", "linux-image-cloud-amd64", "python3"),
    ),
    "guest-libc": Part("trixie", "libc6", "usr/lib/*/libc.so.6", by_default=False),
    "keyring": Part(
        "bookworm",
        "debian-archive-keyring",
        "usr/share/keyrings/debian-archive-keyring.gpg",
        by_default=False,
    ),
}

ROOT = Path(__file__).resolve().parents[1]
CACHE = ROOT / ".cache" / "debian"
STAMP = ".version"
KEYRING = Path("/usr/share/keyrings/debian-archive-keyring.gpg")
# What a whole part depends on and does without. The machine's own libc stays in use: two of them in
# one process do not go together. The rest is a desktop's, or for installing.
WITHOUT = (
    *("debconf", "libc6", "ucf", "x11-utils", "xdg-utils"),
    # What gRPC for Go has beyond a client and a server: five times the size of all the rest.
    *("golang-github-envoyproxy-go-control-plane-dev", "golang-gonum-v1-gonum-dev"),
    *("golang-opentelemetry-contrib-dev", "golang-opentelemetry-otel-dev"),
    *("golang-google-cloud-dev", "golang-golang-x-tools"),
    # What installs a kernel.
    *("initramfs-tools", "linux-base"),
)


class FetchError(Exception):
    """A part could not be fetched; the message says what to do."""


def mirror() -> str:
    """The URI of a Debian archive in the machine's apt sources."""
    uris = run("apt-get", "update", "--print-uris")
    # Other vendors use Debian's suite names, too.
    found = re.search(r"^'(\S*debian\S*/)dists/[a-z]+/main/binary-", uris, re.MULTILINE)
    if found is None:
        raise FetchError("apt has no Debian archive: run this on Debian, or add a source of it")
    return found[1]


def home_of(name: str) -> Path:
    """Return the folder into which that part's package is unpacked."""
    part = PARTS[name]
    return CACHE / part.suite / part.package


def find(name: str) -> Path | None:
    """Return the file of that part, None when it was not fetched."""
    home = home_of(name)
    if not (home / STAMP).is_file():
        return None
    return next(iter(sorted(home.glob(PARTS[name].path))), None)


def part(name: str) -> Path:
    """Return the file of that part; FetchError when it was not fetched."""
    if (path := find(name)) is None:
        raise FetchError(f"{name} is missing: python -m testbed.debian fetch {name}")
    return path


def fetch_parts(names: Iterable[str]) -> None:
    """Fetch what is missing of `names`."""
    names = list(names)
    if all(find(name) for name in names):
        return
    CACHE.mkdir(parents=True, exist_ok=True)
    (CACHE.parent / ".gitignore").write_text("*\n")
    with (CACHE / ".lock").open("w") as lock:
        # One process fetches at a time.
        fcntl.flock(lock, fcntl.LOCK_EX)
        wanted = {home_of(name): PARTS[name] for name in names if not find(name)}.values()
        for suite in dict.fromkeys(each.suite for each in wanted):
            _fetch_suite(suite, [each for each in wanted if each.suite == suite])
    for name in names:
        if find(name) is None:
            it = PARTS[name]
            raise FetchError(f"{it.package} of {it.suite} lacks {it.path}")


def environment(name: str) -> dict[str, str]:
    """Variables with which part `name` finds the libraries and fonts that were fetched with it."""
    if PARTS[name].whole is None:
        return {}
    home = home_of(name)
    found = {each.parent for root in ("lib", "usr/lib") for each in (home / root).rglob("*.so*")}
    return {
        "LD_LIBRARY_PATH": ":".join(map(str, sorted(found))),
        "FONTCONFIG_FILE": str(home / "fonts.conf"),
    }


def _fetch_suite(suite: str, parts: Iterable[Part]) -> None:
    """Fetch and unpack the packages of these parts of one suite."""
    work = CACHE / suite / ".apt"
    try:
        conf = _apt(suite, KEYRING if KEYRING.is_file() else None, work)
    except FetchError as error:
        if "NO_PUBKEY" not in str(error) or suite == PARTS["keyring"].suite:
            raise
        # The suite is newer than the machine's keyring, which vouches for a newer one.
        if not find("keyring"):
            _fetch_suite(PARTS["keyring"].suite, [PARTS["keyring"]])
        conf = _apt(suite, part("keyring"), work)
    for each in parts:
        _fetch(each, conf)
    shutil.rmtree(work)


def _fetch(part: Part, conf: Path) -> None:
    """Fetch and unpack a package, or with all it depends on, in one root."""
    archives, apt = conf.parent / "cache/archives", ("apt-get", "-c", conf, "-q")
    there = "Status: install ok installed\nArchitecture: all\nVersion: 9:9999\n"
    installed = (f"Package: {name}\n{there}\n" for name in WITHOUT if part.whole is not None)
    (conf.parent / "status").write_text("".join(installed))
    if part.whole is None:
        run(*apt, "download", part.package, cwd=archives)
    else:
        only = ("--download-only", "--yes", "--no-install-recommends")
        run(*apt, "install", *only, part.package, *part.whole)
    home = CACHE / part.suite / part.package
    # Its own first.
    own = f"{part.package}_"
    debs = sorted(archives.glob("*.deb"), key=lambda deb: not deb.name.startswith(own))
    _unpack(home, *debs)
    # Another part of the suite has its own.
    for deb in debs:
        deb.unlink()


def _apt(suite: str, keyring: Path | None, work: Path) -> Path:
    """Make a private apt in `work` with the suite's lists; return its configuration file."""
    shutil.rmtree(work, ignore_errors=True)
    for folder in ("lists/partial", "cache/archives/partial", "state"):
        (work / folder).mkdir(parents=True)
    # No package counts as installed, so the candidate is always the suite's own.
    (work / "status").touch()
    signed = f"[signed-by={keyring}] " if keyring else ""
    (work / "sources.list").write_text(f"deb {signed}{mirror()} {suite} main\n")
    settings = {
        "Dir::Etc::sourcelist": work / "sources.list",
        "Dir::Etc::sourceparts": "/dev/null",
        "Dir::Etc::preferences": "/dev/null",
        "Dir::Etc::preferencesparts": "/dev/null",
        "Dir::State": work / "state",
        "Dir::State::lists": work / "lists",
        "Dir::State::status": work / "status",
        "Dir::Cache": work / "cache",
        "Acquire::AllowInsecureRepositories": "false",
        "Acquire::Languages": "none",
        "APT::Get::AllowUnauthenticated": "false",
        "APT::Update::Error-Mode": "any",
        # The user that apt downloads as may not enter the checkout.
        "APT::Sandbox::User": "root",
    }
    # The machine's hooks would clean or refresh the machine's own caches.
    hooks = [f"#clear APT::Update::{hook};" for hook in ("Pre-Invoke", "Post-Invoke")]
    hooks.append("#clear APT::Update::Post-Invoke-Success;")
    lines = [*hooks, *(f'{name} "{value}";' for name, value in settings.items())]
    (work / "apt.conf").write_text("\n".join(lines) + "\n")
    run("apt-get", "-c", work / "apt.conf", "-q", "update")
    return work / "apt.conf"


def _unpack(home: Path, *debs: Path) -> None:
    """Unpack all so that `home` appears whole or not at all, and say so."""
    version = run("dpkg-deb", "-f", debs[0], "Version")
    partial = home.with_name(f".partial-{home.name}")
    shutil.rmtree(partial, ignore_errors=True)
    for deb in debs:
        run("dpkg-deb", "-x", deb, partial)
    fonts = f"<dir>{home}/usr/share/fonts</dir><cachedir>{home}/fonts.cache</cachedir>"
    conf_d = f"<include>{home}/etc/fonts/conf.d</include>"
    (partial / "fonts.conf").write_text(f"<fontconfig>{fonts}{conf_d}</fontconfig>\n")
    (partial / STAMP).write_text(f"{version}\n")
    shutil.rmtree(home, ignore_errors=True)
    partial.rename(home)
    size = sum(deb.stat().st_size for deb in debs) / 1e6
    sys.stdout.write(f"{home.parent.name:9} {home.name} {version}, {size:.1f} MB\n")


def run(*argv: str | Path, cwd: str | Path = ROOT, **environ: str) -> str:
    """What a command prints; its complaints become a FetchError."""
    env = {**os.environ, "LC_ALL": "C", **environ}
    try:
        done = subprocess.run(argv, cwd=cwd, env=env, capture_output=True, text=True, check=False)
    except FileNotFoundError:
        raise FetchError(f"{argv[0]} is missing: this needs Debian's apt and dpkg") from None
    if done.returncode:
        lines = (done.stdout + done.stderr).strip().splitlines()
        errors = [line for line in lines if line.startswith(("E:", "W:"))] or lines[-20:]
        raise FetchError("\n".join([f"{' '.join(map(str, argv))} failed:", *errors]))
    return done.stdout.strip()


def main() -> int:
    """Run the command line: `fetch [PART ...]`."""
    about = str(__doc__).partition("\n")[0]
    parser = argparse.ArgumentParser(prog="python -m testbed.debian", description=about)
    parser.add_argument("fetch", choices=["fetch"], help="fetch what is missing")
    listed = f"of {', '.join(PARTS)}; default: those that tests use"
    parser.add_argument("parts", nargs="*", metavar="PART", help=listed)
    default = [name for name, part in PARTS.items() if part.by_default]
    names = parser.parse_args().parts or default
    if unknown := [name for name in names if name not in PARTS]:
        parser.error(f"unknown part {unknown[0]!r}, choose from {', '.join(PARTS)}")
    try:
        fetch_parts(names)
    except FetchError as error:
        sys.stderr.write(f"{error}\n")
        return 1
    return 0


if __name__ == "__main__":
    sys.exit(main())
