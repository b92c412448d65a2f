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
from aiohttp.test_utils import unused_port

from exporter.web.rendered import prefers
from testbed.waiting import until
from tests import ROOT
from tests.support.commands import fetch
from tests.support.observer import DEADLINE, Metrics

OPENMETRICS, TEXT = "application/openmetrics-text", "text/plain"

# In the words of the reports: what is preferred, to what else, and by which headers it is.
HEADERS = {
    (OPENMETRICS, TEXT): {
        # https://github.com/nautobot/nautobot/issues/8026
        "application/openmetrics-text;version=1.0.0;q=0.5,text/plain;version=0.0.4;q=0.2,"
        "*/*;q=0.1": True,
        # https://github.com/fredrikekre/Prometheus.jl/issues/36
        "application/openmetrics-text;version=1.0.0;escaping=allow-utf-8;q=0.75,text/plain;"
        "version=1.0.0;escaping=allow-utf-8;q=0.5,text/plain;version=0.0.4;q=0.25,*/*;q=0.1": True,
        # https://github.com/open-telemetry/opentelemetry-specification/pull/5136
        "application/openmetrics-text;q=0,text/plain;version=0.0.4;q=0.5": False,
        "text/plain;version=0.0.4;q=0.6,application/openmetrics-text;q=0.1": False,
        "application/openmetrics-text;q=0": False,
        "application/openmetrics-text;q=0.000, */*": False,
        # https://github.com/prometheus/common/issues/456
        "application/openmetrics-text; version=0.0.1,text/plain;version=0.0.4;q=0.5,*/*;q=0.1": (
            True
        ),
        "application/openmetrics-text; version=1.0.0, text/plain": True,
        "Application/OpenMetrics-Text; Q=0.4, text/*;q=0.3": True,
        "application/*, text/plain;q=0.9": True,
        "application/openmetrics-text;q=0.2, application/*;q=0.9, text/plain;q=0.5": False,
        "text/plain": False,
        "*/*": False,
        "": False,
        # What is no weight is none.
        "application/openmetrics-text;q=high, text/plain;q=0.9": True,
    },
    ("gzip", "identity"): {
        # https://github.com/grafana/mimir/issues/1855
        "gzip;q=1, *;q=0": True,
        # https://github.com/fluent/fluent-bit/pull/11321
        "gzip;q=0": False,
        "gzip;q=0, identity;q=0": False,
        "xgzip": False,
        "gzip;q=0.1, identity": False,
        "*": False,
        "": False,
        "gzip": True,
        "deflate, gzip;q=0.5": True,
        "gzip, identity": True,
    },
    # https://github.com/prometheus/common/issues/456
    ("text/html", "application/json"): {
        "text/html,application/xhtml+xml,application/xml;q=0.9,*/*;q=0.8": True,
        "*/*": False,
        "application/json, text/html;q=0.9": False,
        "text/html;q=0": False,
    },
}


@pytest.mark.quick
@pytest.mark.parametrize(
    ("names", "header", "expected"),
    [(names, *each) for names, headers in HEADERS.items() for each in headers.items()],
)
def test_the_highest_weight_wins_and_what_has_none_never_comes(
    names: tuple[str, str], header: str, *, expected: bool
) -> None:
    """Clients got OpenMetrics, or a coding, that they had refused; only browsers get HTML."""
    assert prefers(header, *names) is expected


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
