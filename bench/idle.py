"""What it costs while nothing happens."""

from __future__ import annotations

import time
from typing import Final

from bench.processes import exporter, firehose, wait_for_subscribers
from bench.rows import Row, Section, at_most

_PODS: Final = 250
_BAR: Final = 0.3
_SECONDS: Final = 60
_QUICK_SECONDS: Final = 20
_STARTED: Final = 4.0
_HOUR: Final = 3600
_TEXT: Final = f"""
CPU of the process with {_PODS} pods of 3 containers and no event, relisting every 10 s as by
default, not scraped meanwhile.
"""


def measure(*, quick: bool) -> Section:
    """CPU over a while."""
    seconds = _QUICK_SECONDS if quick else _SECONDS
    with firehose(_PODS) as (runtime, socket), exporter(socket) as process:
        wait_for_subscribers(runtime, 1)
        # What starting costs is not idling.
        time.sleep(_STARTED)
        runtime.ask("relists")
        before, began = process.cpu(), time.monotonic()
        # This is what is measured.
        time.sleep(seconds)
        share = (process.cpu() - before) / (time.monotonic() - began)
        relists = len(runtime.ask("relists")["relists"])
        rss, files = process.rss(), process.files()
    return Section(
        "Idle",
        _TEXT,
        (
            at_most(f"share of one core, {seconds} s, {relists} relists", share * 100, _BAR, "%"),
            Row("CPU in an hour", f"{share * _HOUR:.1f} s"),
            Row("RSS, open files", f"{rss:.1f} MiB, {files}"),
        ),
    )
