"""Messages to facts: what a runtime sends is never an exception, every flaw is counted once."""

from collections import Counter

import pytest
from google.protobuf.message import DecodeError
from hypothesis import example, given, settings
from hypothesis import strategies as st

from conformance.cri_client import encoded
from crifilter.calls import trimmed_event
from exporter.cri import runtime_v1_pb2 as pb
from exporter.cri.decode import Decoder
from exporter.cri.entries import chunks, entries
from exporter.cri.lists import ListDecoder
from exporter.errors import CriError, TooLargeError, UndecodableError
from exporter.model.events import EventType, Flawed, Inquiry, Listed, ListedState, ObjectKind, Pod
from exporter.model.facts import Discarded, Unread
from exporter.model.labels import Flaw, Malformed
from tests.support.cri_messages import (
    GARBAGE,
    METADATA,
    NOW_NS,
    SHOP,
    container,
    decoded,
    event,
    heard,
    lists,
    sandbox,
)


def test_good_lists_become_exact_facts() -> None:
    items, flaws = decoded(container(), container(id="c2", pod_sandbox_id="gone"), sandbox())
    assert items == (
        Listed("p1", ObjectKind.SANDBOX, ListedState.RUNNING, "p1", "", SHOP),
        Listed("c1", ObjectKind.CONTAINER, ListedState.RUNNING, "p1", "app", SHOP),
        Listed("c2", ObjectKind.CONTAINER, ListedState.RUNNING, "gone", "app", None),
    )
    assert flaws == Counter()


def test_the_runtime_handlers_of_what_is_listed_are_kept() -> None:
    decoder = ListDecoder()
    kata, runc = sandbox(id="p1", runtime_handler="kata"), sandbox(id="p2")
    for _ in range(2):
        decoder.items(*([each] for each in lists(kata, runc)))
        assert decoder.handlers == {"p1": "kata"}
    decoder.items(*([each] for each in lists(runc)))
    assert decoder.handlers == {}


@pytest.mark.parametrize(
    ("number", "container_state", "sandbox_state"),
    [
        (0, ListedState.CREATED, ListedState.RUNNING),
        (1, ListedState.RUNNING, ListedState.EXITED),
        (2, ListedState.EXITED, None),
        (3, ListedState.UNKNOWN, None),
        (7, None, None),
        (-1, None, None),
    ],
)
def test_a_state_is_kept_or_becomes_unknown(
    number: int, container_state: ListedState | None, sandbox_state: ListedState | None
) -> None:
    items, flaws = decoded(sandbox(state=number), container(state=number))
    states = [sandbox_state, container_state]
    assert [item.state for item in items] == [each or ListedState.UNKNOWN for each in states]
    assert flaws == Counter({Malformed.UNKNOWN_STATE: states.count(None)} if None in states else {})


@pytest.mark.parametrize(
    "raws", [(GARBAGE, b""), (b"", GARBAGE), (GARBAGE, GARBAGE)], ids=["first", "second", "both"]
)
def test_a_list_that_is_none_is_one_flaw_and_a_failed_relist(raws: tuple[bytes, bytes]) -> None:
    """No part of it is believed: half a list would prove removals that never were."""
    decoder = ListDecoder()
    with pytest.raises(UndecodableError, match="sent a list that is no protobuf") as caught:
        decoder.items(raws[:1], raws[1:])
    assert isinstance(caught.value, CriError)
    assert caught.value.reason == "internal"
    assert decoder.flaws == Counter({Malformed.UNDECODABLE: 1})


