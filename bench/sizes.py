"""What a relist costs, and how much memory it all takes, by the size of the node."""

import asyncio
import tempfile
from collections.abc import Callable
from contextlib import AbstractAsyncContextManager
from dataclasses import dataclass
from pathlib import Path
from typing import Final

import trustme

from bench.firehose import CONTAINERS, Firehose, loaded
from bench.processes import STARTED, Measured, exporter, go_client
from bench.rows import Row, Section, at_most, beside_go, spread

# Pods, and the most MiB of resident memory that they may take.
_SIZES: Final = ((1_000, 72.0), (5_000, 140.0))
_WINDOWS: Final = 3
_SECONDS: Final = 3.0
_FLAGS: Final = ("--relist-period=200ms", "--relist-max-duty=100%")
_FEWEST: Final = 3
_COMMON: Final = 110
# As the image runs it: the most MiB, and with TLS; the median of so many processes.
_BAR: Final = 54.0
_TLS_BAR: Final = 61.0
_PROCESSES: Final = 3
_TLS: Final = "tls_server_config: {cert_file: server.crt, key_file: server.key}\n"
_CHURN: Final = 40
_MILLI: Final = 1000
_TEXT: Final = f"""
Pods of {CONTAINERS} containers, about 1 KB an entry, relisted every 200 ms, beside
{_CHURN} events/s. CPU of the process, by relist. RSS: the median of {_WINDOWS} windows, or of
{_PROCESSES} processes. Of TLS, Python's ssl and one context alone take 5.7 MiB, 3.2 of them
OpenSSL's code, which others on a node share.
"""

# At most so much of the Go client's CPU for a relist.
_GO_BAR: Final = 0.7


@dataclass(frozen=True, slots=True)
class _Cost:
    """By window: milliseconds of CPU for a relist, and MiB; the most MiB there ever were."""

    cpu: tuple[float, ...]
    rss: tuple[float, ...]
    peak: float


async def measure() -> Section:
    """Memory as the image has it, then every size in fresh processes."""
    rows = [await _as_image("as the image runs it", _BAR)]
    with tempfile.TemporaryDirectory() as folder:
        flag = f"--web.config.file={_web_config(Path(folder))}"
        rows.append(await _as_image("with TLS", _TLS_BAR, flag, scheme="https"))
    # Those that are compared one after another: the machine changes meanwhile.
    costs = [
        (
            await _cost(lambda socket: exporter(socket, *_FLAGS), pods),
            await _cost(lambda socket: go_client(socket, "200ms"), pods),
        )
        for pods, _ in _SIZES
    ]
    for (pods, _), (ours, go) in zip(_SIZES, costs, strict=True):
        what = f"exporter / Go client, {pods} pods x {CONTAINERS}: CPU of a relist"
        rows.append(beside_go(what, ours.cpu, go.cpu, _GO_BAR))
    for (pods, limit), (ours, _) in zip(_SIZES, costs, strict=True):
        what = f"exporter, {pods} pods x {CONTAINERS}: RSS (peak {ours.peak:.1f} MiB)"
        rows.append(at_most(what, ours.rss, limit, "MiB", 1))
    relist = spread(costs[0][0].cpu, "ms")
    cost = (
        f"**Memory** as the image runs it, {_COMMON} pods x {CONTAINERS}: {rows[0].measured}. **A"
        f" relist** of 1,000 pods x {CONTAINERS}: {relist} of CPU."
    )
    return Section("Size", _TEXT, tuple(rows), (cost,))


async def _as_image(how: str, limit: float, *flags: str, scheme: str = "http") -> Row:
    """The median of some processes."""
    found = []
    for _ in range(_PROCESSES):
        async with loaded(
            lambda socket: exporter(socket, *_FLAGS, *flags, scheme=scheme), _COMMON
        ) as (runtime, process):
            await process.scrape()
            await runtime.rate(_CHURN, _SECONDS)
            await process.scrape()
            found.append((process.memory(), process.memory("VmHWM")))
    peak = sorted(found)[_PROCESSES // 2][1]
    what = f"{_COMMON} pods x {CONTAINERS}, {how}: RSS (peak {peak:.1f} MiB)"
    return at_most(what, [resident for resident, _ in found], limit, "MiB", 1)


def _web_config(folder: Path) -> Path:
    """A web configuration with TLS."""
    leaf = trustme.CA().issue_cert("127.0.0.1")
    leaf.private_key_pem.write_to_path(str(folder / "server.key"))
    leaf.cert_chain_pems[0].write_to_path(str(folder / "server.crt"))
    config = folder / "web.yml"
    config.write_text(_TLS)
    return config


async def _cost(start: Callable[[Path], AbstractAsyncContextManager[Measured]], pods: int) -> _Cost:
    """What a fresh process takes."""
    async with loaded(start, pods) as (runtime, process):
        await asyncio.sleep(STARTED)
        windows = []
        for _ in range(_WINDOWS):
            runtime.relists.clear()
            used = await process.used(_window(runtime))
            windows.append((used / len(runtime.relists) * _MILLI, process.memory()))
        cpu, rss = zip(*windows, strict=True)
        return _Cost(cpu, rss, process.memory("VmHWM"))


async def _window(runtime: Firehose) -> None:
    while len(runtime.relists) < _FEWEST:
        await runtime.rate(_CHURN, _SECONDS)
