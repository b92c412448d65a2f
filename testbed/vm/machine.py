"""Builds the disk of an emulated machine, boots it, and brings back what it wrote.

The kernel, systemd and Python are those of Debian's stable suite, unpacked and not installed. The
disk holds this checkout, too; the machine has no network, and no disk of it is changed. It runs in
software, which makes Go 25 times as slow and the kernel twice, or with VM_ACCEL=kvm.
"""

import lzma
import os
import shutil
import subprocess
import sys
import tarfile
from contextlib import suppress
from pathlib import Path
from typing import Final

from testbed import debian
from testbed.debian import ROOT, FetchError, home_of, run

LAYOUTS: Final = ("cgroupfs", "systemd")
# What the guest's own containerd is made of.
_OF_GUEST: Final = ("containerd-2.1", "runc", "crun", "runsc", "busybox")
PARTS_NEEDED: Final = ("qemu", "e2fsprogs", "guest", "guest-libc", *_OF_GUEST)
MADE: Final = ROOT / "build/vm"
_HERE: Final = Path(__file__).parent
_PYTHON: Final = "3.13"
_MODULES: Final = ("virtio_blk", "overlay")
_MIB: Final = 1536
# A /dev/kvm that opens may still fail to boot anything: so it has to be asked for.
ACCEL: Final = os.environ.get("VM_ACCEL", "tcg,thread=multi,tb-size=512")
_DISK, _RESULTS = "1G", "256M"
# Of the job. Else a fork may hang that gRPC has threads in.
_ENV: Final = """\
HOME=/root
PATH=/usr/bin:/usr/sbin:/usr/local/bin
PYTHONPATH=/repo:/repo/site
PYTHONDONTWRITEBYTECODE=1
PYTHON_COLORS=0
GRPC_ENABLE_FORK_SUPPORT=0
"""
_SERVICE: Final = """\
[Unit]
Requires=dbus.socket
After=dbus.socket
FailureAction=poweroff-force

[Service]
EnvironmentFile=/etc/vm.env
Environment=LAYOUT=systemd
PassEnvironment=VM_OOM
ExecStart=/usr/bin/python3 -m testbed.vm.guest
StandardOutput=file:/dev/console
StandardError=file:/dev/console
"""


class VmError(Exception):
    """The machine could not be built, or brought nothing back; the message says why."""


def why_not() -> str:
    """Return the reason why no machine can be emulated here, or "" when one can."""
    missing = [name for name in PARTS_NEEDED if not debian.find(name)]
    return f"not fetched: {', '.join(missing)} (make vm)" if missing else ""


def boot(layout: str, seconds: float, **variables: str) -> Path:
    """Run the guest's job in a machine of that layout; return the folder with what it wrote.

    `seconds`: after which it is ended. `variables`: of the guest's environment. VmError if it
    ended without a result.
    """
    home = MADE / layout
    shutil.rmtree(home, ignore_errors=True)
    disk, initrd, kernel = _disk(home), _initrd(home), next(home_of("guest").glob("boot/vmlinuz-*"))
    results, console, found = home / "results", home / "console", home / "found"
    run("truncate", "--size", _RESULTS, results)
    share = debian.part("qemu").parents[1] / "share"
    # Where the machine waits for a CPU, the kernel takes its timer for broken, and panics.
    words = "console=ttyS0 quiet loglevel=1 panic=1 mitigations=off no_timer_check"
    words += " systemd.unit=vm.service systemd.mask=ldconfig.service"
    for name, value in {**variables, "layout": layout}.items():
        words += f" {name}={value}"
    command = (
        *(debian.part("qemu"), "-accel", ACCEL, "-cpu", "max"),
        *("-smp", "2", "-m", str(_MIB), "-nic", "none", "-nographic", "-no-reboot"),
        *("-L", share / "seabios", "-L", share / "qemu"),
        *("-kernel", kernel, "-initrd", initrd, "-append", words),
        *("-drive", f"file={disk},if=virtio,format=raw,snapshot=on,cache=unsafe"),
        *("-drive", f"file={results},if=virtio,format=raw,cache=unsafe"),
    )
    env, nothing = os.environ | debian.environment("qemu"), subprocess.DEVNULL
    # At its end or a failure here, the machine is killed.
    with console.open("wb") as log, suppress(subprocess.TimeoutExpired):
        subprocess.run(
            command, check=False, timeout=seconds, stdin=nothing, stdout=log, stderr=log, env=env
        )
    with suppress(tarfile.TarError), tarfile.open(results) as archive:
        archive.extractall(found, filter="data")
    for each in (disk, results):
        each.unlink()
    if not (found / "truth.json").exists():
        tail = "\n".join(console.read_text(errors="replace").splitlines()[-40:])
        raise VmError(f"it ended without a result; {console} ends:\n{tail}")
    return found