def test_an_event_shows_which_exited_containers_of_its_pod_ran() -> None:
    """A running container may yet be started, or be starting: it answers nothing.

    CRI-O 1.37.0 said the third of one whose start failed, the second of one killed before.
    """
    statuses = [
        pb.ContainerStatus(id="failed", state=pb.CONTAINER_EXITED),
        pb.ContainerStatus(id="killed", state=pb.CONTAINER_EXITED, started_at=-6795364578871345152),
        pb.ContainerStatus(
            id="refused",
            state=pb.CONTAINER_EXITED,
            started_at=NOW_NS,
            exit_code=2,
            reason="Error",
            message="failed to start container",
        ),
        pb.ContainerStatus(id="ran", state=pb.CONTAINER_EXITED, started_at=NOW_NS),
        pb.ContainerStatus(id="runs", state=pb.CONTAINER_RUNNING, started_at=NOW_NS),
    ]
    raw = event(containers_statuses=statuses)
    received = Decoder().event(raw, 12.5, NOW_NS, stream=3)
    assert isinstance(received, tuple)
    never = [(each, Inquiry.NEVER_STARTED) for each in ("failed", "killed", "refused")]
    assert received[1] == [*never, ("ran", Inquiry.STARTED)]


LONG = "x" * 257
CUT = LONG[:256]
STOPPED, DELETED = EventType.STOPPED, EventType.DELETED
OTHERS_STATUS = pb.ContainerStatus(id="other", state=pb.CONTAINER_EXITED, finished_at=7)
ENDED = pb.ContainerStatus(id="c1", state=pb.CONTAINER_EXITED, finished_at=NOW_NS)
RUNS = pb.ContainerStatus(id="c1", state=pb.CONTAINER_RUNNING, started_at=NOW_NS, finished_at=7)
LONG_POD = pb.PodSandboxMetadata(namespace="shop", name=LONG, uid="u")
GOOD: dict[str, object] = {
    "container_id": "c1",
    "type": EventType.STARTED,
    "received": 12.5,
    "created_at_ns": NOW_NS,
    "kind": ObjectKind.CONTAINER,
    "sandbox_id": "p1",
    "pod": SHOP,
    "stream": 3,
    "received_wall_ns": NOW_NS,
    "ended_ns": None,
    "flawed": None,
}


def of(*statuses: pb.ContainerStatus, what: EventType = STOPPED) -> bytes:
    return event(container_event_type=int(what), containers_statuses=statuses)


def in_sandbox(status: pb.PodSandboxStatus | None, **changed: object) -> bytes:
    return event(pod_sandbox_status=status, **changed)


# An event, what becomes of it in particular (None: it is left out), and what is counted.
EVENTS: dict[str, tuple[bytes, dict[str, object] | None, dict[Malformed, int]]] = {
    "as it should be": (event(), GOOD, {}),
    # It has no status of its own.
    "the sandbox's own": (event(container_id="p1"), {"kind": ObjectKind.SANDBOX, "pod": SHOP}, {}),
    # Containerd 1.7 sends a sandbox's DELETED like that: no flaw, just less to know.
    "no sandbox": (in_sandbox(None), {"kind": None, "sandbox_id": "", "pod": None}, {}),
    # It is not known whose event it is; every kubelet ignores it.
    "of nothing known": (
        in_sandbox(None, containers_statuses=[]),
        {"flawed": Flawed((Flaw.NO_POD,), 0)},
        {},
    ),
    # It does not say whether the event is the sandbox's own.
    "a sandbox without an id": (
        in_sandbox(pb.PodSandboxStatus(metadata=METADATA)),
        {"kind": None, "sandbox_id": "", "pod": SHOP},
        {},
    ),
    "a sandbox without metadata": (
        in_sandbox(pb.PodSandboxStatus(id="p1")),
        {"kind": ObjectKind.CONTAINER, "sandbox_id": "p1", "pod": None},
        {Malformed.NO_METADATA: 1},
    ),
    "long names": (
        in_sandbox(pb.PodSandboxStatus(id=LONG, metadata=LONG_POD)),
        {"sandbox_id": CUT, "pod": Pod("shop", CUT, "u")},
        {Malformed.TOO_LONG: 2},
    ),
    "a long id": (event(container_id=LONG), None, {Malformed.TOO_LONG: 1}),
    "no id": (event(container_id=""), None, {Malformed.EMPTY_ID: 1}),
    "no message": (GARBAGE, None, {Malformed.UNDECODABLE: 1}),
    **{
        f"of type {n}": (event(container_event_type=n), None, {Malformed.UNKNOWN_EVENT: 1})
        for n in (4, 9, -1, 2**31 - 1)
    },
    **{
        f"made at {n}": (event(created_at=n), {"created_at_ns": n}, {})
        for n in (1, NOW_NS, 2**63 - 1)
    },
    **{
        f"made at {n}": (event(created_at=n), {"created_at_ns": 0}, {Malformed.BAD_TIME: 1})
        for n in (0, -1, -(2**63))
    },
    # Only a STOPPED says when its container ended.
    "an end": (of(OTHERS_STATUS, ENDED), {"ended_ns": NOW_NS}, {}),
    "no end": (of(OTHERS_STATUS, pb.ContainerStatus(id="c1")), {"ended_ns": 0}, {}),
    "an odd end": (of(pb.ContainerStatus(id="c1", finished_at=-5)), {"ended_ns": 0}, {}),
    "another's end": (of(OTHERS_STATUS), {"ended_ns": None}, {}),
    "an end in a DELETED": (of(ENDED, what=DELETED), {"ended_ns": None}, {}),
    # State and times as the status has them; when one is flawed is in tests/cri/test_flaws.py.
    "a wrong status": (
        of(RUNS),
        {"flawed": Flawed((Flaw.WRONG_STATE,), 1, ListedState.RUNNING, NOW_NS, 7)},
        {},
    ),
}


