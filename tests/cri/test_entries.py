"""The walk over a list's entries, against protobuf's own parser."""

import pytest
from google.protobuf.message import DecodeError
from hypothesis import example, given
from hypothesis import strategies as st

from exporter.cri import runtime_v1_pb2 as pb
from exporter.cri.entries import chunks, entries
from exporter.errors import TooLargeError
from tests.support.cri_messages import container

# Fields that no list has today: 2 as a varint, 3 and 4 of a fixed size, 200 of any bytes.
OTHERS = st.sampled_from(
    [b"\x10\xac\x02", b"\x19" + b"8" * 8, b"\x25" + b"4" * 4, b"\xc2\x0c\x03abc"]
)
ENTRIES = st.builds(
    lambda name: pb.ListContainersResponse(containers=[container(id=name)]).SerializeToString(),
    st.text(max_size=300),
)


@given(parts=st.lists(st.one_of(ENTRIES, OTHERS)), cut=st.integers(0, 40))
@example(parts=[b"\x0a\x00"], cut=0)
def test_protobuf_finds_the_same_entries_or_none_either(parts: list[bytes], cut: int) -> None:
    """Also where the end is missing."""
    message = b"".join(parts)
    message = message[: len(message) - cut]
    try:
        expected = list(pb.ListContainersResponse.FromString(message).containers)
    except DecodeError:
        with pytest.raises(DecodeError):
            list(entries(message))
        with pytest.raises(DecodeError):
            list(chunks(message))
    else:
        assert b"".join(chunks(message)) == message
        found = [bytes(each) for each in entries(message) if each is not None]
        assert list(map(pb.Container.FromString, found)) == expected


@pytest.mark.parametrize(
    ("message", "why"),
    [
        (b"\x0a", "varint"),
        (b"\x0a" + b"\xff" * 12, "varint"),
        (b"\x0a\x05abcd", "truncated message"),
        (b"\x0b", "wire type"),
    ],
    ids=["no length", "endless length", "too short", "a group"],
)
def test_what_is_no_list_is_refused(message: bytes, why: str) -> None:
    """As a DecodeError, like protobuf's own."""
    with pytest.raises(DecodeError, match=why):
        list(entries(message))


@pytest.mark.parametrize(
    ("entry", "count", "most"), [(0, 100_000, 512), (1000, 10_000, 260 * 1024), (10**6, 10, 10**6)]
)
def test_chunks_are_small_however_many_entries_there_are(entry: int, count: int, most: int) -> None:
    """In bytes, and in fields: an empty one takes two bytes, and a hundred once it is parsed."""
    one = pb.ListContainersResponse(containers=[pb.Container(id="c" * entry)]).SerializeToString()
    found = list(chunks(one * count))
    assert b"".join(found) == one * count
    assert max(map(len, found)) <= most + 16


def test_more_entries_than_any_node_has_are_refused() -> None:
    """Before all are walked, which would take seconds."""
    with pytest.raises(TooLargeError, match="a list of more than 163840 entries"):
        list(chunks(b"\x0a\x00" * 200_000))
