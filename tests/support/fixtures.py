"""What tests get, and what is looked at after each: fixtures, Hypothesis' examples, leaks.

After each test there is no task, thread, child process, descriptor or mount that was not there
before. Blind spots: daemon threads and unnamed unix sockets, which gRPC keeps; shared loops' own
tasks. Hypothesis tries the same examples in each run, ten times as many in `make soak`.
"""

import asyncio
import gc
import logging
import os
import signal
import tempfile
import threading
import time
from collections.abc import AsyncIterator, Iterator
from contextlib import suppress
from pathlib import Path
from typing import Final

import pytest
import pytest_asyncio
import structlog
from hypothesis import Phase, settings
from structlog.typing import EventDict

from exporter.settings.config import Config
from exporter.settings.declaring import flags_of
from testbed.leftovers import mounts_in
from tests.support.runtimes import ScriptedServer, short_folder, simulated

_EXAMPLES = 100
settings.register_profile("steady", derandomize=True, deadline=None, max_examples=_EXAMPLES)
settings.register_profile("search", deadline=None, max_examples=10 * _EXAMPLES)
# Where it matters only whether one fails, not which: `make mutants`.
settings.register_profile(
    "first", settings.get_profile("steady"), phases=(Phase.explicit, Phase.generate)
)
settings.load_profile("steady")

# What ends by itself may take so long to be gone: an event loop's threads, a killed child.
_PATIENCE_SECONDS: Final = 60.0
_SINCE = pytest.StashKey[set[str]]()
# gRPC's event engine keeps the first three, asyncio the helpers of a loop.
_KEPT: Final = ("anon_inode:", "/proc/", "/dev/")


def examples(times: float) -> settings:
    default = settings.get_profile(settings.get_current_profile_name())
    return settings(max_examples=round(times * default.max_examples))


@pytest.fixture
def borrowed_process(monkeypatch: pytest.MonkeyPatch) -> Iterator[None]:
    """Signals and logging, as a command in this process changes them, go back to what they were."""
    for setting in flags_of(Config):
        monkeypatch.delenv(setting.env, raising=False)
    handlers = {each: signal.getsignal(each) for each in (signal.SIGTERM, signal.SIGINT)}
    root = logging.getLogger()
    level, listeners = root.level, root.handlers[:]
    yield
    structlog.reset_defaults()
    root.setLevel(level)
    root.handlers[:] = listeners
    for each, handler in handlers.items():
        signal.signal(each, handler)


@pytest.fixture
def log() -> Iterator[list[EventDict]]:
    """Every line that is logged, in order, at any level."""
    with structlog.testing.capture_logs() as lines:
        yield lines


@pytest.fixture
def sound_log(log: list[EventDict]) -> Iterator[None]:
    """The log of this process is shown where a test fails, and has no exception."""
    yield
    print(*log, sep="\n")  # noqa: T201
    assert not any(line.get("exc_info") for line in log), "an exception logged"


@pytest.fixture
def folder() -> Iterator[Path]:
    with short_folder() as path:
        yield path


@pytest.fixture
def cgroups() -> Iterator[Path]:
    """A folder in memory, as cgroups are: on a disk its files cost more than all else."""
    memory = "/dev/shm"  # noqa: S108 - the folder's own name is made up
    with tempfile.TemporaryDirectory(dir=memory if os.access(memory, os.W_OK) else None) as folder:
        yield Path(folder)


@pytest_asyncio.fixture
async def server() -> AsyncIterator[ScriptedServer]:
    """A quiet containerd 2 without pods."""
    async with simulated() as quiet:
        yield quiet


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
