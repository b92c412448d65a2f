"""A recording is what was told: written, read again, redacted, damaged, or made up by somebody."""

from __future__ import annotations

import asyncio
import gzip
import io
import json
import random
from collections import Counter
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st

from exporter.errors import ShadowPlegError
from exporter.evidence.fields import FormError, Line
from exporter.evidence.form import fact_lines, header_line, text_of
from exporter.evidence.members import DamageError, member, members
from exporter.evidence.parsing import Reader, read_header
from exporter.evidence.reading import Recording
from exporter.pleg.events import (
    Announcement,
    EventType,
    Inquiry,
    Listed,
    ListedState,
    ObjectKind,
    Pod,
    Relist,
)
from exporter.pleg.facts import (
    Discarded,
    Fact,
    Inquired,
    ProfileChosen,
    Relisted,
    StreamAsked,
    StreamDown,
    StreamRefused,
    StreamUp,
    Told,
)
from tests.evidence.tape import HEADER, Deck, replayed
from tests.grounds.waiting import until
from tests.pleg.builders import EXITED, RUNNING, created, deleted, relist, started, stopped, up

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


@settings(max_examples=500, deadline=None)
@given(fact=told)
def test_a_fact_is_read_as_it_was_written(fact: Told) -> None:
    """To the last bit of every number, and every character that a runtime may send."""
    reader = Reader()
    *parts, whole = [reader.take(Line.parse(text_of(line))) for line in fact_lines(fact)]
    assert parts == [None] * len(parts)
    assert whole == fact
    assert type(whole) is type(fact)


def test_a_large_relist_is_many_short_lines() -> None:
    """A line is held in memory as a whole, by whoever writes or reads it."""
    items = tuple(
        Listed(f"{n:064d}", ObjectKind.CONTAINER, ListedState.RUNNING) for n in range(1000)
    )
    fact = Relisted(1.0, 2.0, 3, 1000, items, tuple(f"{n:064d}" for n in range(600)))
    lines = [text_of(line) for line in fact_lines(fact)]
    assert len(lines) == 4 + 3 + 1
    assert max(map(len, lines)) < 64 * 1024
    reader = Reader()
    assert [reader.take(Line.parse(line)) for line in lines][-1] == fact


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


# --- damage -------------------------------------------------------------------


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
    dice = random.Random(7)  # noqa: S311 -- which bit does not matter
    for _ in range(300):
        at, bit = dice.randrange(begins[1], len(data)), 1 << dice.randrange(8)
        data[at] ^= bit
        done, findings = replayed(bytes(data))
        data[at] ^= bit
        assert findings == deck.tape.findings[: len(findings)]
        damage = done.recording.damage
        # The bytes of a gzip header that say nothing about its content may be anything.
        harmless = at - max(begin for begin in begins if begin <= at) in range(4, 10)
        assert damage or harmless


def test_where_a_recording_is_damaged_is_said(tmp_path: Path) -> None:
    """The line, the block, and what is wrong with it."""
    data, _ = recorded(tmp_path / "r.gz")
    lines = gzip.decompress(data).splitlines(keepends=True)
    first = member(b"".join(lines[:4]))
    for wrong, words in (
        (b'{"f":"event","at":1}\n', "'id' is no text"),
        (b'{"f":"weather","at":1}\n', "'f' is no kind of line"),
        (b"[1,2]\n", "it is no JSON object"),
        (b"{\n", "it is not JSON"),
        (b'{"f":"stream","at":NaN,"what":"down"}\n', "it is not JSON"),
        (b'{"f":"stream","at":1e999,"what":"down"}\n', "'at' is out of range"),
        (b'{"f":"stream","at":true,"what":"down"}\n', "'at' is no number"),
        (b'{"f":"stream","at":1,"what":"sideways"}\n', "'what' is no change of a stream"),
        (b'{"f":"stream","at":1,"what":"up","began":1.5}\n', "'began' is no whole number"),
        (
            b'{"f":"relist","requested":1,"completed":1,"wall":1,"listed":99999999999}\n',
            "'listed' is no number of items",
        ),
        (b'{"f":"changes","listed":[[1]],"gone":[]}\n', "has a row that has not 6 fields"),
        (b'{"f":"changes","listed":3,"gone":[]}\n', "'listed' is no list"),
        (b'{"f":"changes","listed":[],"gone":[7]}\n', "'gone' is no list of texts"),
        (
            b'{"f":"changes","listed":[["c","sandbox","asleep","","",null]],"gone":[]}\n',
            "2 is none of created, running, exited, unknown",
        ),
        (
            b'{"f":"changes","listed":[["c","sandbox","running","","",["a"]]],"gone":[]}\n',
            "'pod' is not namespace, name and uid",
        ),
        (
            b'{"f":"profile","at":1,"name":"","version":"","never":["TALKS"]}\n',
            "'TALKS' is no rule of a profile",
        ),
        (b"[" * 100_000 + b"\n", "it is not JSON"),
    ):
        done, _ = replayed(first + member(wrong))
        expected = f"at line 5, in the block at byte {len(first)}: "
        assert done.recording.damage.startswith(expected)
        assert words in done.recording.damage


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
            member(text_of(header_line(HEADER) | {"version": 2})),
            "it has version 2, this program reads 1",
        ),
        (member(text_of(header_line(HEADER) | {"grace": -1})), "'grace' is out of range"),
        (member(text_of(header_line(HEADER) | {"redacted": 1})), "'redacted' is neither"),
    ],
)
def test_what_is_no_recording_is_refused(data: bytes, words: str) -> None:
    """With what is wrong with it."""
    with pytest.raises((FormError, DamageError), match=words):
        replayed(data)


