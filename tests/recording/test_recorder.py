"""What the recorder writes, when, and how it ends."""

import asyncio
import gzip
import json
import random
from pathlib import Path

import pytest

from exporter.errors import ConfigError
from exporter.recording.gzip_members import member
from exporter.recording.recorder import Recorder
from testbed.waiting import until
from tests.support.facts import created, relist, up
from tests.support.tape import HEADER, PLENTY, Deck, recording_of, replayed


def test_a_recording_is_gzip_of_json_lines(tmp_path: Path) -> None:
    """Lines of JSON: the header first, the end last."""
    data, _ = recording_of(tmp_path / "r.gz")
    lines = [json.loads(line) for line in gzip.decompress(data).splitlines()]
    assert (lines[0]["format"], lines[0]["version"]) == ("shadow-pleg recording", 1)
    assert lines[-1] == {"f": "end", "why": "stopped"}
    assert (tmp_path / "r.gz").stat().st_mode & 0o777 == 0o600


def test_a_file_is_replaced_only_on_request(tmp_path: Path) -> None:
    """By one that nobody else may read; a link's target is left alone."""
    kept, path = tmp_path / "kept", tmp_path / "r.gz"
    kept.write_text("precious", encoding="ascii")
    path.symlink_to(kept)
    with pytest.raises(ConfigError, match=r"^--output: '.*' exists: name a new file, or add"):
        Recorder(path, PLENTY, HEADER, lambda: None)
    Recorder(path, PLENTY, HEADER, lambda: None, replace=True).end()
    assert kept.read_text(encoding="ascii") == "precious"
    assert gzip.decompress(path.read_bytes()).startswith(b'{"format":')
    assert path.stat().st_mode & 0o777 == 0o600


def test_verdicts_that_differ_from_the_live_ones_are_reported(tmp_path: Path) -> None:
    """A verdict that was altered, one that is missing, and one too many."""
    data, _ = recording_of(tmp_path / "r.gz")
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


def test_a_recording_ends_when_it_is_full(tmp_path: Path) -> None:
    """It says so in the file and to its listener; what it holds can be replayed."""
    deck = Deck(tmp_path / "r.gz", max_bytes=200_000)
    dice = random.Random(7)  # noqa: S311 -- only hard to compress

    def caught_up() -> bool:
        return bool(deck.ended) or deck.recorder.facts == len(deck.tape.facts)

    deck.play([up(), relist(1)])
    while not deck.ended:
        deck.play([created(f"{dice.getrandbits(256):x}", 2.0) for _ in range(500)])
        asyncio.run(until(caught_up, "the recorder has caught up", seconds=60))
    done, findings = deck.replayed()
    assert (deck.recorder.why, deck.recorder.failure) == ("full", "")
    assert done.recording.end is not None
    assert done.recording.end.why == "full"
    assert 200_000 <= deck.path.stat().st_size < 200_000 + 128 * 1024
    assert findings == deck.tape.findings[: len(findings)]
    assert done.comparison.agrees