@pytest.mark.parametrize("name", EVENTS)
def test_an_event_becomes_a_fact_or_is_left_out_and_its_flaws_are_counted(name: str) -> None:
    raw, expected, flaws = EVENTS[name]
    fact, found = heard(raw)
    assert found == Counter(flaws)
    assert (fact is None) == (expected is None)
    assert {each: getattr(fact, each) for each in expected or ()} == (expected or {})


NO_EXIT = b"\xff"
CROWD = b"\x2a\0" * 40_000


@pytest.mark.parametrize(
    ("raw", "left"),
    [
        (event() + NO_EXIT, Unread(1.0, "c1")),
        (event()[:-1], Unread(1.0, "c1")),
        (event() + CROWD, Unread(1.0, "c1")),
        (event(container_id="x" * 257) + CROWD, Discarded(1.0)),
        (event(container_id="\N{SPOUTING WHALE}") + NO_EXIT, Discarded(1.0)),
        (event(container_id="") + NO_EXIT, Discarded(1.0)),
        (event(container_id=""), Discarded(1.0)),
        (b"\x0a\x05c1", Discarded(1.0)),
        # What is understood to announce nothing, and what lists leave out as well.
        (event(container_event_type=9), None),
        (event(container_event_type=9, container_id=""), None),
        (event(container_id="x" * 257), None),
    ],
    ids=lambda each: "" if isinstance(each, bytes) else str(each),
)
def test_of_an_event_that_cannot_be_read_it_is_known_whose_it_is(
    raw: bytes, left: Unread | Discarded | None
) -> None:
    """So nothing that it announced is called lost; a filter in between changes nothing."""
    for each in (raw, trimmed_event(raw)):
        assert Decoder().event(each, 1.0, NOW_NS, stream=3) == left


def test_what_is_too_long_is_cut_and_an_id_is_left_out() -> None:
    """Two long ids may be the same once they are cut."""
    metadata = pb.PodSandboxMetadata(namespace=LONG, name=LONG, uid=LONG)
    items, flaws = decoded(
        sandbox(id=LONG),
        sandbox(metadata=metadata),
        container(id=LONG),
        container(metadata=pb.ContainerMetadata(name=LONG)),
        container(id="c2", pod_sandbox_id=LONG),
    )
    assert [(item.id, item.sandbox_id, item.name, item.pod) for item in items] == [
        ("p1", "p1", "", Pod(CUT, CUT, CUT)),
        ("c1", "p1", CUT, Pod(CUT, CUT, CUT)),
        ("c2", CUT, "app", None),
    ]
    assert flaws == Counter({Malformed.TOO_LONG: 7})


