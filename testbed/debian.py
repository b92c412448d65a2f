"""Fetch Debian packages of several suites into `.cache/`, apart from the machine's own apt.

From the machine's own mirror, as both formats of apt's sources name it. Each suite gives its
current version: mirrors drop what is superseded. Standard library only,
because `scripts/venv` runs this before there is a virtualenv. Blind spots: a machine whose apt
knows no Debian archive (Ubuntu) is refused; a part must run on the machine's own libc.
"""

import argparse
import fcntl
import os
import re
import shutil
import subprocess
import sys
import time
from collections.abc import Iterable, Iterator, Mapping
from contextlib import contextmanager
from dataclasses import dataclass
from pathlib import Path
from types import MappingProxyType

CACHE = Path(__file__).resolve().parents[1] / ".cache" / "debian"
STAMP = ".version"
ETC_APT = Path("/etc/apt")
KEYRING = Path("/usr/share/keyrings/debian-archive-keyring.gpg")
SUITES = {"bullseye", "bookworm", "trixie", "forky", "sid"} | {
    *("oldoldstable", "oldstable", "stable", "testing", "unstable")
}
NOTHING: Mapping[str, str] = MappingProxyType({})
# What a whole part depends on and does without. The machine's own libc stays in use: two of them in
# one process do not go together. The rest is a desktop's, or for installing.
WITHOUT = (
    *("debconf", "libc6", "ucf", "x11-utils", "xdg-utils"),
    # What gRPC for Go has beyond a client and a server: five times the size of all the rest.
    *("golang-github-envoyproxy-go-control-plane-dev", "golang-gonum-v1-gonum-dev"),
    *("golang-opentelemetry-contrib-dev", "golang-opentelemetry-otel-dev"),
    *("golang-google-cloud-dev", "golang-golang-x-tools"),
)


class FetchError(Exception):
    """A part could not be fetched; the message says what to do."""


@dataclass(frozen=True, slots=True)
class Mirror:
    """A Debian archive, and the keyring that apt trusts for it ("" for apt's default ones)."""

    uri: str
    signed_by: str


@dataclass(frozen=True, slots=True)
class Part:
    """One file of one package; `path` is a glob below the package's root."""

    suite: str
    package: str
    path: str
    by_default: bool = True
    runs: bool = True
    # Packages that come too, with all that they and the package itself depend on.
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
    "busybox": Part("bookworm", "busybox-static", "bin/busybox", runs=False),
    "promtool": Part("forky", "promtool", "usr/bin/promtool"),
    "prometheus": Part("forky", "prometheus", "usr/bin/prometheus"),
    "alertmanager": Part("forky", "prometheus-alertmanager", "usr/bin/prometheus-alertmanager"),
    "amtool": Part("forky", "prometheus-alertmanager", "usr/bin/amtool"),
    "kustomize": Part("forky", "kustomize", "usr/bin/kustomize", runs=False),
    # What builds the image; buildah links against these, and the machine may lack them.
    "mmdebstrap": Part("bookworm", "mmdebstrap", "usr/bin/mmdebstrap"),
    "buildah": Part("bookworm", "buildah", "usr/bin/buildah", runs=False),
    **{
        package: Part("bookworm", package, f"**/{file}.so.*", runs=False)
        for package, file in BUILDAH_LIBRARIES.items()
    },
    # trixie's, because bookworm's pip fails on Python 3.12 and later.
    "pip": Part(
        "trixie",
        "python3-pip-whl",
        "usr/share/python-wheels/pip-*.whl",
        by_default=False,
        runs=False,
    ),
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
        runs=False,
        whole=("golang-k8s-cri-api-dev", "golang-github-golang-protobuf-1-5-dev"),
    ),
    "keyring": Part(
        "bookworm",
        "debian-archive-keyring",
        "usr/share/keyrings/debian-archive-keyring.gpg",
        by_default=False,
        runs=False,
    ),
}


def find(name: str, version: str = "") -> Path | None:
    """Return the file of part `name` (or `name-version`), None when it was not fetched."""
    part = PARTS[f"{name}-{version}" if version else name]
    home = CACHE / part.suite / part.package
    if not (home / STAMP).is_file():
        return None
    return next(iter(sorted(home.glob(part.path))), None)


def part(name: str, version: str = "") -> Path:
    """Return the file of that part; FetchError when it was not fetched."""
    path = find(name, version)
    if path is None:
        whole = f"{name}-{version}" if version else name
        raise FetchError(f"{whole} is missing: python -m testbed.debian fetch {whole}")
    return path


def fetch_parts(names: Iterable[str], *, again: bool = False) -> int:
    """Fetch what is missing of `names` (all, with `again`); return the bytes downloaded."""
    names = list(names)
    if not again and all(find(name) for name in names):
        return 0
    total = 0
    with _locked():
        wanted = [PARTS[name] for name in names if again or not find(name)]
        for suite in dict.fromkeys(part.suite for part in wanted):
            packages = sorted({part.package for part in wanted if part.suite == suite})
            total += _fetch_suite(suite, packages, machine_mirror())
    for name in names:
        path = find(name)
        if path is None:
            raise FetchError(
                f"{PARTS[name].package} of {PARTS[name].suite} lacks {PARTS[name].path}"
            )
        if PARTS[name].runs:
            _run(path, "--version", env=environment(name))
    return total


