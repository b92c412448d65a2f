"""A recording that was cut off, altered, or made up by somebody: replayed as far as it is true."""

from __future__ import annotations

import gzip
import io
import json
import random
from pathlib import Path
from typing import Any

import pytest
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st

from exporter.errors import DamageError, FormError, ShadowPlegError
from exporter.recording.gzip_members import member, members
from exporter.recording.reader import Recording
from exporter.recording.rows import fact_rows, header_of, line_of
from tests.recording.test_recorder import recorded, told
from tests.support.tape import HEADER, replayed


def text_blocks(data: bytes, size: int = 400) -> bytes:
    """The same recording, its lines in blocks of about so many bytes."""
    out, text = b"", b""
    for line in gzip.decompress(data).splitlines(keepends=True):
        text += line
        if len(text) >= size:
            out, text = out + member(text), b""
    return out + member(text) if text else out


def test_wherever_it_was_cut_off_everything_before_is_replayed(tmp_path: Path) -> None:
    """At every byte: the verdicts are the beginning of those of the whole, and no error comes."""
    whole, deck = recorded(tmp_path / "r.gz")
    data = text_blocks(whole)
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


def test_a_flipped_bit_is_found_and_nothing_behind_it_believed(tmp_path: Path) -> None:
    """Each block has a checksum: what is altered is never replayed as if it were true."""
    whole, deck = recorded(tmp_path / "r.gz")
    data = bytearray(text_blocks(whole))
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


LISTED = '{"f":"changes","listed":%s,"gone":%s}'
DAMAGED = (
    ("[1,2]", "Expected `object`, got `array`"),
    ("{", "it is not JSON"),
    ("[" * 100_000, "it is not JSON"),
    ('{"f":"stream","at":NaN,"what":"down"}', "it is not JSON"),
    ('{"f":"event","at":1}', "Object missing required field `id`"),
    ('{"f":"weather","at":1}', "Invalid value 'weather' - at `$.f`"),
    ('{"f":"end","why":"","\\ud800":1}', "surrogates not allowed"),
    ('{"f":"stream","at":1e999,"what":"down"}', "Expected `float` <= 1000000000000.0 - at `$.at`"),
    ('{"f":"stream","at":true,"what":"down"}', "Expected `float`, got `bool` - at `$.at`"),
    ('{"f":"stream","at":1,"what":"sideways"}', "'^(asked|up|down|refused)\\\\Z' - at `$.what`"),
    ('{"f":"stream","at":1,"what":"up"}', "Object missing required field `began`"),
    ('{"f":"stream","at":1,"what":"up","began":1.5}', "Expected `int`, got `float` - at `$.began`"),
    (
        '{"f":"relist","requested":1,"completed":1,"wall":1,"listed":99999999999}',
        "Expected `int` <= 1000000 - at `$.listed`",
    ),
    (LISTED % ("[[1]]", "[]"), "Expected `array` of length 6, got 1 - at `$.listed[0]`"),
    (LISTED % ("3", "[]"), "Expected `array`, got `int` - at `$.listed`"),
    (LISTED % ("[]", "[7]"), "Expected `str`, got `int` - at `$.gone[0]`"),
    (
        LISTED % ('[["c","sandbox","asleep","","",null]]', "[]"),
        "Invalid enum value 'asleep' - at `$.listed[0][2]`",
    ),
    (
        LISTED % ('[["c","sandbox","running","","",["a"]]]', "[]"),
        "Expected `array` of length 3, got 1 - at `$.listed[0][5]`",
    ),
    (
        '{"f":"profile","at":1,"name":"","version":"","stream":"","never":["TALKS"]}',
        "Expected `str` matching regex '^(SANDBOX_CREATED|",
    ),
)


@pytest.mark.parametrize(("line", "words"), DAMAGED, ids=lambda text: text[:40])
def test_where_a_recording_is_damaged_is_said(line: str, words: str) -> None:
    """The line, the block, and what is wrong with it."""
    first = member(line_of(HEADER) + b'{"f":"stream","at":0.5,"what":"down"}\n')
    done, _ = replayed(first + member(f"{line}\n".encode()))
    expected = f"at line 3, in the block at byte {len(first)}: "
    assert done.recording.damage.startswith(expected)
    assert words in done.recording.damage


def altered(**fields: object) -> bytes:
    """The first line, with other fields."""
    return json.dumps(json.loads(line_of(HEADER)) | fields).encode() + b"\n"


@pytest.mark.parametrize(
    ("data", "words"),
    [
        (b"", "it is empty"),
        (member(b""), "it is empty"),
        (b"PK\3\4", "it is no gzip"),
        (member(b"{}\n")[:-1], "the file ends in the middle of it"),
        (member(b"hello\n"), "it is not JSON"),
        (member(b'{"format":"else"}\n'), "this is no recording of shadow-pleg"),
        (
            member(altered(version=2)),
            "it has version 2, this program reads 1",
        ),
        (member(altered(grace=-1)), "Expected `float` >= 0.0 - at `.*grace`"),
        (member(altered(redacted=1)), "Expected `bool`, got `int` - at `.*redacted`"),
    ],
)
def test_what_is_no_recording_is_refused(data: bytes, words: str) -> None:
    """With what is wrong with it."""
    with pytest.raises((FormError, DamageError), match=words):
        replayed(data)


def test_a_bomb_is_not_unpacked(monkeypatch: pytest.MonkeyPatch) -> None:
    """A kilobyte can be a gigabyte."""
    monkeypatch.setattr("exporter.recording.gzip_members._LARGEST", 1 << 20)
    with pytest.raises(DamageError, match="unpacks to more than 1048576 bytes"):
        replayed(member(b"\n" * (50 << 20)))


def test_a_header_is_read_as_it_was_written() -> None:
    """All of it."""
    assert header_of(line_of(HEADER)) == HEADER


_words = st.sampled_from(
    ["f", "event", "relist", "changes", "found", "stream", "at", "id", "type", "STARTED", "what"]
)
_values = st.recursive(
    st.none() | st.booleans() | st.integers() | st.floats() | st.text(max_size=3) | _words,
    lambda inner: st.lists(inner, max_size=4) | st.dictionaries(_words, inner, max_size=4),
    max_leaves=12,
)


@settings(max_examples=300, deadline=None, suppress_health_check=list(HealthCheck))
@given(data=st.data())
def test_a_fuzzed_recording_never_crashes(data: st.DataObject) -> None:
    """Real lines with some of their fields replaced by anything, in any order; then garbage."""
    lines = []
    for fact in data.draw(st.lists(told, max_size=8)):
        for row in fact_rows(fact):
            document: dict[str, Any] = json.loads(line_of(row))
            if data.draw(st.integers(0, 3)) == 0:
                document[data.draw(st.sampled_from(sorted(document)))] = data.draw(_values)
            lines.append(json.dumps(document).encode())
    lines += data.draw(st.lists(st.binary(max_size=30), max_size=1))
    text = line_of(HEADER) + b"\n".join(lines)
    done, findings = replayed(member(text))
    assert done.comparison.live == 0 or done.recording.damage or findings is not None


@settings(max_examples=300, deadline=None)
@given(data=st.binary(max_size=200), packed=st.booleans())
def test_bytes_of_any_kind_are_refused_or_replayed(data: bytes, packed: bool) -> None:  # noqa: FBT001 -- drawn
    """Never anything but an error of this program's."""
    raw = gzip.compress(data) if packed else b"\x1f\x8b\x08" + data
    # Six lines of luck would make it a recording.
    with pytest.raises(ShadowPlegError, match=r"\S"):
        list(Recording(io.BytesIO(raw)))
