"""What the recorder writes, what is read of it when it is damaged, and no names if redacted."""

import asyncio
import gzip
import io
import json
import random
from itertools import accumulate
from pathlib import Path
from typing import cast

import pytest

from exporter.errors import ConfigError
from exporter.model.facts import Fact
from exporter.model.findings import Outcome
from exporter.recording.recorder import Recorder, member
from replay.reader import members
from testbed.waiting import until
from tests.support.commands import run_here
from tests.support.facts import RUNNING, created, relist, up
from tests.support.tape import (
    HEADER,
    PLENTY,
    SECRETS,
    Deck,
    in_blocks,
    recording_of,
    replayed,
    secret_story,
)


def test_a_file_is_replaced_only_on_request(tmp_path: Path) -> None:
    """By one that no other user may read; a link's target is left alone."""
    kept, path = tmp_path / "kept", tmp_path / "r.gz"
    kept.write_text("precious", encoding="ascii")
    path.symlink_to(kept)
    with pytest.raises(ConfigError, match=r"^--output: '.*' exists: name a new file, or add"):
        Recorder(path, PLENTY, HEADER, lambda: None)
    Recorder(path, PLENTY, HEADER, lambda: None, replace=True).end()
    assert kept.read_text(encoding="ascii") == "precious"
    assert gzip.decompress(path.read_bytes()).startswith(b'{"format":')
    assert path.stat().st_mode & 0o777 == 0o600


@pytest.mark.usefixtures("borrowed_process")
def test_without_a_runtime_an_earlier_recording_is_kept(
    capsys: pytest.CaptureFixture[str], tmp_path: Path
) -> None:
    """--force replaces it by another one, not by nothing."""
    path = tmp_path / "r.gz"
    path.write_text("precious", encoding="ascii")
    where = f"--runtime-endpoint=unix://{tmp_path}/none"
    run_here(capsys, "record", where, f"--output={path}", "--force").complaint(1)
    assert path.read_text(encoding="ascii") == "precious"


def test_verdicts_that_differ_from_the_live_ones_are_reported(tmp_path: Path) -> None:
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
    deck = Deck(tmp_path / "r.gz", max_bytes=200_000)
    dice = random.Random(7)

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


@pytest.mark.filterwarnings("ignore::pytest.PytestUnhandledThreadExceptionWarning")
def test_a_recording_in_which_a_fact_cannot_be_written_is_not_whole(tmp_path: Path) -> None:
    deck = Deck(tmp_path / "r.gz")
    deck.play([up()])
    deck.recorder.hear(cast("Fact", "no fact"), Outcome())
    deck.recorder.end()
    assert deck.ended == [True]
    assert deck.recorder.failure
    assert deck.path.read_bytes() == b""


def test_a_truncated_recording_is_replayed_up_to_the_cut(tmp_path: Path) -> None:
    whole, deck = recording_of(tmp_path / "r.gz")
    blocks = in_blocks(whole)
    data, begins = b"".join(blocks), [0, *accumulate(map(len, blocks[:-1]))]
    assert len(begins) > 5
    longest = 0
    for end in range(begins[1], len(data)):
        done, findings = replayed(data[:end])
        assert findings == deck.tape.findings[: len(findings)]
        assert len(findings) >= longest
        assert done.comparison.agrees
        longest = len(findings)
        if end in begins:
            assert "its end is missing" in done.recording.damage
        else:
            assert "the file ends in the middle" in done.recording.damage
    assert longest > 5


def test_a_flipped_bit_is_detected_and_nothing_after_it_is_used(tmp_path: Path) -> None:
    whole, deck = recording_of(tmp_path / "r.gz")
    blocks = in_blocks(whole)
    data = bytearray(b"".join(blocks))
    text = gzip.decompress(data)
    dice = random.Random(7)
    for _ in range(300):
        at, bit = dice.randrange(len(blocks[0]), len(data)), 1 << dice.randrange(8)
        data[at] ^= bit
        done, findings = replayed(bytes(data))
        data[at] ^= bit
        assert findings == deck.tape.findings[: len(findings)]
        damage = done.recording.damage
        # Some bits of a gzip file say nothing about its content: a time, padding.
        assert (
            damage or gzip.decompress(data[:at] + bytes([data[at] ^ bit]) + data[at + 1 :]) == text
        )


def test_a_large_relist_is_many_small_members(tmp_path: Path) -> None:
    """A reader holds one at a time, and refuses one of more than 4 MiB."""
    large = relist(1, **{f"c{number}": RUNNING for number in range(20_000)})
    data, _ = recording_of(tmp_path / "r.gz", large)
    sizes = [len(text) for text in members(io.BytesIO(data))]
    assert len(sizes) > 10
    assert max(sizes) < 256 * 1024
    assert replayed(data)[0].comparison.agrees


@pytest.mark.quick
def test_a_redacted_recording_has_no_names_and_comes_to_the_same_verdicts(tmp_path: Path) -> None:
    data, deck = recording_of(tmp_path / "r.gz", *secret_story(), redact=True)
    text = gzip.decompress(data).decode()
    assert text.count("\n") > 10
    for secret in SECRETS:
        assert secret not in text
        assert json.dumps(secret)[1:-1] not in text
    open_text = gzip.decompress(recording_of(tmp_path / "o.gz", *secret_story())[0]).decode()
    assert all(json.dumps(secret)[1:-1] in open_text for secret in SECRETS)
    done, findings = replayed(data)
    assert done.comparison.agrees
    assert done.comparison.same == len(findings) == len(deck.tape.findings) > 5
    assert [(f.verdict, f.event, f.kind, f.cause) for f in findings] == [
        (f.verdict, f.event, f.kind, f.cause) for f in deck.tape.findings
    ]
    ids = [[finding.container_id for finding in row] for row in (deck.tape.findings, findings)]
    names = dict(zip(*ids, strict=True))
    assert len(set(names.values())) == len(names) > 1


@pytest.mark.quick
def test_the_same_name_has_another_pseudonym_in_another_recording(tmp_path: Path) -> None:
    """The key is discarded, so recordings cannot be compared and names cannot be guessed."""
    texts = [
        gzip.decompress(recording_of(tmp_path / name, *secret_story(), redact=True)[0]).decode()
        for name in ("a.gz", "b.gz")
    ]
    pseudonyms = [{word for word in text.split('"') if word.startswith("id-")} for text in texts]
    assert len(pseudonyms[0]) == len(pseudonyms[1]) == 3
    assert not pseudonyms[0] & pseudonyms[1]
