"""What an event costs, from the socket to its verdict, beside a Go client that does less."""

import asyncio
from typing import Final

from bench import golang
from bench.firehose import Firehose, loaded
from bench.processes import exporter
from bench.rows import Section, spread

# Relists that judge within a measurement, and that may take all the time they need: by default
# they are rare, and rarer still where they take long.
JUDGING: Final = ("--relist-period=1s", "--relist-max-duty=100%", "--missed-grace=500ms")
# A renewed lease would bring every event twice.
UNRENEWED: Final = "--stream-lease=10m"
_VERDICTS: Final = ("shadow_pleg_verdicts_total", "shadow_pleg_discard_events_total")
# Beside a Go client, at a rate that a busy node has for a moment.
_BAR: Final = 1.6
_RATE: Final = 4000
_SECONDS: Final = 2.0
_ROUNDS: Final = 3
_MICRO: Final = 1e6
# Everything is read by then; what is judged later is in the next round.
_SETTLED: Final = 1.5
_TEXT: Final = f"""
Events of 4 KB, at {_RATE}/s for {_SECONDS:g} s. The exporter's figure includes verdicts and relists
({JUDGING[0]}). The Go client (`bench/client`) uses the CRI's official types; it relists
and keeps states in maps, and judges nothing.
"""


async def measure() -> Section:
    """CPU per event of both, and the ratio."""
    events, rounds = _RATE * _SECONDS, 1 + _ROUNDS
    async with (
        loaded(lambda socket: exporter(socket, *JUDGING, UNRENEWED)) as (runtime, process),
        loaded(golang.client) as (other, client),
    ):
        costs = [
            (await process.used(_round(runtime)), await client.used(_round(other)))
            for _ in range(rounds)
        ]
        await process.reaches(rounds * events, *_VERDICTS)
    # What the first round warmed up is not of interest.
    ours, go = zip(*costs[1:], strict=True)
    row = golang.beside(f"exporter / {golang.NAME}", ours, go, _BAR)
    took = spread([each / events * _MICRO for each in ours], "µs")
    cost = f"**An event** of 4 KB, up to its verdict, at {_RATE}/s: {took} of CPU."
    return Section("CPU of an event", _TEXT, (row,), (cost,))


async def _round(runtime: Firehose) -> None:
    await runtime.rate(_RATE, _SECONDS)
    # What was read last is still on its way through.
    await asyncio.sleep(_SETTLED)
