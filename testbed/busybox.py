"""The image of all pods and containers: static busybox alone."""

import hashlib
import io
import json
import platform
import tarfile
from pathlib import Path

from testbed.pods import IMAGE

APPLETS = ("sh", "sleep", "true", "false")
ARCHITECTURES = {"x86_64": "amd64", "aarch64": "arm64"}


def write_image(busybox: Path, target: Path) -> None:
    """Write `IMAGE` as a docker archive, which every `ctr images import` reads."""
    layer = _layer(busybox.read_bytes())
    digest = f"sha256:{hashlib.sha256(layer).hexdigest()}"
    config = {
        "architecture": ARCHITECTURES.get(platform.machine(), platform.machine()),
        "os": "linux",
        "config": {"Cmd": ["/bin/sleep", "infinity"]},
        "rootfs": {"type": "layers", "diff_ids": [digest]},
    }
    manifest = [{"Config": "config.json", "RepoTags": [IMAGE], "Layers": ["layer.tar"]}]
    with tarfile.open(target, "w") as archive:
        _add(archive, "config.json", json.dumps(config).encode())
        _add(archive, "layer.tar", layer)
        _add(archive, "manifest.json", json.dumps(manifest).encode())


def _layer(busybox: bytes) -> bytes:
    buffer = io.BytesIO()
    with tarfile.open(fileobj=buffer, mode="w") as layer:
        for folder in ("bin", "dev", "etc", "proc", "sys", "tmp"):
            entry = tarfile.TarInfo(folder)
            entry.type, entry.mode = tarfile.DIRTYPE, 0o755
            layer.addfile(entry)
        _add(layer, "bin/busybox", busybox)
        for applet in APPLETS:
            entry = tarfile.TarInfo(f"bin/{applet}")
            entry.type, entry.linkname = tarfile.SYMTYPE, "busybox"
            layer.addfile(entry)
    return buffer.getvalue()


def _add(archive: tarfile.TarFile, name: str, data: bytes) -> None:
    entry = tarfile.TarInfo(name)
    entry.size, entry.mode = len(data), 0o755
    archive.addfile(entry, io.BytesIO(data))
