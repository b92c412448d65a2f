"""A recording's lines: what is written can be read, and anything else is refused."""

import io
import json
import re
from dataclasses import fields
from pathlib import Path

import pytest
from hypothesis import given
from hypothesis import strategies as st

from exporter.model import facts
from exporter.recording.recorder import Redaction, member
from exporter.recording.rows import WORDS, fact_rows, line_of
from replay.reader import FormError, Recording
from tests.support.facts import of_type
from tests.support.fixtures import examples
from tests.support.tape import HEADER, replayed

pytestmark = pytest.mark.quick
DOCS = Path(__file__).parents[2] / "docs/evidence.md"

any_fact = of_type(
    facts.Fact,
    {
        str: st.text(st.characters(), max_size=8),
        float: st.floats(-1e9, 1e9),
        int: st.integers(-(2**63), 2**63 - 1),
    },
)


def read_again(lines: list[bytes]) -> list[object]:
    return list(Recording(io.BytesIO(member(b"".join([line_of(HEADER), *lines])))))


def test_every_field_of_a_line_is_documented_and_none_that_is_not_there() -> None:
    table = DOCS.read_text(encoding="utf-8").split("| `f` | fields |")[1].split("\n\n")[0]
    rows = (line.split("|")[1:3] for line in table.splitlines()[2:])
    documented = {
        word: set(re.findall("`([^`]+)`", named))
        for words, named in rows
        for word in re.findall("`([^`]+)`", words)
    }
    assert documented == {
        word: set(getattr(kind, "_fields", None) or (each.name for each in fields(kind)))
        for kind, word in WORDS.items()
    }


@examples(2)
@given(fact=any_fact)
def test_a_fact_is_read_as_it_was_written(fact: facts.Fact) -> None:
    (whole,) = read_again([line_of(row) for row in fact_rows(fact)])
    assert whole == fact
    assert type(whole) is type(fact)


@examples(1)
@given(fact=any_fact)
def test_it_is_known_of_every_text_of_a_fact_what_it_names(fact: facts.Fact) -> None:
    """Or redaction raises; that none is left is looked at where recordings are made."""
    redacted = Redaction().fact(fact)
    assert type(redacted) is type(fact)
    assert facts.learnt(redacted) == facts.learnt(fact)


LISTED = '{"f":"changes","changed":%s,"gone":%s}'
DAMAGED = (
    ("[1,2]", "it is no JSON object"),
    ("[" * 100_000, "it is not JSON"),
    ('{"f":"down","at":NaN}', "it is not JSON"),
    ('{"f":"event","at":1}', "Object missing required field `container_id`"),
    ('{"f":[1],"at":1}', "it is not a line of a recording: its word is [1]"),
    ('{"f":"end","why":"","\\ud800":1}', "surrogates not allowed"),
    ('{"f":"down","at":1e999}', "its number 1e999 is out of range"),
    (f'{{"f":"discarded","at":1,"events":{10**400}}}', "is out of range"),
    (LISTED % ("[[1]]", "[]"), "Expected `array` of length 3 to 7, got 1 - at `$.changed[0]`"),
    (
        LISTED % ('[["c","sandbox","asleep","","",null]]', "[]"),
        "Invalid enum value 'asleep' - at `$.changed[0][2]`",
    ),
)


@pytest.mark.parametrize(("line", "words"), DAMAGED, ids=lambda text: text[:40])
def test_where_a_recording_is_damaged_is_said(line: str, words: str) -> None:
    first = member(line_of(HEADER) + b'{"f":"down","at":0.5}\n')
    done, _ = replayed(first + member(f"{line}\n".encode()))
    assert done.recording.damage.startswith("after line 2: ")
    assert words in done.recording.damage


@pytest.mark.parametrize(
    ("more", "words"),
    [
        (member(b'{"f":"down","at":0.5}\n'), "more comes after the end"),
        (b"PK\3\4", "it is not gzip"),
    ],
)
def test_what_follows_the_end_is_damage(more: bytes, words: str) -> None:
    whole = member(line_of(HEADER) + b'{"f":"end","why":"stopped"}\n')
    assert replayed(whole)[0].recording.damage == ""
    done, _ = replayed(whole + more)
    assert done.recording.damage.startswith(f"after line 2: {words}")
    assert done.recording.end is not None


def altered(**fields: object) -> bytes:
    return json.dumps(json.loads(line_of(HEADER)) | fields).encode() + b"\n"


@pytest.mark.parametrize(
    ("data", "words"),
    [
        (b"", "it is empty"),
        (member(b""), "it is empty"),
        (b"PK\3\4", "it is not gzip"),
        (member(b"{}\n")[:-1], "the file ends in the middle of a block"),
        (member(b"hello\n"), "it is not JSON"),
        (member(b'{"format":"else"}\n'), "this is not a shadow-pleg recording"),
        (member(altered(version=2)), "it has version 2, this program reads 1"),
        (member(altered(version="9" * 500)), "it has version '9{39}, this program"),
        (member(altered(grace=-1)), "its grace is negative"),
        (member(altered(redacted=1)), "Expected `bool`, got `int` - at `.*redacted`"),
    ],
)
def test_what_is_no_recording_is_refused(data: bytes, words: str) -> None:
    with pytest.raises(FormError, match=words):
        replayed(data)
