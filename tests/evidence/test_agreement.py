"""Live and replayed are one: recordings of real runtimes, a simulated troubled node, a real one."""

from __future__ import annotations

import asyncio
import gzip
import json
import signal
import tempfile
from collections.abc import AsyncIterator
from contextlib import asynccontextmanager, suppress
from dataclasses import replace
from pathlib import Path

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from exporter.pleg.findings import Cause, Verdict
from exporter.simulator import node as simulated
from exporter.simulator.options import Options, Runtime
from tests.evidence.tape import HEADER, Deck, replayed
from tests.face.commands import Running, running
from tests.grounds.containerd import Containerd
from tests.grounds.cri_client import CANNOT_START
from tests.grounds.waiting import until
from tests.loops.runtimes import short_folder
from tests.real.lives import live_slowly
from tests.simulator.test_agreement import MOVES, STREAM_MOVES, act, stories
from tests.simulator.witness import GRACE, Witness
from tests.traces.replay import GRACE as TRACE_GRACE
from tests.traces.replay import Scenario, replay, scenarios

QUICK = (
    *("--relist-period=100ms", "--relist-max-duty=100%", "--missed-grace=300ms"),
    "--log.format=json",
)


@pytest.mark.parametrize("scenario", scenarios(), ids=lambda each: f"{each.runtime}-{each.name}")
def test_a_trace_of_a_real_runtime_is_judged_as_it_was_live(
    scenario: Scenario, tmp_path: Path
) -> None:
    """Every finding with all that it says; also where one event of the trace is lost."""
    events = list(scenario.events)
    for number, lost in enumerate((None, *events[:: max(1, len(events) // 3)])):
        deck = Deck(tmp_path / f"{number}.gz", header=replace(HEADER, grace=TRACE_GRACE))
        live = replay(scenario, lost, deck.recorder, deck.tape)
        done, findings = deck.replayed()
        assert findings == live == deck.tape.findings
        assert (done.comparison.same, done.comparison.agrees) == (len(live), True)


@settings(max_examples=60, deadline=None)
@given(
    runtime=st.sampled_from(Runtime),
    seed=st.integers(0, 10_000),
    story=stories((*MOVES, *STREAM_MOVES)),
)
def test_a_simulated_node_in_trouble_is_judged_as_it_was_live(
    runtime: Runtime, seed: int, story: list[tuple[str, int]]
) -> None:
    """Losses, copies, disorder, outages and restarts."""
    options = Options(churn=0, drop=0.3, duplicate=0.2, reorder=0.2, runtime=runtime, seed=seed)
    with tempfile.TemporaryDirectory() as folder:
        deck = Deck(Path(folder) / "r.gz", header=replace(HEADER, grace=GRACE))
        witness = Witness(options, deck.recorder, deck.tape)
        witness.subscribe()
        witness.relist()
        for move, pick in story:
            act(witness, move, pick)
        witness.settle()
        done, findings = deck.replayed()
    assert findings == witness.findings == deck.tape.findings
    assert done.comparison.agrees
    assert done.recording.damage == ""


@asynccontextmanager
async def churning(options: Options) -> AsyncIterator[str]:
    """A simulated runtime on which pods come and go; the flag that names it."""
    with short_folder() as folder:
        async with simulated.run(options, folder / "cri.sock"):
            yield f"--runtime-endpoint=unix://{folder}/cri.sock"


async def recording(process: Running) -> None:
    """Wait until it is subscribed."""
    await process.logged("subscribed to the event stream")


async def test_a_whole_daemon_on_a_lossy_node_is_judged_as_it_was_live(tmp_path: Path) -> None:
    """Everything between: the queue, relists that are interrupted, streams that end, questions."""
    options = Options(
        pods=6,
        churn=60,
        drop=0.1,
        duplicate=0.05,
        reorder=0.05,
        delay=0.2,
        failed_starts=0.1,
        # Connecting again takes a second or two: there must be times of either kind.
        disconnect_every=4.0,
    )
    file = tmp_path / "node.jsonl.gz"
    async with churning(options) as socket:
        flags = (*QUICK, "--event-queue-capacity=8", f"--output={file}", "--duration=12s")
        async with running("record", socket, *flags) as process:
            outcome = await process.ended()
    assert outcome.code == 0, outcome.err
    assert outcome.out.startswith(f"{file}: ")
    done, findings = replayed(file.read_bytes())
    assert done.recording.damage == ""
    assert done.comparison.agrees, done.comparison.difference
    assert done.comparison.same == done.comparison.live == len(findings) > 100
    causes = {cause for (verdict, cause) in done.verdicts if verdict is Verdict.MISSED}
    assert {Cause.DISCARDED, Cause.STREAM_DOWN} <= causes
    assert done.facts["Discarded"] > 0
    assert done.facts["Inquired"] > 0
    assert done.facts["StreamDown"] > 1
    # No secret of the node's was asked for, so none is there.
    assert done.recording.header.node == ""


async def test_a_recording_that_was_killed_is_replayed_up_to_then(tmp_path: Path) -> None:
    """`kill -9` costs about the last second."""
    file = tmp_path / "node.jsonl.gz"
    async with (
        churning(Options(pods=3, churn=40)) as socket,
        running("record", socket, *QUICK, f"--output={file}") as process,
    ):
        await recording(process)
        await until(lambda: len(lines_of(file, "event")) > 40, "events in the file", seconds=30)
        await process.stop(signal.SIGKILL)
    done, findings = replayed(file.read_bytes())
    assert "its writer was killed" in done.recording.damage
    assert done.facts["Announcement"] > 40
    assert done.comparison.agrees
    assert findings


async def test_a_recording_that_the_disk_has_no_room_for_fails(small_disk: Path) -> None:
    """At once, in one line that says what to do, and with what was written intact."""
    (small_disk / "ballast").write_bytes(b"x" * 50_000)
    file = small_disk / "node.jsonl.gz"
    async with (
        churning(Options(pods=3, churn=60)) as socket,
        running("record", socket, *QUICK, f"--output={file}") as process,
    ):
        outcome = await process.ended()
    assert outcome.code == 1
    assert outcome.err.splitlines()[-1] == (
        f"shadow-pleg: --output: '{file}' ends early, No space left on device: what it holds until"
        " then can be replayed; record to a volume with more room or speed"
    )
    done, _ = replayed(file.read_bytes())
    assert done.facts["Relisted"] > 0
    assert done.comparison.agrees


async def test_a_real_containerd_is_judged_as_it_was_live(
    containerd_21: Containerd, tmp_path: Path
) -> None:
    """Slow lives, a start that fails, a restart of the runtime; recorded with pseudonyms, too."""
    plain, hidden = tmp_path / "plain.jsonl.gz", tmp_path / "hidden.jsonl.gz"
    socket = f"--runtime-endpoint=unix://{containerd_21.socket}"
    async with (
        running("record", socket, *QUICK, f"--output={plain}") as one,
        running("record", socket, *QUICK, f"--output={hidden}", "--redact") as two,
    ):
        await asyncio.gather(recording(one), recording(two))

        async def pause() -> None:
            """Long enough for a relist and its grace."""
            seen = relists_of(plain)
            await until(lambda: relists_of(plain) > seen + 2, "two relists", seconds=30)

        async with containerd_21.pods() as cri:
            sandbox = await cri.run_pod("secret-shop")
            broken = await cri.create(sandbox, "secret-app", CANNOT_START)
            await pause()
            with suppress(Exception):
                await cri.start(broken)
            await live_slowly(cri, "web", pause)
            await containerd_21.restart()
            await until(lambda: len(streams_of(plain)) > 1, "subscribed again", seconds=60)
            await pause()
        outcomes = await asyncio.gather(one.stop(), two.stop())
    assert [outcome.code for outcome in outcomes] == [0, 0], outcomes
    for file in (plain, hidden):
        done, findings = replayed(file.read_bytes())
        assert done.recording.damage == ""
        assert done.comparison.agrees, done.comparison.difference
        assert done.comparison.same == len(findings) > 10
        assert done.facts["Announcement"] > 5
    names = (b"secret-shop", b"secret-app", sandbox.id.encode(), broken.encode())
    assert all(name in gzip.decompress(plain.read_bytes()) for name in names)
    assert not any(name in gzip.decompress(hidden.read_bytes()) for name in names)


def lines_of(file: Path, kind: str) -> list[dict[str, object]]:
    """Lines of that kind that a file holds by now."""
    text = b""
    with suppress(OSError, EOFError), gzip.open(file) as lines:
        text = lines.read()
    documents = [json.loads(line) for line in text.splitlines()]
    return [document for document in documents if document.get("f") == kind]


def relists_of(file: Path) -> int:
    """How many relists it holds by now."""
    return len(lines_of(file, "relist"))


def streams_of(file: Path) -> list[dict[str, object]]:
    """Subscriptions that came to carry events."""
    return [line for line in lines_of(file, "stream") if line["what"] == "up"]
