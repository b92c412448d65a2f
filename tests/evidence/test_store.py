"""Evidence on a disk: bounded, in whole lines, and without effect on the rest of the exporter."""

import asyncio
import json
import signal
import threading
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest
from structlog.typing import EventDict

from exporter.evidence.files import NAME
from exporter.evidence.store import Store
from exporter.evidence.writer import Behind
from exporter.node.state import Dropped, Node
from testbed.waiting import until
from tests.support.commands import ANYWHERE, fetch, running

PLENTY = 2**20
LOSSY = (
    *("--pods=3", "--drop=50%", "--churn=40", "--relist-period=100ms", "--missed-grace=0"),
    *("--relist-max-duty=100%", "--log.format=json", ANYWHERE),
)


def kept(folder: Path, name: str = NAME) -> list[Any]:
    """The records of a file; every line of it must be whole."""
    data = (folder / name).read_bytes()
    assert data.endswith(b"\n")
    return [json.loads(line) for line in data.splitlines()]


def lines(*numbers: int, length: int = 0) -> list[bytes]:
    """Records that are known by a number."""
    pad = "x" * length
    return [f'{{"schema":1,"n":{number},"pad":"{pad}"}}'.encode() for number in numbers]


def modes(folder: Path) -> tuple[int, int]:
    """Permissions of the folder and of its file."""
    return folder.stat().st_mode & 0o777, (folder / NAME).stat().st_mode & 0o777


def put(store: Store, *numbers: int, length: int = 0) -> None:
    """Keep these and end."""
    for line in lines(*numbers, length=length):
        store.put(line)
    store.end()


def test_records_are_kept_in_order_and_for_their_owner_only(tmp_path: Path) -> None:
    """A missing folder is created, a later start appends, and no other user reads names of pods."""
    folder = tmp_path / "deep" / "evidence"
    put(Store(folder, PLENTY, Node()), 1, 2)
    put(Store(folder, PLENTY, Node()), 3)
    assert [record["n"] for record in kept(folder)] == [1, 2, 3]
    assert modes(folder) == (0o700, 0o600)


@pytest.mark.parametrize("before", [[], [1]])
@pytest.mark.parametrize(
    "torn",
    [b'{"sch', b"\0" * 5000, b'{"sch' + b"\0" * 5000, b'{"schema":1,"pad":"' + b"x" * 200_000],
    ids=["short", "zeros", "short and zeros", "long"],
)
def test_a_partial_line_that_a_crash_left_is_removed(
    tmp_path: Path, torn: bytes, before: list[int]
) -> None:
    """Half a line, or what a file system puts in its place; it may be all that the file has."""
    put(Store(tmp_path, PLENTY, Node()), *before)
    with (tmp_path / NAME).open("ab") as file:
        file.write(torn)
    put(Store(tmp_path, PLENTY, Node()), 3)
    assert [record["n"] for record in kept(tmp_path)] == [*before, 3]


def test_the_oldest_go_when_the_bytes_are_used_up(tmp_path: Path) -> None:
    """Two files, which never have more bytes than allowed."""
    node = Node()
    store = Store(tmp_path, 20_000, node)
    for number in range(60):
        put(store, number, length=1000)
        store = Store(tmp_path, 20_000, node)
        assert sum(file.stat().st_size for file in tmp_path.iterdir()) <= 20_000
    store.end()
    numbers = [r["n"] for name in (f"{NAME}.1", NAME) for r in kept(tmp_path, name)]
    assert numbers == list(range(60 - len(numbers), 60))
    assert len(numbers) > 9
    assert sorted(file.name for file in tmp_path.iterdir()) == [NAME, f"{NAME}.1"]


def test_an_impossible_folder_is_logged_once_and_counted(log: list[EventDict]) -> None:
    """It is logged before there is anything to lose, and costs nothing but the evidence."""
    node = Node()
    put(Store(Path("/dev/null/evidence"), PLENTY, node), 1, 2, 3)
    assert node.evidence_dropped == {Dropped.DISK: 3}
    (line,) = log
    assert (line["event"], line["log_level"]) == ("evidence not kept", "error")
    assert line["folder"] == "/dev/null/evidence"
    assert "Not a directory" in line["error"]


def test_a_full_disk_costs_what_does_not_fit_and_nothing_else(
    small_disk: Path, log: list[EventDict]
) -> None:
    """Logged once, counted each time, no partial line left; new records fit when there is room."""
    folder, node, ballast = small_disk / "evidence", Node(), small_disk / "ballast"
    store = Store(folder, PLENTY, node)
    store.put(lines(1)[0])
    ballast.write_bytes(b"x" * 40_000)
    for line in lines(2, 3, 4, length=30_000):
        store.put(line)
    wait_for(lambda: node.evidence_dropped[Dropped.DISK] >= 2)
    dropped = node.evidence_dropped[Dropped.DISK]
    ballast.unlink()
    store.put(lines(5, length=20_000)[0])
    store.end()
    numbers = [record["n"] for record in kept(folder)]
    assert (numbers[0], numbers[-1], len(numbers)) == (1, 5, 5 - dropped)
    assert [line["event"] for line in log] == ["evidence not kept", "evidence is kept again"]
    assert "No space left on device" in log[0]["error"]


def wait_for(condition: Callable[[], bool]) -> None:
    """Wait, in this thread, for what another one does."""
    asyncio.run(until(condition, "it is counted"))


def test_a_disk_that_hangs_blocks_neither_writer_nor_exit() -> None:
    """Pieces that do not fit are refused at once, and the end has a time limit."""
    stuck, begun = threading.Event(), threading.Event()

    def hang(_piece: int) -> None:
        begun.set()
        stuck.wait()

    behind: Behind[int] = Behind("test", hang, capacity=3)
    assert behind.put(0)
    assert begun.wait(10)
    assert [behind.put(number) for number in range(5)] == [True, True, True, False, False]
    assert not behind.end(patience=0.05)
    stuck.set()


async def test_evidence_survives_kill_9_and_the_next_start_goes_on(tmp_path: Path) -> None:
    """Records written before can be read to the last whole line, and new ones are appended."""
    flags = (*LOSSY, f"--evidence-dir={tmp_path}")
    for times in (1, 2):
        before = len(kept(tmp_path)) if times > 1 else 0
        async with running("demo", *flags) as process:
            url = (await process.printed()).rsplit(" ", 1)[1].strip()
            await until(lambda: count(tmp_path) > before + 2, "evidence on the disk", seconds=60)  # noqa: B023 -- awaited here
            misses = json.loads((await fetch(url + "debug/misses")).text)
            await process.stop(signal.SIGKILL)
        records = kept(tmp_path)
        assert len(records) > before + 2
        assert misses["made"] > 0
        numbers = [record["number"] for record in records[before:]]
        assert numbers == list(range(1, len(numbers) + 1))


def count(folder: Path) -> int:
    """How many whole lines are there by now."""
    file = folder / NAME
    return file.read_bytes().count(b"\n") if file.exists() else 0