def test_a_large_event_may_have_many_fields_but_not_any_number() -> None:
    """Annotations make one large; more statuses than any pod has containers make it costly."""
    few = event(containers_statuses=[pb.ContainerStatus(id="x" * 100_000)])
    assert heard(few)[0] is not None
    assert heard(few + b"\x2a\0" * 2000) == (None, Counter({Malformed.TOO_LARGE: 1}))


@pytest.mark.parametrize(
    ("raw", "why"),
    [
        (b"\x0a\0" * 200_000, "lists of more than 163... entries"),
        (b"\x10\0" * 200_000, "lists of more than 163... entries"),
        (lists(sandbox(id="x" * (16 << 20)))[0], "a list with an entry larger than 16 MiB"),
    ],
    ids=["entries", "fields", "an entry"],
)
def test_lists_beyond_the_limits_are_an_error(raw: bytes, why: str) -> None:
    with pytest.raises(TooLargeError, match=why) as caught:
        ListDecoder().items([raw], [])
    assert caught.value.reason == "resource_exhausted"
    if "entries" in why:
        with pytest.raises(TooLargeError, match="a list of more than 163840 entries"):
            list(chunks(raw))


NUMBERS = st.integers(min_value=-(2**31), max_value=2**31 - 1)
IDS = st.sampled_from(["", "p1", "p2", "c1"])
OTHER = pb.PodSandboxMetadata(namespace="shop", name="cart", uid="uid-2")
PODS = st.sampled_from([None, METADATA, OTHER])
SANDBOXES = st.builds(sandbox, id=IDS, state=NUMBERS, metadata=PODS)
CONTAINERS = st.builds(container, id=IDS, pod_sandbox_id=IDS, state=NUMBERS)


@settings(deadline=None)
@given(relists=st.lists(st.lists(st.one_of(SANDBOXES, CONTAINERS), max_size=6), max_size=4))
def test_what_earlier_lists_had_does_not_change_items(
    relists: list[list[pb.PodSandbox | pb.Container]],
) -> None:
    decoder = ListDecoder()
    for relist in relists:
        sandboxes, containers = lists(*relist)
        assert tuple(decoder.items([sandboxes], [containers])) == decoded(*relist)[0]


def test_a_flaw_is_counted_once_for_as_long_as_it_is_listed() -> None:
    """Also if its bytes differ, as those of a map in a Go server; once more if it is another."""
    name = pb.ContainerMetadata(name="n" * 4000)
    raw = lists(container(metadata=name))[1]
    other = encoded({1: next(each for each in entries(raw) if each) + b"\x4a\x03abc"})
    decoder = ListDecoder()
    for message in (raw, raw, other, other):
        decoder.items([], [message])
        assert decoder.flaws == Counter({Malformed.TOO_LONG: 1})
    decoder.items([], [lists(container(metadata=name, state=9))[1]])
    assert decoder.flaws == Counter({Malformed.TOO_LONG: 2, Malformed.UNKNOWN_STATE: 1})
    decoder.items([], [lists(container(metadata=None))[1]])
    assert decoder.flaws[Malformed.NO_METADATA] == 1
    decoder.items([], [other])
    assert decoder.flaws[Malformed.TOO_LONG] == 3


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
@example(parts=[b"\x0a"], cut=0)
@example(parts=[b"\x0a" + b"\xff" * 12], cut=0)
@example(parts=[b"\x0a\x05abcd"], cut=0)
# A group.
@example(parts=[b"\x0b"], cut=0)
def test_protobuf_finds_the_same_entries_or_none_either(parts: list[bytes], cut: int) -> None:
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
    ("entry", "count", "most"), [(0, 100_000, 512), (1000, 10_000, 260 * 1024), (10**6, 10, 10**6)]
)
def test_chunks_are_small_however_many_entries_there_are(entry: int, count: int, most: int) -> None:
    """In bytes, and in fields: an empty one takes two bytes, and a hundred once it is parsed."""
    one = pb.ListContainersResponse(containers=[pb.Container(id="c" * entry)]).SerializeToString()
    found = list(chunks(one * count))
    assert b"".join(found) == one * count
    assert max(map(len, found)) <= most + 16
