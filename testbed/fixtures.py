"""Fixtures that start real parts; without a part the test is skipped, or fails in CI."""

import asyncio
import os
import subprocess
import tempfile
from collections.abc import AsyncIterator, Callable, Container, Iterator
from itertools import product
from pathlib import Path
from typing import NoReturn

import pytest
import pytest_asyncio

from testbed import debian
from testbed.containerd import UNIFIED, VERSIONS, Containerd, prepare_root, why_not
from testbed.leftovers import sweep_abandoned


def unavailable(reason: str) -> NoReturn:
    """Skip the test, or fail it in CI."""
    if os.environ.get("CI") == "true":
        pytest.fail(reason, pytrace=False)
    pytest.skip(reason)


def part(name: str) -> Path:
    """A fetched file of that name; what it is for cannot run without it."""
    path = debian.find(name)
    if path is None:
        unavailable(f"{name} was not fetched (python -m testbed.debian fetch {name})")
    return path


def _starting(
    *versions: str, unified: tuple[bool, ...] = (False,), soak: Container[str] = ()
) -> Callable[..., AsyncIterator[Containerd]]:
    """A fixture that starts each of these containerds in turn, some of them only in soaks."""
    params = [
        pytest.param((version, both), id=name, marks=[pytest.mark.soak] * (name in soak))
        for version, both in product(versions, unified)
        for name in [f"{version}{'-unified' * both}"]
    ]

    @pytest_asyncio.fixture(params=params)
    async def started(
        request: pytest.FixtureRequest, tmp_path_factory: pytest.TempPathFactory
    ) -> AsyncIterator[Containerd]:
        version, in_unified = request.param
        # What each one of this session begins with.
        root = tmp_path_factory.getbasetemp() / f"containerd-{version}"
        if in_unified and not UNIFIED.exists():
            pytest.skip(f"{UNIFIED} is not there: the other tests are on this machine's version")
        if reason := why_not(version):
            unavailable(reason)
        if not root.exists():
            await asyncio.to_thread(sweep_abandoned)
            await prepare_root(version, root)
        async with Containerd(version, root, unified=in_unified) as running:
            yield running
            # pytest shows it where the test failed.
            print("\n".join(running.log().splitlines()[-60:]))  # noqa: T201

    return started


# A broadcast event stream; one whose subscribers share the events; one without; each.
containerd_21, containerd_17, containerd_16 = map(_starting, VERSIONS)
containerd = _starting(*VERSIONS)
containerd_with_events = _starting("2.1", "1.7")
# On either version of cgroups.
containerd_on_cgroups = _starting("2.1", "1.7", unified=(False, True), soak=("2.1", "1.7-unified"))
containerd_unified = _starting("2.1", "1.7", unified=(True,))


@pytest.fixture(scope="session")
def promtool() -> Path:
    """Return the path of Prometheus' own checker of rules and metrics."""
    return part("promtool")


@pytest.fixture
def small_disk() -> Iterator[Path]:
    """A file system with room for 64 KiB."""
    if os.geteuid():
        unavailable("a small file system needs root")
    with tempfile.TemporaryDirectory(prefix="sp-full-") as folder:
        mount = ["mount", "-t", "tmpfs", "-o", "size=64k", "tmpfs", folder]
        done = subprocess.run(mount, capture_output=True, text=True, check=False)
        if done.returncode:
            unavailable(f"no small file system: {done.stderr.strip()}")
        try:
            yield Path(folder)
        finally:
            subprocess.run(["umount", "-l", folder], check=True)
