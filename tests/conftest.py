"""Rules for all tests: what a test's marks mean, and what is looked at after it."""

import asyncio
import inspect
import shutil
import tempfile
from collections.abc import AsyncIterator, Callable, Mapping
from pathlib import Path
from typing import Final

import pytest
import pytest_asyncio

from tests.support.virtual_time import VirtualLoop, clocks_of, in_memory

pytest_plugins = ["testbed.fixtures", "tests.support.fixtures", "tests.support.web"]

LoopFactory = Callable[[], asyncio.AbstractEventLoop]
# Folders of tests that mostly wait, for real parts or for a browser.
WAITING: Final = {"real", "web", "field"}


def pytest_configure(config: pytest.Config) -> None:
    """A folder for all that this process makes: short, for sockets; no other run has it."""
    tempfile.tempdir = tempfile.mkdtemp(prefix="sp")
    # Some tests give up their privileges.
    Path(tempfile.tempdir).chmod(0o711)
    config.add_cleanup(_remove_folder)


def _remove_folder() -> None:
    """A later run in this process makes another."""
    shutil.rmtree(tempfile.gettempdir(), ignore_errors=True)
    tempfile.tempdir = None


def pytest_asyncio_loop_factories(item: pytest.Item) -> Mapping[str, LoopFactory]:
    """Tests marked `virtual_time` get a loop whose clock is a number."""
    return {"virtual": VirtualLoop} if _virtual(item) else {"real": asyncio.SelectorEventLoop}


@pytest_asyncio.fixture
async def _virtual_world() -> AsyncIterator[None]:
    """Clocks and gRPC for a test in virtual time."""
    with clocks_of(asyncio.get_running_loop()), in_memory():
        yield


@pytest.hookimpl(tryfirst=True)
def pytest_collection_modifyitems(items: list[pytest.Item]) -> None:
    """Tests of one file run in one process; a test in virtual time gets its world before all.

    Those that mostly wait begin first: at the end they would leave the processors without work.
    The core needs neither root nor network nor time: all of its tests are quick.
    """
    items.sort(key=lambda item: WAITING.isdisjoint(item.path.parts))
    for item in items:
        if item.path.parent.name == "pleg":
            item.add_marker(pytest.mark.quick)
        if item.get_closest_marker("xdist_group") is None:
            item.add_marker(pytest.mark.xdist_group(item.nodeid.partition("::")[0]))
        if isinstance(item, pytest.Function) and inspect.iscoroutinefunction(item.obj):
            item.fixturenames.insert(0, "_tasks_noted")
            if _virtual(item):
                item.fixturenames.insert(0, "_virtual_world")


def _virtual(item: pytest.Item) -> bool:
    test = getattr(item, "obj", None)
    marked = item.get_closest_marker("virtual_time") is not None
    return marked and inspect.iscoroutinefunction(test)
