"""A recording is what was told: written, read again, redacted, damaged, or made up by somebody."""

from __future__ import annotations

import asyncio
import gzip
import json
import random
import threading
from collections import Counter
from collections.abc import Callable
from pathlib import Path

from hypothesis import given, settings
from hypothesis import strategies as st

from exporter.pleg.events import (
    Announcement,
    EventType,
    Inquiry,
    Listed,
    ListedState,
    ObjectKind,
    Pod,
)
from exporter.pleg.facts import (
    Discarded,
    Fact,
    Inquired,
    ProfileChosen,
    RecordedFact,
    Relisted,
    StreamAsked,
    StreamDown,
    StreamRefused,
    StreamUp,
)
from exporter.recording.gzip_members import member
from exporter.recording.reader import FactReader
from exporter.recording.replayer import Lists
from exporter.recording.rows import End, FoundRow, fact_rows, line_of, row_of
from tests.support.facts import EXITED, RUNNING, created, deleted, relist, started, stopped, up
from tests.support.tape import Deck, replayed
from tests.support.waiting import until

_texts = st.text(st.characters(), max_size=8)
_times = st.floats(-1e9, 1e9)
_walls = st.integers(-(2**63), 2**63 - 1)
_pods = st.none() | st.builds(Pod, _texts, _texts, _texts)
_items = st.builds(
    Listed,
    _texts,
    st.sampled_from(ObjectKind),
    st.sampled_from(ListedState),
    _texts,
    _texts,
    _pods,
)
told = st.one_of(
    st.builds(
        Announcement,
        container_id=_texts,
        type=st.sampled_from(EventType),
        received=_times,
        created_at_ns=_walls,
        kind=st.none() | st.sampled_from(ObjectKind),
        sandbox_id=_texts,
        pod=_pods,
        stream=st.integers(0, 2**40),
        received_wall_ns=_walls,
    ),
    st.builds(
        Relisted,
        _times,
        _times,
        _walls,
        st.integers(0, 1000),
        st.lists(_items, max_size=3).map(tuple),
        st.lists(_texts, max_size=3).map(tuple),
    ),
    st.builds(StreamAsked, _times, _walls),
    st.builds(StreamUp, _times, _walls),
    st.builds(StreamDown, _times),
    st.builds(StreamRefused, _times),
    st.builds(Discarded, _times, st.none() | _times, st.integers(1, 2**40)),
    st.builds(Inquired, _times, _texts, st.sampled_from(Inquiry)),
    st.builds(ProfileChosen, _times, _texts, _texts),
)


def read_again(lines: list[bytes]) -> list[RecordedFact | None]:
    """What each of these lines completes."""
    reader, rows = FactReader(), map(row_of, lines)
    return [reader.take(row) for row in rows if not isinstance(row, FoundRow | End)]


@settings(max_examples=500, deadline=None)
@given(fact=told)
def test_a_fact_is_read_as_it_was_written(fact: RecordedFact) -> None:
    """To the last bit of every number, and every character that a runtime may send."""
    *parts, whole = read_again([line_of(row) for row in fact_rows(fact)])
    assert parts == [None] * len(parts)
    assert whole == fact
    assert type(whole) is type(fact)


def test_a_large_relist_is_many_short_lines() -> None:
    """A line is held in memory as a whole, by whoever writes or reads it."""
    items = tuple(
        Listed(f"{n:064d}", ObjectKind.CONTAINER, ListedState.RUNNING) for n in range(1000)
    )
    fact = Relisted(1.0, 2.0, 3, 1000, items, tuple(f"{n:064d}" for n in range(600)))
    lines = [line_of(row) for row in fact_rows(fact)]
    assert len(lines) == 4 + 3 + 1
    assert max(map(len, lines)) < 64 * 1024
    assert read_again(lines)[-1] == fact


STORY: tuple[Fact, ...] = (
    ProfileChosen(0.0, "containerd", "2.1.9"),
    up(0.5),
    relist(1, old=RUNNING),
    created("c1", 2),
    Discarded(2.2),
    Discarded(2.4),
    started("c1", 2.5),
    relist(3, old=RUNNING, c1=RUNNING, c2=EXITED),
    Inquired(3.5, "c2", Inquiry.NEVER_STARTED),
    StreamDown(4),
    relist(15, old=EXITED, c1=RUNNING, c2=EXITED),
    up(16),
    stopped("old", 17),
    deleted("c1", 18),
    relist(30, c2=EXITED),
    relist(50, c2=EXITED),
)


def recorded(path: Path, *facts: Fact, redact: bool = False) -> tuple[bytes, Deck]:
    """The bytes of a recording of that story."""
    deck = Deck(path, redact=redact)
    deck.play(facts or STORY)
    deck.recorder.end()
    return path.read_bytes(), deck


