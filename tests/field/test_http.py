"""What scrapers ask for, and what becomes of a process whose surroundings end."""

import asyncio
import os
import signal
import sys
import time
from collections.abc import AsyncIterator, Awaitable, Callable
from contextlib import asynccontextmanager, suppress
from functools import partial
from pathlib import Path

import aiohttp
import pytest
import yaml
from aiohttp.test_utils import unused_port

from exporter.web.rendered import prefers
from testbed.waiting import until
from tests import ROOT
from tests.support.commands import fetch
from tests.support.observer import DEADLINE, Metrics

HEADERS = yaml.safe_load(Path(__file__).with_name("accept.yaml").read_text(encoding="utf-8"))


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
) -> AsyncIterator[tuple[asyncio.subprocess.Process, Callable[[], Awaitable[bool]]]]:
    """A process that serves, and whether it has dropped a line of its log; it ends well."""
    url = f"127.0.0.1:{unused_port()}"
    flags = f"--web.listen-address={url} --relist-period=100ms --log.level=debug"
    process = await asyncio.create_subprocess_shell(
        f"exec {sys.executable} -m exporter serve {flags}"
        f" --runtime-endpoint=unix:///nonexistent/cri.sock {redirected}",
        cwd=ROOT,
        stderr=errors,
    )

    async def dropped(least: int) -> bool:
        with suppress(aiohttp.ClientError):
            page = await fetch(f"http://{url}/metrics?{time.monotonic_ns()}")
            return Metrics.read(page.text).value("shadow_pleg_log_lines_dropped_total") >= least
        return False

    try:
        await until(partial(dropped, 0), "it serves", seconds=DEADLINE)
        yield process, partial(dropped, 1)
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
    async with serving(errors=writing) as (process, dropped):
        os.close(writing)
        os.close(reading)
        process.send_signal(signal.SIGHUP)
        await until(dropped, "it drops a line, and serves", seconds=DEADLINE)


async def test_a_process_without_standard_streams_serves_all_the_same() -> None:
    """https://github.com/containerd/containerd/issues/580

    Some supervisors close them: what is opened next would be written to as if it were the log.
    """
    async with serving("<&- >&- 2>&-") as (process, _):
        own = Path(f"/proc/{process.pid}/fd")
        assert {str((own / str(number)).readlink()) for number in range(3)} == {os.devnull}
