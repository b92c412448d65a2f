"""`demo` and `simulate` as processes: what they print, what the page shows, how they end."""

import asyncio
import os
import re
import select
import subprocess
import sys
from argparse import Namespace
from dataclasses import replace
from functools import partial
from io import FileIO, TextIOWrapper
from pathlib import Path

import pytest

from exporter.cli import config_of
from exporter.errors import OutputError
from exporter.model.findings import Verdict
from exporter.model.labels import Flaw
from simulator.churn import simulated_node
from simulator.command import compare, demo
from simulator.options import DEMO_DEFAULTS
from simulator.runtime import CgroupFiles
from testbed.waiting import until
from tests.support.commands import ANYWHERE, Running, answered, fetch
from tests.support.observer import observing
from tests.support.runtimes import DEMO

LIES = {Verdict.GHOST, Verdict.STRAY, Verdict.TWIN, Verdict.STALE, Verdict.DISAGREES, *Flaw}


async def test_simulate_says_where_it_is_and_what_it_dropped(folder: Path) -> None:
    socket = folder / "cri.sock"
    flags = (f"--socket=unix://{socket}", "--pods=1", "--containers-per-pod=1")
    async with Running("simulate", *flags) as process:
        assert await process.printed() == f"containerd/2.1.9 on unix://{socket}"
        assert socket.is_socket()
        outcome = await process.stop()
    assert not socket.exists()
    assert (outcome.code, outcome.err) == (0, "")
    assert outcome.out.splitlines()[-1] == "dropped: all 0"


async def test_demo_prints_where_to_look_and_what_was_counted(promtool: Path) -> None:
    """The address of its pages; at the end, what was dropped next to what was counted."""
    async with Running("demo", ANYWHERE, "--pods=2", "--drop=50%", "--churn=20") as process:
        name, url = (await process.printed()).rsplit(" ", 1)
        assert name == "shadow-pleg demo:"
        assert (await fetch(url)).status == 200
        missed = re.compile(r'missed_events_total.*cause="silent".* [1-9]')
        page = await answered(
            f"{url}metrics", lambda it: bool(missed.search(it.text)), "losses are counted"
        )
        outcome = await process.stop()
    assert outcome.code == 0
    injected, counted, label = outcome.out.splitlines()[-1].split()
    assert label == "all"
    assert int(injected) >= int(counted) > 0
    checker = (promtool, "check", "metrics")
    checked = await asyncio.to_thread(
        partial(subprocess.run, checker, input=page.text, capture_output=True, text=True)
    )
    assert (checked.returncode, checked.stdout + checked.stderr) == (0, "")


@pytest.mark.virtual_time
async def test_demo_ends_once_nobody_reads_its_tables(monkeypatch: pytest.MonkeyPatch) -> None:
    """As `head` leaves it."""
    reading, writing = os.pipe()
    with TextIOWrapper(FileIO(writing, "w"), write_through=True) as pipe:
        monkeypatch.setattr(sys, "stdout", pipe)
        config = config_of(Namespace(), {**DEMO_DEFAULTS, "web_listen_address": "127.0.0.1:0"}, {})
        ending = asyncio.create_task(demo(config, DEMO))
        await until(lambda: bool(select.select([reading], [], [], 0)[0]), "it says where to look")
        os.close(reading)
        with pytest.raises(OutputError):
            await asyncio.wait_for(ending, 60)


@pytest.mark.virtual_time
async def test_everything_that_the_demo_gets_wrong_is_counted(folder: Path, tmp_path: Path) -> None:
    pods = folder / "pods.sock"
    own = {"cgroup_root": tmp_path, "kubelet_pods_endpoint": pods}
    few = replace(DEMO, pods=12)
    async with (
        simulated_node(few, folder / "cri.sock", CgroupFiles(tmp_path), pods) as server,
        observing(server.socket, relist_period=2.0, missed_grace=1.0, **own) as observer,
    ):
        runtime, tally = server.runtime, observer.node.tally

        def agree() -> bool:
            *rows, total = compare(runtime.losses, runtime.wrong, tally)
            enough = total.injected >= 100 and all(runtime.wrong[lie] for lie in LIES)
            return enough and all(row.injected == row.counted for row in rows)

        await until(agree, "all rows agree", seconds=1200, every=0.5)
        *rows, total = compare(runtime.losses, runtime.wrong, tally)
    assert len(rows) >= 7
    named = LIES - {Verdict.DISAGREES}
    assert {each.value for each in named} <= {row.label.split()[0] for row in rows}
    assert total.injected == total.counted == sum(row.injected for row in rows)