def _disk(home: Path) -> Path:
    """Make the machine's root file system."""
    root, disk = home / "root", home / "disk"
    _link(home_of("guest"), root)
    _link(home_of("guest-libc") / "usr", root / "usr")
    for name in _OF_GUEST:
        _link(home_of(name), root / "repo" / home_of(name).relative_to(ROOT))
    for name in ("conformance", "exporter", "testbed"):
        _link(ROOT / name, root / "repo" / name)
    _link(_libraries(), root / "repo/site")
    _furnish(root)
    made = ("-q", "-t", "ext4", "-O", "^has_journal", "-d", root, disk, _DISK)
    run(debian.part("e2fsprogs"), *made, **debian.environment("e2fsprogs"))
    shutil.rmtree(root)
    return disk


def _furnish(root: Path) -> None:
    """Add what a package's installation would, and what the machine begins with."""
    busybox = debian.part("busybox")
    os.link(busybox, root / "usr/bin/busybox")
    for applet in run(busybox, "--list").split():
        if not (root / "usr/bin" / applet).exists():
            (root / "usr/bin" / applet).symlink_to("busybox")
    etc = root / "etc"
    (etc / "systemd/system").mkdir(parents=True, exist_ok=True)
    (etc / "passwd").write_text("root:x:0:0::/root:/bin/sh\nmessagebus:x:100:100::/:/bin/sh\n")
    (etc / "group").write_text("root:x:0:\nmessagebus:x:100:\n")
    # Each pod's own ones are made from these.
    for name in ("hosts", "resolv.conf", "machine-id"):
        (etc / name).touch()
    (etc / "vm.env").write_text(_ENV)
    (etc / "systemd/system/vm.service").write_text(_SERVICE)
    shutil.copy(_HERE / "cgroupfs.sh", root / "init-cgroupfs")
    (root / "init-cgroupfs").chmod(0o755)
    (root / "init-systemd").symlink_to("usr/lib/systemd/systemd")


def _initrd(home: Path) -> Path:
    """Write the archive with what finds the disk."""
    first, archive, busybox = home / "first", home / "initrd", debian.part("busybox")
    for name in ("bin", "dev", "new", "modules"):
        (first / name).mkdir(parents=True)
    os.link(busybox, first / "bin/busybox")
    shutil.copy(_HERE / "initrd.sh", first / "init")
    (first / "init").chmod(0o755)
    for name in _MODULES:
        (packed,) = home_of("guest").glob(f"usr/lib/modules/*/kernel/**/{name}.ko.xz")
        (first / "modules" / name).write_bytes(lzma.decompress(packed.read_bytes()))
    run("sh", "-c", f"find . | {busybox} cpio -o -H newc > {archive}", cwd=first)
    return archive


def _libraries() -> Path:
    """What the exporter imports, for the guest's Python; fetched once for each lock file."""
    lock, kept = ROOT / "deploy/requirements.lock", ROOT / ".cache/vm/site"
    stamp = kept / ".lock"
    if not stamp.is_file() or stamp.read_bytes() != lock.read_bytes():
        shutil.rmtree(kept, ignore_errors=True)
        quiet = ("--quiet", "--disable-pip-version-check", "--no-compile", "--no-deps")
        only = ("--only-binary=:all:", "--python-version", _PYTHON, "--target", kept)
        run(sys.executable, "-m", "pip", "install", *quiet, *only, "-r", lock)
        shutil.copy(lock, stamp)
    return kept


def _link(source: Path, target: Path) -> None:
    """Add a tree to another one, without copying a file."""
    unwanted = shutil.ignore_patterns("__pycache__", "doc", "man", "locale")
    shutil.copytree(
        source, target, symlinks=True, ignore=unwanted, copy_function=os.link, dirs_exist_ok=True
    )


if __name__ == "__main__":
    try:
        debian.fetch_parts(PARTS_NEEDED)
        _libraries()
    except FetchError as error:
        sys.exit(f"testbed.vm.machine: {error}")