def test_a_bomb_is_not_unpacked(monkeypatch: pytest.MonkeyPatch) -> None:
    """A kilobyte can be a gigabyte."""
    monkeypatch.setattr("exporter.evidence.members._LARGEST", 1 << 20)
    with pytest.raises(DamageError, match="unpacks to more than 1048576 bytes"):
        replayed(member(b"\n" * (50 << 20)))


def test_a_header_is_read_as_it_was_written() -> None:
    """All of it."""
    assert read_header(Line.parse(text_of(header_line(HEADER)))) == HEADER


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
        for line in fact_lines(fact):
            document: dict[str, Any] = json.loads(json.dumps(line))
            if data.draw(st.integers(0, 3)) == 0:
                document[data.draw(st.sampled_from(sorted(document)))] = data.draw(_values)
            lines.append(json.dumps(document).encode())
    lines += data.draw(st.lists(st.binary(max_size=30), max_size=1))
    text = text_of(header_line(HEADER)) + b"\n".join(lines)
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
        wait_for(lambda: deck.ended or deck.recorder.facts == len(deck.tape.facts))
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
        wait_for(lambda: deck.ended or deck.recorder.facts == len(deck.tape.facts))
    done, findings = deck.replayed()
    assert deck.recorder.failure == "No space left on device"
    assert 0 < (small_disk / "r.gz").stat().st_size == deck.recorder.written
    assert "its end is missing" in done.recording.damage
    assert 100 < done.facts.total() < len(deck.tape.facts)
    assert done.comparison.agrees
    assert findings == deck.tape.findings[: len(findings)]


# --- pseudonyms ---------------------------------------------------------------

IDS = ("0a1b2c3d4e5f", "9f8e7d6c5b4a", "77aa88bb99cc")
SECRETS = (*IDS, "payroll", "salaries-7d9f8", "uid-4711", "exporter-of-secrets", "Zürich")


def secret_story() -> list[Fact]:
    """A life in which every name is a secret."""
    pod = Pod("payroll", "salaries-7d9f8", "uid-4711")
    box = Listed(IDS[0], ObjectKind.SANDBOX, ListedState.RUNNING, IDS[0], "", pod)
    app = Listed(
        IDS[1], ObjectKind.CONTAINER, ListedState.RUNNING, IDS[0], "exporter-of-secrets", pod
    )
    city = app._replace(id=IDS[2], name="Zürich", state=ListedState.EXITED)
    kind = ObjectKind.CONTAINER
    return [
        ProfileChosen(0.0, "containerd", "2.1.9"),
        up(0.5),
        relist(1),
        Announcement(IDS[1], EventType.CREATED, 1.5, 10**18, kind, IDS[0], pod),
        Relist(2, 2.1, 2 * 10**9, (box, app, city)),
        Inquired(2.5, IDS[2], Inquiry.NEVER_STARTED),
        Relist(20, 20.1, 20 * 10**9, (box, app, city)),
        Relist(21, 21.1, 21 * 10**9, ()),
        Relist(40, 40.1, 40 * 10**9, ()),
    ]


def test_a_redacted_recording_has_none_of_the_names_in_it(tmp_path: Path) -> None:
    """Not one id, namespace, pod, uid or container name; in no place, and in no spelling."""
    data, _ = recorded(tmp_path / "r.gz", *secret_story(), redact=True)
    text = gzip.decompress(data).decode()
    assert text.count("\n") > 10
    for secret in SECRETS:
        assert secret not in text
        assert json.dumps(secret)[1:-1] not in text
    open_text = gzip.decompress(recorded(tmp_path / "o.gz", *secret_story())[0]).decode()
    assert all(json.dumps(secret)[1:-1] in open_text for secret in SECRETS)


def test_a_redacted_recording_comes_to_the_same_verdicts(tmp_path: Path) -> None:
    """Who is who stays comparable, and a sandbox's own id stays its own."""
    data, deck = recorded(tmp_path / "r.gz", *secret_story(), redact=True)
    done, findings = replayed(data)
    assert done.comparison.agrees
    assert done.comparison.same == len(findings) == len(deck.tape.findings) > 5
    assert [(f.verdict, f.event, f.kind, f.cause) for f in findings] == [
        (f.verdict, f.event, f.kind, f.cause) for f in deck.tape.findings
    ]
    ids = [[finding.container_id for finding in row] for row in (deck.tape.findings, findings)]
    names = dict(zip(*ids, strict=True))
    assert len(set(names.values())) == len(names) > 1


def test_the_same_name_has_another_pseudonym_in_another_recording(tmp_path: Path) -> None:
    """The key is thrown away: two recordings cannot be laid side by side, nor names tried out."""
    texts = [
        gzip.decompress(recorded(tmp_path / name, *secret_story(), redact=True)[0]).decode()
        for name in ("a.gz", "b.gz")
    ]
    pseudonyms = [{word for word in text.split('"') if word.startswith("id-")} for text in texts]
    assert len(pseudonyms[0]) == len(pseudonyms[1]) == 3
    assert not pseudonyms[0] & pseudonyms[1]
