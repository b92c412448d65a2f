"""A failed test tells its behaviour and the logs of daemons; one that hangs, all stacks."""

import asyncio
import io
import signal
from collections.abc import Callable, Generator, Iterator
from contextlib import contextmanager
from typing import Final

import pytest

_LINES: Final = 60
_logs: dict[str, Callable[[], str]] = {}
_ended: dict[str, Callable[[], str]] = {}


@contextmanager
def log_of(daemon: str, read: Callable[[], str]) -> Iterator[None]:
    """Meanwhile, a test that fails shows the last lines of that daemon's log."""
    _logs[daemon] = read
    try:
        yield
    except BaseException:
        # The report of a test is made when its own blocks have ended.
        text = read()
        _ended[daemon] = lambda: text
        raise
    finally:
        _logs.pop(daemon, None)


def pytest_runtest_setup() -> None:
    """Forget what the test before left."""
    _ended.clear()


@pytest.hookimpl(wrapper=True)
def pytest_runtest_makereport(
    item: pytest.Item, call: pytest.CallInfo[None]
) -> Generator[None, pytest.TestReport, pytest.TestReport]:
    """Put the behaviour that the test proves in the first line; add logs."""
    report = yield
    if not report.failed:
        return report
    crash = getattr(report.longrepr, "reprcrash", None)
    behaviour = (getattr(getattr(item, "obj", None), "__doc__", None) or "").strip().split("\n")[0]
    if crash is not None and behaviour and call.when == "call":
        crash.message = f"Expected: {behaviour} But: {crash.message}"
    for daemon, read in (_logs | _ended).items():
        lines = read().splitlines()[-_LINES:]
        report.sections.append((f"log of {daemon}, its last {len(lines)} lines", "\n".join(lines)))
    return report


@pytest.hookimpl(wrapper=True)
def pytest_timeout_set_timer(item: pytest.Item) -> Generator[None, object, object]:
    """Have pytest-timeout's own dump of threads preceded by one of tasks."""
    result = yield
    theirs = signal.getsignal(signal.SIGALRM)
    if not callable(theirs):
        return result

    def ours(signum: int, frame: object) -> None:
        item.config.get_terminal_writer().write(_stacks_of_tasks())
        theirs(signum, frame)  # type: ignore[arg-type] # it ignores the frame

    signal.signal(signal.SIGALRM, ours)
    return result


def _stacks_of_tasks() -> str:
    """The stacks of all tasks of the loop that runs in this thread; empty if there is none."""
    try:
        tasks = asyncio.all_tasks()
    except RuntimeError:
        return ""
    text = io.StringIO()
    for task in tasks:
        try:
            task.print_stack(file=text)
        except TypeError:
            # Frames of gRPC's own tasks have no line numbers.
            text.write(f"{task!r}\n")
    return text.getvalue()
