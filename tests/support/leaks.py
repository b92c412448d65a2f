"""After each test: no task, thread, child process, descriptor or mount that was not there before.

Blind spots: daemon threads and unnamed unix sockets, which gRPC keeps; shared loops' own tasks.
"""

import asyncio
import contextlib
import gc
import tempfile
import threading
import time
from collections.abc import AsyncIterator, Callable, Iterator, Mapping
from pathlib import Path
from typing import Final

import pytest
import pytest_asyncio

from testbed.leftovers import mounts_in

# What ends by itself may take so long to be gone: an event loop's threads, a killed child.
_PATIENCE_SECONDS: Final = 5.0
_SINCE = pytest.StashKey[Mapping[str, frozenset[str]]]()
# gRPC's event engine makes these when it is used first, and keeps them.
_KEPT: Final = ("anon_inode:[eventpoll]", "anon_inode:[eventfd]", "anon_inode:[timerfd]")


def _threads() -> frozenset[str]:
    return frozenset(
        f"thread {thread.name} ({thread.ident})"
        for thread in threading.enumerate()
        # gRPC's pollers wait for work for as long as the process lives, asyncio's helpers for as
        # long as their loop; it ends with the test, and waits for them, or is one of several tests.
        if not thread.daemon and not thread.name.startswith("asyncio_")
    )


def _children() -> frozenset[str]:
    found = set()
    for task in Path("/proc/self/task").iterdir():
        # A thread may end meanwhile.
        with contextlib.suppress(FileNotFoundError):
            for pid in (task / "children").read_text().split():
                command = Path(f"/proc/{pid}/cmdline").read_text().replace("\0", " ").strip()
                found.add(f"process {pid} {command}")
    return frozenset(found)


def _nameless() -> frozenset[str]:
    """Unix sockets without a path: ends of socket pairs, and clients."""
    rows = (line.split() for line in Path("/proc/net/unix").read_text().splitlines()[1:])
    return frozenset(f"socket:[{row[6]}]" for row in rows if len(row) == 7)


def _descriptors() -> frozenset[str]:
    found = set()
    kept = _nameless().union(_KEPT)
    for path in Path("/proc/self/fd").iterdir():
        try:
            target = str(path.readlink())
        except FileNotFoundError:
            continue
        # pytest itself redirects the first three.
        if path.name in {"0", "1", "2"}:
            continue
        if target not in kept and not target.startswith(("/proc/", "/dev/")):
            found.add(f"descriptor {path.name} of {target}")
    return frozenset(found)


def _mounted() -> frozenset[str]:
    return frozenset(f"mount {each}" for each in mounts_in(tempfile.gettempdir()))


_KINDS: Final[Mapping[str, Callable[[], frozenset[str]]]] = {
    "threads": _threads,
    "children": _children,
    "descriptors": _descriptors,
    "mounts": _mounted,
}


@pytest.fixture(autouse=True)
def _noted(request: pytest.FixtureRequest) -> None:
    """What there is before the test, with all that wider scopes have started."""
    request.node.stash[_SINCE] = {kind: look() for kind, look in _KINDS.items()}


@pytest_asyncio.fixture
async def _tasks_noted() -> AsyncIterator[None]:
    """No task is left in the test's own loop. Inserted before the other fixtures."""
    before = asyncio.all_tasks()
    yield
    left = asyncio.all_tasks() - before - {asyncio.current_task()}
    if left:
        _, left = await asyncio.wait(left, timeout=_PATIENCE_SECONDS)
    assert not left, f"the test leaves tasks behind: {sorted(map(repr, left))}"


@pytest.hookimpl(wrapper=True, tryfirst=True)
def pytest_runtest_teardown(item: pytest.Item) -> Iterator[None]:
    """Fail the test if something is left once its fixtures are gone."""
    result = yield
    since = item.stash.get(_SINCE, None)
    if since is not None:
        until = time.monotonic() + _PATIENCE_SECONDS
        while left := _left(since):
            gc.collect()
            if time.monotonic() > until:
                pytest.fail(f"the test leaves behind: {'; '.join(left)}", pytrace=False)
            time.sleep(0.02)
    return result


def _left(since: Mapping[str, frozenset[str]]) -> list[str]:
    return sorted(each for kind, before in since.items() for each in _KINDS[kind]() - before)