def environment(name: str) -> dict[str, str]:
    """Variables with which part `name` finds the libraries and fonts that were fetched with it."""
    part = PARTS[name]
    if part.whole is None:
        return {}
    home = CACHE / part.suite / part.package
    found = {each.parent for root in ("lib", "usr/lib") for each in (home / root).rglob("*.so*")}
    return {
        "LD_LIBRARY_PATH": ":".join(map(str, sorted(found))),
        "FONTCONFIG_FILE": str(home / "fonts.conf"),
    }


def machine_mirror() -> Mirror:
    """Return the first Debian archive in the machine's apt sources."""
    for entry in _entries():
        if _is_debian(entry):
            default = str(KEYRING) if KEYRING.is_file() else ""
            return Mirror(entry["uris"].split()[0], entry.get("signed-by") or default)
    raise FetchError(
        f"no Debian archive in {ETC_APT}/sources.list or {ETC_APT}/sources.list.d: "
        "run this on Debian, or add a source of Debian's there"
    )


def _is_debian(entry: dict[str, str]) -> bool:
    signed_by = entry.get("signed-by", "")
    return (
        entry.get("enabled", "yes").lower() not in {"no", "false", "0"}
        and "deb" in entry.get("types", "").split()
        and "main" in entry.get("components", "").split()
        and not SUITES.isdisjoint(entry.get("suites", "").split())
        # Other vendors' archives use Debian's suite names too, but keys of their own.
        and (not signed_by or "debian-archive" in signed_by)
    )


def _entries() -> Iterator[dict[str, str]]:
    """Yield every source as deb822 fields with lower-case names."""
    for path in sorted(ETC_APT.glob("sources.list.d/*.sources")):
        yield from _stanzas(path.read_text())
    for path in (ETC_APT / "sources.list", *sorted(ETC_APT.glob("sources.list.d/*.list"))):
        if path.is_file():
            yield from _lines(path.read_text())


def _stanzas(text: str) -> Iterator[dict[str, str]]:
    lines = [line for line in text.splitlines() if not line.startswith("#")]
    for paragraph in re.split(r"\n\s*\n", "\n".join(lines)):
        joined = re.sub(r"\n[ \t]+", " ", paragraph)
        fields = [line.partition(":") for line in joined.splitlines()]
        yield {name.strip().lower(): value.strip() for name, _, value in fields}


def _lines(text: str) -> Iterator[dict[str, str]]:
    entry = r"^\s*deb\s+(?:\[(?P<options>.*?)\]\s+)?(?P<uris>\S+)\s+(?P<suites>\S+)\s+(?P<main>.+)$"
    for match in re.finditer(entry, text, re.MULTILINE):
        signed_by = re.search(r"signed-by=(\S+)", match["options"] or "")
        yield {
            "types": "deb",
            "uris": match["uris"],
            "suites": match["suites"],
            "components": match["main"].partition("#")[0],
            "signed-by": signed_by[1] if signed_by else "",
        }


@contextmanager
def _locked() -> Iterator[None]:
    """Let one process fetch at a time, and keep the cache out of git."""
    CACHE.mkdir(parents=True, exist_ok=True)
    (CACHE.parent / ".gitignore").write_text("*\n")
    with (CACHE / ".lock").open("w") as lock:
        fcntl.flock(lock, fcntl.LOCK_EX)
        yield


def _fetch_suite(suite: str, packages: list[str], mirror: Mirror) -> int:
    """Fetch and unpack `packages` of one suite; return the bytes downloaded."""
    work = CACHE / suite / ".apt"
    try:
        conf = _apt(suite, mirror, work)
    except FetchError as error:
        if "NO_PUBKEY" not in str(error) or suite == PARTS["keyring"].suite:
            raise
        # The suite is newer than the machine's keyring.
        fetched = _newer_keyring(mirror)
        conf = _apt(suite, fetched, work)
    total = 0
    for part in PARTS.values():
        if part.suite == suite and part.package in packages and part.whole is not None:
            packages = [each for each in packages if each != part.package]
            total += _fetch_whole(part, part.whole, conf)
    if packages:
        _run("apt-get", "-c", conf, "-q", "download", *packages, cwd=work)
    for deb in sorted(work.glob("*.deb")):
        package, size = deb.name.split("_", 1)[0], deb.stat().st_size
        version = _unpack(CACHE / suite / package, deb)
        sys.stdout.write(f"{suite:9} {package} {version}, {size / 1e6:.1f} MB\n")
        total += size
    shutil.rmtree(work)
    return total


