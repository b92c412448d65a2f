"""A replay finds what was found live: for random logs, whole daemons and a real runtime."""

import asyncio
import os
import signal
from contextlib import AbstractAsyncContextManager, suppress
from pathlib import Path

import pytest

from exporter.commands.options import RecordOptions
from exporter.commands.record import record
from exporter.loops.intake import Intake
from exporter.model.findings import Cause, Finding, Verdict
from replay.reader import FormError
from replay.replayer import Replay
from simulator.churn import simulated_node
from simulator.options import Options
from testbed.waiting import until
from tests.support.commands import Running
from tests.support.observer import settings
from tests.support.tape import PLENTY, Deck, replayed
from tests.worlds.families import histories

QUICK = (
    *("--relist-period=100ms", "--relist-max-duty=100%", "--missed-grace=300ms"),
    "--log.format=json",
)


def test_any_log_is_judged_as_it_was_live(tmp_path: Path) -> None:
    for number, facts in enumerate(histories()):
        deck = Deck(tmp_path / f"{number}.gz")
        deck.play(facts)
        done, findings = deck.replayed()
        assert findings == deck.tape.findings
        assert done.comparison.agrees
        assert done.recording.damage == ""


def recording(endpoint: str, file: Path, *flags: str) -> AbstractAsyncContextManager[Running]:
    where = (f"--runtime-endpoint={endpoint}", f"--output={file}")
    return Running("record", *where, *QUICK, *flags)


def judged_alike(file: Path, damage: str = "") -> tuple[Replay, list[Finding]]:
    """Replay a recording, whole or with that damage: it comes to the verdicts of the live run."""
    done, findings = replayed(file.read_bytes())
    assert bool(done.recording.damage) is bool(damage)
    assert damage in done.recording.damage
    assert done.comparison.agrees, done.comparison.difference
    return done, findings


def announcements(file: Path) -> int:
    with suppress(OSError, FormError):
        return replayed(file.read_bytes())[0].facts["Announcement"]
    return 0


async def seldom(_: Intake) -> None:
    """Where others take the CPU, what waits in the queue is fed by the relists alone."""
    await asyncio.Event().wait()


