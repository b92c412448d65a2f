"""The exporter's CPU: of an event, from the socket to its verdict; of an idle node; of a scrape."""

import asyncio
from typing import Final

from bench.firehose import CONTAINERS, Firehose, loaded
from bench.processes import STARTED, Exporter, exporter, go_client
from bench.rows import Section, at_most, beside_go, spread

# Relists that judge within a measurement, and that may take all the time they need: by default
# they are rare, and rarer still where they take long.
_JUDGING: Final = ("--relist-period=1s", "--relist-max-duty=100%", "--missed-grace=500ms")
# A renewed lease would bring every event twice.
_UNRENEWED: Final = "--stream-lease=10m"
_VERDICTS: Final = ("shadow_pleg_verdicts_total", "shadow_pleg_discard_events_total")
# Beside a Go client, at a rate that a busy node has for a moment.
_EVENT_BAR: Final = 1.6
_RATE: Final = 4000
_SECONDS: Final = 2.0
_ROUNDS: Final = 3
_MICRO: Final = 1e6
# Everything is read by then; what is judged later is in the next round.
_SETTLED: Final = 1.5
_OF_AN_EVENT: Final = f"""
Events of 4 KB, at {_RATE}/s for {_SECONDS:g} s, with verdicts and relists ({_JUDGING[0]}). The Go
client (`bench/client`) uses the CRI's official types, relists, keeps states in maps, and judges
nothing.
"""

_PODS: Final = 250
_IDLE_BAR: Final = 0.25
# Each has one relist in it, or two.
_WINDOW: Final = 10
_WINDOWS: Final = 6
_OF_NOTHING: Final = f"""
{_PODS} pods of {CONTAINERS} containers, no event and no scrape, relisted every 10 s (the default).
"""

_SCRAPED_PODS: Final = 1_000
_SCRAPE_BAR: Final = 5.0
_TURNS: Final = 3
_SCRAPES: Final = 4
# By then a page is rendered again, even on a busy machine.
_APART: Final = 0.5
_MILLI: Final = 1000
_OF_A_SCRAPE: Final = f"""
As Prometheus 3 asks (OpenMetrics, gzip, one connection), {_APART * _MILLI:.0f} ms apart, without
relists, less what the process takes unasked; {_TURNS} turns.
"""


async def event() -> Section:
    """CPU per event of both, and the ratio."""
    events, rounds = _RATE * _SECONDS, 1 + _ROUNDS
    async with (
        loaded(lambda socket: exporter(socket, *_JUDGING, _UNRENEWED)) as (runtime, process),
        loaded(go_client) as (other, client),
    ):
        costs = [
            (await process.used(_round(runtime)), await client.used(_round(other)))
            for _ in range(rounds)
        ]
        await process.reaches(rounds * events, *_VERDICTS)
    # What the first round warmed up is not of interest.
    ours, go = zip(*costs[1:], strict=True)
    row = beside_go("exporter / Go client", ours, go, _EVENT_BAR)
    took = spread([each / events * _MICRO for each in ours], "µs")
    cost = f"**An event** of 4 KB, up to its verdict, at {_RATE}/s: {took} of CPU."
    return Section("CPU of an event", _OF_AN_EVENT, (row,), (cost,))


async def _round(runtime: Firehose) -> None:
    await runtime.rate(_RATE, _SECONDS)
    # What was read last is still on its way through.
    await asyncio.sleep(_SETTLED)


async def idle() -> Section:
    """CPU over a while in which nothing happens."""
    async with loaded(exporter, _PODS) as (runtime, process):
        await asyncio.sleep(2 * STARTED)
        runtime.relists.clear()
        used = [await process.used(asyncio.sleep(_WINDOW)) for _ in range(_WINDOWS)]
    what = f"share of one core, {_WINDOWS} times {_WINDOW} s, {len(runtime.relists)} relists"
    row = at_most(what, [each / _WINDOW * 100 for each in used], _IDLE_BAR, "%")
    cost = f"**An idle node** with {_PODS} pods: {row.measured} of a core."
    return Section("Idle", _OF_NOTHING, (row,), (cost,))


async def scrape() -> Section:
    """CPU of a scrape."""
    async with loaded(lambda it: exporter(it, "--relist-period=1m"), _SCRAPED_PODS) as (_, process):
        await process.scrape()
        await asyncio.sleep(STARTED)
        turns = [
            (
                await process.used(asyncio.sleep(_SCRAPES * _APART)),
                await process.used(_scrapes(process)),
            )
            for _ in range(_TURNS)
        ]
    costs = [(busy - idle) / _SCRAPES * _MILLI for idle, busy in turns]
    what = f"CPU of a scrape, {_SCRAPED_PODS} pods x {CONTAINERS}"
    return Section("Scrapes", _OF_A_SCRAPE, (at_most(what, costs, _SCRAPE_BAR, "ms"),))


async def _scrapes(process: Exporter) -> None:
    for _ in range(_SCRAPES):
        # Prometheus, too, asks by the clock.
        await asyncio.gather(process.scrape(), asyncio.sleep(_APART))
