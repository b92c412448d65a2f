"""Messages of any bytes and any values: facts or counted flaws, and never an exception."""

from __future__ import annotations

from hypothesis import given, settings
from hypothesis import strategies as st

from exporter.cri import runtime_v1_pb2 as pb
from exporter.cri.decode import Decoder, Malformed
from exporter.errors import UndecodableError
from tests.support.cri_messages import METADATA, container, decoded, event, heard, lists, sandbox

NUMBERS = st.integers(min_value=-(2**31), max_value=2**31 - 1)
IDS = st.sampled_from(["", "p1", "p2", "c1"])
SANDBOXES = st.builds(sandbox, id=IDS, state=NUMBERS, metadata=st.sampled_from([None, METADATA]))
CONTAINERS = st.builds(container, id=IDS, pod_sandbox_id=IDS, state=NUMBERS)


# A few bytes of a good message are other ones: most of it still is a message.
GOOD = (*lists(sandbox(), container()), event())
CHANGES = st.lists(st.tuples(st.integers(0, 200), st.integers(0, 255)), max_size=4)


def mangled(raw: bytes, changes: list[tuple[int, int]]) -> bytes:
    """Those bytes with some replaced."""
    out = bytearray(raw)
    for place, byte in changes:
        out[place % len(out)] = byte
    return bytes(out)


BYTES = st.one_of(st.binary(), st.builds(mangled, st.sampled_from(GOOD), CHANGES))


@settings(deadline=None)
@given(sandboxes=BYTES, containers=BYTES)
def test_no_bytes_make_the_lists_raise_anything_else(sandboxes: bytes, containers: bytes) -> None:
    """Facts, or the one error that a relist knows what to do with."""
    decoder = Decoder()
    try:
        items = list(decoder.lists([sandboxes], [containers]))
    except UndecodableError:
        items = []
        assert decoder.flaws[Malformed.UNDECODABLE] == 1
    assert all(item.id for item in items)


@settings(deadline=None)
@given(raw=BYTES)
def test_no_bytes_make_the_stream_raise(raw: bytes) -> None:
    """A fact, or nothing and at least one flaw."""
    fact, flaws = heard(raw)
    assert fact is not None or flaws


@settings(deadline=None)
@given(items=st.lists(st.one_of(SANDBOXES, CONTAINERS)))
def test_every_item_is_either_a_fact_or_a_flaw(items: list[pb.PodSandbox | pb.Container]) -> None:
    """None is lost, none is made up, each unknown state is counted once."""
    facts, flaws = decoded(*items)
    assert len(facts) + flaws[Malformed.EMPTY_ID] == len(items)
    named = [item for item in items if item.id]
    odd = [i for i in named if i.state not in range(2 if isinstance(i, pb.PodSandbox) else 4)]
    assert flaws[Malformed.UNKNOWN_STATE] == len(odd)
    bare = [item for item in named if not item.HasField("metadata")]
    assert flaws[Malformed.NO_METADATA] == len(bare)
