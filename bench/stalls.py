"""How long a relist keeps the event loop from everything else."""

from bisect import bisect_right
from dataclasses import replace
from typing import Final

from bench.processes import hosted, loaded, wait_for, wait_for_the_start
from bench.rows import Section, Verdict, at_most, percentile

_PODS: Final = 1_000
# A turn of the loop with a list of so many pods.
_BAR: Final = 10.0
_RELISTS: Final = 120
_PERIOD: Final = "100ms"
_FLAGS: Final = (f"--relist-period={_PERIOD}", "--relist-max-duty=100%")
_MILLI: Final = 1000
_TEXT: Final = f"""
How late a task in the exporter's event loop wakes that sleeps for 1 ms again and again, at worst,
in each relist of {_PODS} pods of 3 containers.
"""


def measure() -> Section:
    """With the pods, and without."""
    (worst, cpu), (noise, _) = _worst(_PODS), _worst(0)
    still, loop = percentile(noise, 0.99), percentile(cpu, 0.99)
    what = f"p99 of {len(worst)} relists"
    clock = at_most(what, percentile(worst, 0.99), _BAR, "ms")
    if 0 < percentile(worst, 0.99) - _BAR < still:
        # Above the limit by less than what there is where nothing is done: that proves nothing.
        clock = replace(clock, verdict=Verdict.CANNOT_TELL)
    why = f"it waits for the scheduler, too; with no pods it is {still:.2f} ms"
    return Section(
        "Stalls by a relist",
        _TEXT,
        (
            replace(clock, why=why),
            at_most("the loop's CPU between two ticks, p99", loop, _BAR, "ms"),
        ),
    )


def _worst(pods: int) -> tuple[list[float], list[float]]:
    """The longest stall, and the most CPU between two ticks (ms), of each relist."""
    with loaded(lambda socket: hosted(socket, *_FLAGS), pods) as (runtime, process):
        wait_for_the_start()
        runtime.ask("relists")
        process.ask("ticks")
        began: list[float] = []

        def enough() -> bool:
            began.extend(runtime.ask("relists")["relists"])
            return len(began) > _RELISTS

        wait_for("enough relists", enough, every=1.0, deadline=120)
        ticks = process.ask("ticks")["ticks"]
    worst = [0.0] * (len(began) - 1)
    most = list(worst)
    for woke, late, cpu in ticks:
        # A stall begins before the ticker wakes: it belongs to the relist it began in.
        number = bisect_right(began, woke - late) - 1
        if 0 <= number < len(worst):
            worst[number] = max(worst[number], late * _MILLI)
            most[number] = max(most[number], cpu * _MILLI)
    return worst, most
