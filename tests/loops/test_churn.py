"""A whole daemon on a runtime that loses by chance counts what the oracle counts."""

import asyncio
from collections import Counter
from pathlib import Path

import pytest

from exporter.model.findings import Verdict
from exporter.pleg.profiles import profile_of
from simulator.churn import simulated_node
from simulator.options import Options, Runtime
from tests.support.facts import outcomes
from tests.support.observer import observing
from tests.support.oracle import Oracle
from tests.support.tape import Tape

pytestmark = pytest.mark.virtual_time

GRACE = 1.0
CHURNING_SECONDS = 10.0


@pytest.mark.parametrize("runtime", [Runtime.CONTAINERD_2, Runtime.CRIO])
async def test_the_daemon_finds_what_the_oracle_finds_in_its_facts(
    runtime: Runtime, folder: Path
) -> None:
    """Losses, copies, delays, failed starts, broken streams and restarts."""
    options = Options(
        pods=12,
        containers_per_pod=3,
        churn=15.0,
        drop=0.05,
        duplicate=0.05,
        delay=0.2,
        failed_starts=0.05,
        disconnect_every=3.0,
        restart_every=7.0,
        runtime=runtime,
    )
    tape = Tape()
    async with (
        simulated_node(options, folder / "cri.sock") as server,
        observing(server.socket, tape, relist_period=0.3, missed_grace=GRACE) as observer,
    ):
        await asyncio.sleep(CHURNING_SECONDS)
        assert observer.node.connections > 3
        tally = observer.node.tally
    oracle = Oracle(profile_of(*runtime.value.split("/")), GRACE)
    expected = Counter(outcome for fact in tape.facts for outcome in oracle.take(fact))
    found = outcomes(tape.findings)
    assert (found - expected, expected - found) == (Counter(), Counter())
    for verdict in Verdict:
        assert tally.total(verdict) == sum(f.verdict is verdict for f in tape.findings)
    assert tally.total(Verdict.MISSED) > 10
    assert tally.total(Verdict.CONFIRMED) > 200
