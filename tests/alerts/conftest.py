"""Parts of Prometheus that the tests here run, beside promtool."""

import os
import subprocess
from pathlib import Path

import pytest

from testbed.fixtures import part, unavailable
from testbed.servers import Command

# Debian's Alertmanager reads its templates from /usr/share and from nowhere else: it is shown a
# /usr/share to which those of the package are added, in a mount namespace of its own.
_MOUNT = 'mount -t overlay overlay -o "lowerdir=$0:/usr/share" /usr/share && exec "$@"'


@pytest.fixture(scope="session")
def prometheus_command() -> Command:
    """Return what starts Prometheus."""
    return (part("prometheus"),)


@pytest.fixture(scope="session")
def alertmanager_command() -> Command:
    """Return what starts Alertmanager."""
    binary = part("alertmanager").resolve()
    user = () if os.geteuid() == 0 else ("--map-root-user",)
    share = binary.parents[1] / "share"
    command = ("unshare", "--mount", *user, "sh", "-c", _MOUNT, share, binary)
    tried = subprocess.run([*command, "--version"], capture_output=True, text=True, check=False)
    if tried.returncode:
        unavailable(f"no mount namespace for Alertmanager's templates: {tried.stderr.strip()}")
    return command


@pytest.fixture(scope="session")
def amtool() -> Path:
    """Return the path of Alertmanager's tool."""
    return part("amtool")
