"""A truncated, altered or forged recording is replayed up to the damage."""

import gzip
import io
import random
from pathlib import Path

import pytest

from exporter.errors import DamageError
from exporter.recording.gzip_members import member, members
from tests.support.tape import in_blocks, recording_of, replayed


def test_a_truncated_recording_is_replayed_up_to_the_cut(tmp_path: Path) -> None:
    """For a cut at every byte: the verdicts are the first ones of the whole, without an error."""
    whole, deck = recording_of(tmp_path / "r.gz")
    data = in_blocks(whole)
    begins = [at for at, _ in members(io.BytesIO(data))]
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
            before = max(at for at in begins if at < end)
            assert f"in the block at byte {before}: the file ends" in done.recording.damage
    assert longest > 5


def test_a_flipped_bit_is_detected_and_nothing_after_it_is_used(tmp_path: Path) -> None:
    """Each block has a checksum."""
    whole, deck = recording_of(tmp_path / "r.gz")
    data = bytearray(in_blocks(whole))
    begins = [at for at, _ in members(io.BytesIO(bytes(data)))]
    text = gzip.decompress(data)
    dice = random.Random(7)  # noqa: S311 -- which bit does not matter
    for _ in range(300):
        at, bit = dice.randrange(begins[1], len(data)), 1 << dice.randrange(8)
        data[at] ^= bit
        done, findings = replayed(bytes(data))
        data[at] ^= bit
        assert findings == deck.tape.findings[: len(findings)]
        damage = done.recording.damage
        # Some bits of a gzip file say nothing about its content: a time, padding.
        assert (
            damage or gzip.decompress(data[:at] + bytes([data[at] ^ bit]) + data[at + 1 :]) == text
        )


def test_a_bomb_is_not_unpacked() -> None:
    """A kilobyte can be a gigabyte."""
    bomb = io.BytesIO(member(b"\n" * (50 << 20)))
    with pytest.raises(DamageError, match="unpacks to more than 1048576 bytes"):
        list(members(bomb, largest=1 << 20))