@pytest.mark.virtual_time
async def test_a_whole_daemon_on_a_lossy_node_is_judged_as_it_was_live(
    folder: Path,
    tmp_path: Path,
    capsys: pytest.CaptureFixture[str],
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    monkeypatch.setattr(Intake, "run", seldom)
    options = Options(
        pods=6,
        churn=60,
        drop=0.1,
        duplicate=0.05,
        delay=0.2,
        failed_starts=0.1,
        # Reconnecting takes a second or two: the stream must be up and down in turn.
        disconnect_every=3.0,
    )
    file = tmp_path / "node.jsonl.gz"
    async with simulated_node(options, folder / "cri.sock") as server:
        config = settings(server.socket, missed_grace=0.3, event_queue_capacity=2)
        await record(config, RecordOptions(file, 12.0, PLENTY))
    assert capsys.readouterr().out.splitlines()[-1].startswith(f"{file}: ")
    done, findings = judged_alike(file)
    assert done.comparison.same == done.comparison.live == len(findings) > 100
    causes = {cause for (verdict, cause) in done.verdicts if verdict is Verdict.MISSED}
    assert {Cause.DISCARDED, Cause.STREAM_DOWN} <= causes
    assert done.facts["Discarded"] > 0
    assert done.facts["Inquired"] > 0
    assert done.facts["StreamDown"] > 1
    assert done.recording.header.node == ""


async def test_a_recording_ends_in_time_or_by_a_signal(folder: Path, tmp_path: Path) -> None:
    timed, stopped = tmp_path / "timed.jsonl.gz", tmp_path / "stopped.jsonl.gz"
    async with (
        simulated_node(Options(pods=3, churn=40), folder / "cri.sock") as server,
        recording(server.endpoint, timed, "--duration=1s") as one,
        recording(server.endpoint, stopped, "--redact") as two,
    ):
        await until(lambda: announcements(stopped) > 0, "an event in the file", seconds=100)
        outcomes = {timed: await one.ended(), stopped: await two.stop()}
    for file, outcome in outcomes.items():
        assert outcome.code == 0, outcome.err
        assert outcome.out.startswith(f"{file}: ")
        done, _ = judged_alike(file)
        assert done.recording.header.redacted is (file == stopped)
    assert done.facts["Announcement"] > 0


async def test_a_recording_that_was_killed_is_replayed_up_to_then(
    folder: Path, tmp_path: Path
) -> None:
    file = tmp_path / "node.jsonl.gz"
    async with (
        simulated_node(Options(pods=3, churn=40), folder / "cri.sock") as server,
        recording(server.endpoint, file) as process,
    ):
        await process.logged("event stream streaming")
        await until(lambda: announcements(file) > 40, "events in the file", seconds=30)
        await process.stop(signal.SIGKILL)
    done, findings = judged_alike(file, "its writer was killed")
    assert done.facts["Announcement"] > 40
    assert findings


def to_stdout(endpoint: str, *flags: str, output: int | None = None) -> Running:
    where = (f"--runtime-endpoint={endpoint}", "--output=-")
    return Running("record", *where, *QUICK, *flags, output=output)


async def test_a_recording_leaves_a_container_over_stdout(folder: Path, tmp_path: Path) -> None:
    """All bytes there are the recording's; size and verdict are said on stderr."""
    file = tmp_path / "node.jsonl.gz"
    async with (
        simulated_node(Options(pods=3, churn=40), folder / "cri.sock") as server,
        to_stdout(server.endpoint, "--duration=2s", "--fail-on=strays") as process,
    ):
        outcome, data = await process.ended(), process.out
    file.write_bytes(data)
    done, _ = judged_alike(file)
    facts = sum(done.facts.values())
    *_, size, verdict = outcome.err.splitlines()
    assert (size, verdict) == (f"stdout: {facts} facts, {len(data)} bytes", "gate: passed")
    assert outcome.code == 0
    assert facts > 10


async def test_a_recording_whose_reader_goes_away_ends_with_one_line(folder: Path) -> None:
    """As when `kubectl exec` is interrupted: the process in the container must not go on."""
    reader, writer = os.pipe()
    async with (
        simulated_node(Options(pods=3, churn=40), folder / "cri.sock") as server,
        to_stdout(server.endpoint, output=writer) as process,
    ):
        os.close(writer)
        await process.logged("event stream streaming")
        os.close(reader)
        outcome = await process.ended()
    assert outcome.err.splitlines()[-1] == (
        "shadow-pleg: --output: 'stdout' ends early, Broken pipe: what it holds until then can be"
        " replayed; let what reads stdout run until the end, and as fast as events come"
    )
    assert "Traceback" not in outcome.err
    assert outcome.code == 1


async def test_a_recording_that_the_disk_has_no_room_for_fails(
    folder: Path, small_disk: Path
) -> None:
    (small_disk / "ballast").write_bytes(b"x" * 50_000)
    file = small_disk / "node.jsonl.gz"
    async with (
        simulated_node(Options(pods=3, churn=60), folder / "cri.sock") as server,
        recording(server.endpoint, file) as process,
    ):
        outcome = await process.ended()
    assert outcome.code == 1
    assert outcome.err.splitlines()[-1] == (
        f"shadow-pleg: --output: '{file}' ends early, No space left on device: what it holds until"
        " then can be replayed; record to a volume with more room or speed"
    )
    # There, or in the middle of a block.
    done, _ = judged_alike(file, "end")
    assert done.facts["Relist"] > 0


async def test_no_recording_is_written_to_a_terminal(folder: Path) -> None:
    ours, terminal = os.openpty()
    async with (
        simulated_node(Options(), folder / "cri.sock") as server,
        to_stdout(server.endpoint, "--duration=1s", output=terminal) as process,
    ):
        outcome = await process.ended()
    os.close(ours)
    os.close(terminal)
    said = outcome.complaint(2)
    assert said.startswith("--output: stdout is a terminal, and a recording")