def test_a_replay_finds_what_was_found_live(tmp_path: Path) -> None:
    """The same findings, all of each, in the same order; and the file says so itself."""
    data, deck = recorded(tmp_path / "r.gz")
    done, findings = replayed(data)
    assert findings == deck.tape.findings
    assert len(findings) > 10
    assert (done.comparison.same, done.comparison.live) == (len(findings), len(findings))
    assert done.comparison.agrees
    assert done.recording.damage == ""
    assert list(done.runtimes) == ["containerd 2.1.9"]
    assert done.facts == Counter(type(fact).__name__ for fact in deck.tape.facts)


def test_any_gzip_tool_reads_it(tmp_path: Path) -> None:
    """Lines of JSON: the header first, the end last."""
    data, _ = recorded(tmp_path / "r.gz")
    lines = [json.loads(line) for line in gzip.decompress(data).splitlines()]
    assert (lines[0]["format"], lines[0]["version"]) == ("shadow-pleg recording", 1)
    assert lines[-1] == {"f": "end", "why": "stopped"}
    assert (tmp_path / "r.gz").stat().st_mode & 0o777 == 0o600


def test_an_id_that_is_listed_twice_is_listed_twice_again() -> None:
    """How many items there were bounds what a stream may name besides."""
    (item,) = relist(1, c1=RUNNING).items
    told = Relisted(1.0, 1.0, 1, 3, (item,), ())
    assert Lists().relist(told).items == (item, item, item)
    assert Lists().relist(Relisted(1.0, 1.0, 1, 3, (), ())).items == ()


def test_a_trickle_of_facts_is_written_within_seconds(tmp_path: Path) -> None:
    """What a kill costs is bounded in time, not only in bytes, also where it is never quiet."""
    deck = Deck(tmp_path / "r.gz")
    quiet = threading.Event()
    while not deck.recorder.written:
        deck.play([created("c1", 1.0)])
        quiet.wait(0.02)
    assert 1 < deck.recorder.facts < 200
    deck.recorder.end()


def test_other_verdicts_than_live_are_told(tmp_path: Path) -> None:
    """A verdict that was altered, one that is missing, and one too many."""
    data, _ = recorded(tmp_path / "r.gz")
    lines = gzip.decompress(data).splitlines(keepends=True)
    at = next(n for n, line in enumerate(lines) if b'"missed"' in line)
    for altered, words in (
        (lines[at].replace(b'"missed"', b'"late"', 1), "late"),
        (b"", "live it was nothing"),
        (lines[at] * 2, "replayed it is nothing"),
    ):
        text = b"".join([*lines[:at], altered, *lines[at + 1 :]])
        comparison = replayed(member(text))[0].comparison
        assert not comparison.agrees
        assert words in comparison.difference


def wait_for(condition: Callable[[], bool]) -> None:
    """Wait, in this thread, for what another one does."""
    asyncio.run(until(condition, "the recorder has caught up", seconds=60))


# --- bounds -------------------------------------------------------------------


def test_a_recording_ends_when_it_is_full(tmp_path: Path) -> None:
    """It says so, in the file and to whoever waits; what it holds can be replayed."""
    deck = Deck(tmp_path / "r.gz", max_bytes=200_000)
    dice = random.Random(7)  # noqa: S311 -- only hard to compress
    deck.play([up(), relist(1)])
    while not deck.ended:
        deck.play([created(f"{dice.getrandbits(256):x}", 2.0) for _ in range(500)])
        wait_for(lambda: bool(deck.ended) or deck.recorder.facts == len(deck.tape.facts))
    done, findings = deck.replayed()
    assert deck.recorder.why == "full"
    assert deck.recorder.failure == ""
    assert done.recording.end is not None
    assert done.recording.end.why == "full"
    assert 200_000 <= (tmp_path / "r.gz").stat().st_size < 200_000 + 128 * 1024
    assert findings == deck.tape.findings[: len(findings)]
    assert done.comparison.agrees


def test_a_full_disk_ends_it_and_what_was_written_can_be_replayed(small_disk: Path) -> None:
    """No half block is left, whoever waits is told, and the failure is there to be said."""
    deck = Deck(small_disk / "r.gz")
    dice = random.Random(7)  # noqa: S311 -- only hard to compress
    deck.play([up(), relist(1)])
    while not deck.ended:
        deck.play([created(f"{dice.getrandbits(256):x}", 2.0) for _ in range(500)])
        wait_for(lambda: bool(deck.ended) or deck.recorder.facts == len(deck.tape.facts))
    done, findings = deck.replayed()
    assert deck.recorder.failure == "No space left on device"
    assert 0 < (small_disk / "r.gz").stat().st_size == deck.recorder.written
    assert "its end is missing" in done.recording.damage
    assert 100 < done.facts.total() < len(deck.tape.facts)
    assert done.comparison.agrees
    assert findings == deck.tape.findings[: len(findings)]
