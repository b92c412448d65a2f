"""Builds the Containerfile as root, without a daemon and without a registry of images.

Its base is Debian's current packages by mmdebstrap, from the machine's apt mirror; pip uses the
machine's index and certificates. build/image then has the image as an archive, which `docker load`,
`ctr images import` and `kind load image-archive` read; its root file system; its OCI configuration;
and a command that runs the image's Python as root without a container. The base and the layers are
kept in .cache/image.
"""

import fcntl
import hashlib
import json
import shlex
import shutil
import ssl
import sys
from pathlib import Path

from exporter import __version__
from testbed import debian
from testbed.debian import BUILDAH_LIBRARIES, ROOT, FetchError, part, run

MADE = ROOT / "build/image"
ROOTFS, CONFIG, PYTHON = MADE / "rootfs", MADE / "config.json", MADE / "python"
ARCHIVE, IMAGE = MADE / "shadow-pleg.tar", f"docker.io/library/shadow-pleg:{__version__}"
SUITE = "forky"
_MOST_MB = 4000
_KEPT = ROOT / ".cache/image"
_BASE = "localhost/debian"
_SOURCES = ("Containerfile", "deploy/*.lock", "pyproject.toml", "setup.py", "exporter", "crifilter")
_PYTHON = """\
#!/bin/sh
exec unshare --mount sh -c '
for each in dev proc tmp; do mount --rbind "/$each" "$0/$each"; done
cd / && exec /usr/bin/env {env} /usr/sbin/chroot "$0" /opt/shadow-pleg/bin/python "$@"
' {root} "$@"
"""
_TOOLS = ("mmdebstrap", "buildah", "runc", "keyring", *BUILDAH_LIBRARIES)


def build() -> None:
    """Build the image of this checkout, unless its sources are unchanged."""
    for folder in (MADE, _KEPT):
        folder.mkdir(parents=True, exist_ok=True)
    # Several processes of one test run may ask for it.
    with (_KEPT / "lock").open("w") as lock:
        fcntl.flock(lock, fcntl.LOCK_EX)
        stamp, now = MADE / "fingerprint", _fingerprint()
        if not stamp.is_file() or stamp.read_text() != now:
            stamp.unlink(missing_ok=True)
            _build()
            stamp.write_text(now)


def _build() -> None:
    debian.fetch_parts(_TOOLS)
    _make_base()
    revision = run("git", "rev-parse", "HEAD")
    _buildah(
        *("build", "--quiet", "--layers", "--pull-never", "--network", "host"),
        *(word for volume in _of_the_machine() for word in ("--volume", volume)),
        *("--format", "docker", "--tag", IMAGE, "--file", "Containerfile"),
        *("--build-arg", f"DEBIAN={_BASE}", "--build-arg", f"REVISION={revision}", "."),
    )
    working = _buildah("from", "--pull-never", IMAGE)
    shutil.rmtree(ROOTFS, ignore_errors=True)
    shutil.copytree(_buildah("mount", working), ROOTFS, symlinks=True)
    of_image = json.loads(_buildah("inspect", "--type", "image", IMAGE))
    config = of_image["Docker"]["config"]
    CONFIG.write_text(json.dumps(config))
    for name in ("dev", "proc"):
        (ROOTFS / name).mkdir()
    PYTHON.write_text(_PYTHON.format(root=shlex.quote(str(ROOTFS)), env=shlex.join(config["Env"])))
    PYTHON.chmod(0o755)
    _buildah("rm", "--all")
    ARCHIVE.unlink(missing_ok=True)
    _buildah("push", "--quiet", IMAGE, f"docker-archive:{ARCHIVE}:{IMAGE}")


def _make_base() -> None:
    stamp, storage = _KEPT / "base", _KEPT / "storage"
    # Each build leaves layers of some 100 MB.
    full = storage.is_dir() and int(run("du", "-sm", storage).split()[0]) > _MOST_MB
    if stamp.is_file() and stamp.read_text() == SUITE and not full:
        return
    stamp.unlink(missing_ok=True)
    archive = _KEPT / "base.tar"
    # A mirror that is not updated any more is accepted if the machine's apt accepts it.
    checked = run("apt-config", "dump", "--format=%v", "Acquire::Check-Valid-Until") or "true"
    run(
        *("perl", part("mmdebstrap"), "--quiet", "--mode=root", "--variant=apt"),
        f'--aptopt=Acquire::Check-Valid-Until "{checked}"',
        *(f"--keyring={part('keyring')}", SUITE, archive),
        f"deb {debian.mirror()} {SUITE} main",
    )
    _buildah("rmi", "--all", "--force")
    blank = _buildah("from", "scratch")
    _buildah("add", "--quiet", blank, archive, "/")
    _buildah("commit", "--quiet", "--rm", blank, _BASE)
    archive.unlink()
    stamp.write_text(SUITE)


def _fingerprint() -> str:
    """A digest of the image's sources, but for Debian's packages."""
    digest = hashlib.sha256()
    for name in run("git", "ls-files", "-co", "--exclude-standard", *_SOURCES).splitlines():
        digest.update(name.encode() + (ROOT / name).read_bytes())
    return digest.hexdigest()


def _of_the_machine() -> list[str]:
    """Mounts with which the build's pip uses the index of the machine's pip."""
    config, authorities = _KEPT / "pip.conf", ssl.get_default_verify_paths().cafile
    index = run(sys.executable, "-m", "pip", "config", "list").partition("global.index-url='")[2]
    lines = [f"index-url={index.partition(chr(39))[0]}"] if index else []
    lines += ["cert=/machine.crt"] if authorities else []
    config.write_text("\n".join(["[global]", *lines, ""]))
    certificates = [f"{authorities}:/machine.crt:ro"] if authorities else []
    return [f"{config}:/etc/pip.conf:ro", *certificates]


def _buildah(*argv: str | Path) -> str:
    """Run buildah with its own storage, so that the machine's images are not touched."""
    libraries = {str(part(name).parent) for name in BUILDAH_LIBRARIES}
    policy, registries = _KEPT / "policy.json", _KEPT / "registries.conf"
    policy.write_text('{"default": [{"type": "insecureAcceptAnything"}]}\n')
    registries.write_text("unqualified-search-registries = []\n")
    place = ("--root", _KEPT / "storage", "--runroot", _KEPT / "run", "--storage-driver", "overlay")
    command, *rest = argv
    signs = command in {"from", "build", "commit", "push"}
    signed = ("--signature-policy", policy) if signs else ()
    return run(
        *(part("buildah"), *place, command, *signed, *rest),
        LD_LIBRARY_PATH=":".join(sorted(libraries)),
        CONTAINERS_REGISTRIES_CONF=str(registries),
        # Not chroot: it starts itself again without the path of the libraries.
        BUILDAH_ISOLATION="oci",
        BUILDAH_RUNTIME=str(part("runc")),
        TMPDIR=str(_KEPT),
    )


if __name__ == "__main__":
    try:
        build()
    except FetchError as error:
        sys.exit(f"testbed.observer_image: {error}")
