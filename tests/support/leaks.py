"""After each test: no task, thread, child process, descriptor or mount that was not there before.

Blind spots: daemon threads and unnamed unix sockets, which gRPC keeps; shared loops' own tasks.
"""

import asyncio
import gc
import tempfile
import threading
import time
from collections.abc import AsyncIterator, Iterator
from contextlib import suppress
from pathlib import Path
from typing import Final

import pytest
import pytest_asyncio

from testbed.leftovers import mounts_in

# What ends by itself may take so long to be gone: an event loop's threads, a killed child.
_PATIENCE_SECONDS: Final = 5.0
_SINCE = pytest.StashKey[set[str]]()
# gRPC's event engine keeps the first three, asyncio the helpers of a loop.
_KEPT: Final = ("anon_inode:", "/proc/", "/dev/")


def _present() -> Iterator[str]:
    for thread in threading.enumerate():
        if not thread.daemon and not thread.name.startswith("asyncio_"):
            yield f"thread {thread.name} ({thread.ident})"
    # A thread may end meanwhile, and a descriptor be closed.
    for task in Path("/proc/self/task").iterdir():
        with suppress(FileNotFoundError):
            for pid in (task / "children").read_text().split():
                yield f"process {pid} {Path(f'/proc/{pid}/cmdline').read_text()}"
    rows = (line.split() for line in Path("/proc/net/unix").read_text().splitlines()[1:])
    nameless = {f"socket:[{row[6]}]" for row in rows if len(row) == 7}
    for path in Path("/proc/self/fd").iterdir():
        with suppress(FileNotFoundError):
            target = str(path.readlink())
            # pytest itself redirects the first three.
            if int(path.name) > 2 and target not in nameless and not target.startswith(_KEPT):
                yield f"descriptor {path.name} of {target}"
    yield from (f"mount {each}" for each in mounts_in(tempfile.gettempdir()))


@pytest.fixture(autouse=True)
def _noted(request: pytest.FixtureRequest) -> None:
    """What there is before the test, with all that wider scopes have started."""
    request.node.stash[_SINCE] = set(_present())


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
    until = time.monotonic() + _PATIENCE_SECONDS
    while since is not None and (left := set(_present()) - since):
        gc.collect()
        if time.monotonic() > until:
            pytest.fail(f"the test leaves behind: {'; '.join(sorted(left))}", pytrace=False)
        time.sleep(0.02)
    return result
