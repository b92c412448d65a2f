"""The files of Debian's packages that tests use."""

from dataclasses import dataclass


@dataclass(frozen=True, slots=True)
class Part:
    """One file of one package."""

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
