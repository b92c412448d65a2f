"""What scrapers ask for, and what becomes of a process whose surroundings end."""

import asyncio
import os
import signal
import sys
from collections.abc import AsyncIterator, Awaitable, Callable
from contextlib import asynccontextmanager
from pathlib import Path

import pytest
from aiohttp.test_utils import unused_port

from exporter.web.rendered import prefers
from tests import ROOT, table
from tests.support.commands import Answer, answered
from tests.support.observer import Metrics

HEADERS = table(__file__, "accept.yaml")


@pytest.mark.quick
@pytest.mark.parametrize(
    ("names", "header", "expected"),
    [(names, *each) for names, headers in HEADERS.items() for each in headers.items()],
)
def test_the_highest_weight_wins_and_what_has_none_never_comes(
    names: str, header: str, *, expected: bool
) -> None:
    """Clients got OpenMetrics, or a coding, that they had refused; only browsers get HTML."""
    assert prefers(header, *names.split(" rather than ")) is expected


@asynccontextmanager
async def serving(
    redirected: str = "", errors: int | None = None
) -> AsyncIterator[tuple[asyncio.subprocess.Process, Callable[[int], Awaitable[Answer]]]]:
    """A process that serves, and waiting until it has dropped lines of its log; it ends well."""
    url = f"127.0.0.1:{unused_port()}"
    flags = f"--web.listen-address={url} --relist-period=100ms --log.level=debug"
    process = await asyncio.create_subprocess_shell(
        f"exec {sys.executable} -m exporter serve {flags}"
        f" --runtime-endpoint=unix:///nonexistent/cri.sock {redirected}",
        cwd=ROOT,
        stderr=errors,
    )

    def drops(least: int) -> Awaitable[Answer]:
        dropped = "shadow_pleg_log_lines_dropped_total"
        return answered(
            f"http://{url}/metrics",
            lambda page: Metrics.read(page.text).value(dropped) >= least,
            f"it serves, and has dropped {least} lines",
        )

    try:
        await drops(0)
        yield process, drops
    finally:
        process.terminate()
        code = await process.wait()
    assert code == 0


async def test_a_process_outlives_the_reader_of_its_log_and_its_terminal() -> None:
    """https://github.com/containerd/containerd/issues/580

    journald was restarted, and each writer to its pipe was ended. SIGHUP is what tools
    send to have a configuration read again.
    """
    reading, writing = os.pipe()
    async with serving(errors=writing) as (process, drops):
        os.close(writing)
        os.close(reading)
        process.send_signal(signal.SIGHUP)
        await drops(1)


async def test_a_process_without_standard_streams_serves_all_the_same() -> None:
    """https://github.com/containerd/containerd/issues/580

    Some supervisors close them: what is opened next would be written to as if it were the log.
    """
    async with serving("<&- >&- 2>&-") as (process, _):
        own = Path(f"/proc/{process.pid}/fd")
        assert {str((own / str(number)).readlink()) for number in range(3)} == {os.devnull}