def _fetch_whole(part: Part, more: tuple[str, ...], conf: Path) -> int:
    """Fetch and unpack a package with all it depends on, in one root; return the bytes."""
    there = "Status: install ok installed\nArchitecture: all\nVersion: 9:9999\n"
    with (conf.parent / "status").open("w") as status:
        status.writelines(f"Package: {name}\n{there}\n" for name in WITHOUT)
    wanted = ("install", "--download-only", "--yes", "--no-install-recommends")
    _run("apt-get", "-c", conf, "-q", *wanted, part.package, *more)
    home = CACHE / part.suite / part.package
    debs = sorted((conf.parent / "cache/archives").glob("*.deb"))
    (own,) = (deb for deb in debs if deb.name.startswith(f"{part.package}_"))
    fonts = f"<dir>{home}/usr/share/fonts</dir><cachedir>{home}/fonts.cache</cachedir>"
    conf_d = f"<include>{home}/etc/fonts/conf.d</include>"
    rest = (deb for deb in debs if deb is not own)
    version = _unpack(home, own, *rest, fonts=f"<fontconfig>{fonts}{conf_d}</fontconfig>\n")
    total = sum(deb.stat().st_size for deb in debs)
    line = f"{part.package} {version} with {len(debs) - 1} more, {total / 1e6:.1f} MB"
    sys.stdout.write(f"{part.suite:9} {line}\n")
    return total


def _newer_keyring(mirror: Mirror) -> Mirror:
    """Return `mirror` with the keyring of a package that the machine's own keyring vouches for."""
    part = PARTS["keyring"]
    if not find("keyring"):
        _fetch_suite(part.suite, [part.package], mirror)
    return Mirror(mirror.uri, str(find("keyring")))


def _apt(suite: str, mirror: Mirror, work: Path) -> Path:
    """Make a private apt in `work` with the suite's lists; return its configuration file."""
    shutil.rmtree(work, ignore_errors=True)
    for folder in ("lists/partial", "cache/archives/partial", "state"):
        (work / folder).mkdir(parents=True)
    # No package counts as installed, so the candidate is always the suite's own.
    (work / "status").touch()
    signed = f"[signed-by={mirror.signed_by}] " if mirror.signed_by else ""
    (work / "sources.list").write_text(f"deb {signed}{mirror.uri} {suite} main\n")
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
    _run("apt-get", "-c", work / "apt.conf", "-q", "update")
    return work / "apt.conf"


def _unpack(home: Path, *debs: Path, fonts: str = "") -> str:
    """Unpack all so that `home` appears whole or not at all; return the first one's version."""
    version = _run("dpkg-deb", "-f", debs[0], "Version").strip()
    partial = home.with_name(f".partial-{home.name}")
    shutil.rmtree(partial, ignore_errors=True)
    for deb in debs:
        _run("dpkg-deb", "-x", deb, partial)
    if fonts:
        (partial / "fonts.conf").write_text(fonts)
    (partial / STAMP).write_text(f"{version}\n")
    shutil.rmtree(home, ignore_errors=True)
    partial.rename(home)
    return version


def _run(*argv: str | Path, cwd: Path | None = None, env: Mapping[str, str] = NOTHING) -> str:
    """Run a command and return its output; its complaints become a FetchError."""
    try:
        done = subprocess.run(
            argv,
            cwd=cwd,
            env={**os.environ, "LC_ALL": "C", **env},
            text=True,
            capture_output=True,
            check=False,
        )
    except FileNotFoundError:
        raise FetchError(f"{argv[0]} is missing: this needs Debian's apt and dpkg") from None
    if done.returncode:
        lines = (done.stdout + done.stderr).splitlines()
        errors = [line for line in lines if line.startswith(("E:", "W:"))] or lines[-3:]
        raise FetchError(f"{' '.join(map(str, argv))} failed: {'; '.join(errors)}")
    return done.stdout


def _parser() -> argparse.ArgumentParser:
    about = str(__doc__).partition("\n")[0]
    parser = argparse.ArgumentParser(prog="python -m testbed.debian", description=about)
    commands = parser.add_subparsers(dest="command", required=True)
    fetching = commands.add_parser("fetch", help="fetch what is missing")
    fetching.add_argument("--again", action="store_true", help="take the current versions")
    names = f"of {', '.join(PARTS)}; default: those that tests use"
    fetching.add_argument("parts", nargs="*", metavar="PART", help=names)
    where = commands.add_parser("where", help="print a part's path; exit 1 when not fetched")
    where.add_argument("part", choices=PARTS)
    return parser


def main() -> int:
    """Run the command line: `fetch [--again] [PART ...]` or `where PART`."""
    parser = _parser()
    arguments = parser.parse_args()
    if arguments.command == "where":
        path = find(arguments.part)
        sys.stdout.write(f"{path}\n" if path else "")
        return 0 if path else 1
    names = arguments.parts or [name for name, part in PARTS.items() if part.by_default]
    if unknown := [name for name in names if name not in PARTS]:
        parser.error(f"unknown part {unknown[0]!r}, choose from {', '.join(PARTS)}")
    began = time.monotonic()
    try:
        size = fetch_parts(names, again=arguments.again)
    except FetchError as error:
        sys.stderr.write(f"{error}\n")
        return 1
    seconds = time.monotonic() - began
    sys.stdout.write(f"{len(names)} parts, {size / 1e6:.1f} MB fetched in {seconds:.1f} s\n")
    return 0


if __name__ == "__main__":
    sys.exit(main())
