"""Messages to facts: what a runtime sends is never an exception, every flaw is counted once."""

from collections import Counter

import pytest
from google.protobuf.message import DecodeError
from hypothesis import example, given, settings
from hypothesis import strategies as st

from conformance.wire import field
from crifilter.calls import trimmed_event
from exporter.cri import runtime_v1_pb2 as pb
from exporter.cri.decode import Decoder
from exporter.cri.entries import chunks, entries
from exporter.cri.lists import ListDecoder
from exporter.errors import CriError, TooLargeError, UndecodableError
from exporter.model.events import (
    Announcement,
    EventType,
    Flawed,
    Inquiry,
    Listed,
    ListedState,
    ObjectKind,
    Pod,
)
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


@pytest.mark.parametrize("raws", [[b""], []], ids=["whole", "streamed"])
def test_empty_lists_are_lists(raws: list[bytes]) -> None:
    assert ListDecoder().items(raws, raws) == []


def test_the_runtime_handlers_of_what_is_listed_are_kept() -> None:
    decoder = ListDecoder()
    kata, runc = sandbox(id="p1", runtime_handler="kata"), sandbox(id="p2")
    for _ in range(2):
        decoder.items(*([each] for each in lists(kata, runc)))
        assert decoder.handlers == {"p1": "kata"}
    decoder.items(*([each] for each in lists(runc)))
    assert decoder.handlers == {}


def test_a_list_in_many_messages_is_one_list() -> None:
    pods = [lists(sandbox(id=each))[0] for each in ("p1", "p2")]
    rest = [lists(container(id=f"c-{each}", pod_sandbox_id=each))[1] for each in ("p2", "p1")]
    items = {item.id: item for item in ListDecoder().items(pods, rest)}
    assert list(items) == ["p1", "p2", "c-p2", "c-p1"]
    assert items["c-p1"].pod == items["p1"].pod is not None


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
    """A running container may yet be started, or be starting: it answers nothing."""
    statuses = [
        pb.ContainerStatus(id="failed", state=pb.CONTAINER_EXITED),
        pb.ContainerStatus(id="ran", state=pb.CONTAINER_EXITED, started_at=NOW_NS),
        pb.ContainerStatus(id="runs", state=pb.CONTAINER_RUNNING, started_at=NOW_NS),
    ]
    raw = event(containers_statuses=statuses)
    received = Decoder().event(raw, 12.5, NOW_NS, stream=3)
    assert isinstance(received, tuple)
    assert received[1] == [("failed", Inquiry.NEVER_STARTED), ("ran", Inquiry.STARTED)]


def ended_ns(what: EventType, *statuses: pb.ContainerStatus) -> int | None:
    fact, _ = heard(event(container_event_type=int(what), containers_statuses=statuses))
    assert fact is not None
    return fact.ended_ns


def test_a_stopped_says_when_its_container_ended() -> None:
    other = pb.ContainerStatus(id="other", state=pb.CONTAINER_EXITED, finished_at=7)
    own = pb.ContainerStatus(id="c1", state=pb.CONTAINER_EXITED, finished_at=NOW_NS)
    assert ended_ns(EventType.STOPPED, other, own) == NOW_NS
    assert ended_ns(EventType.STOPPED, other, pb.ContainerStatus(id="c1")) == 0
    assert ended_ns(EventType.STOPPED, pb.ContainerStatus(id="c1", finished_at=-5)) == 0
    assert ended_ns(EventType.STOPPED, other) is None
    assert ended_ns(EventType.DELETED, own) is None


def test_a_flawed_event_says_what_its_own_status_said() -> None:
    """State and times; when one is flawed is in tests/cri/test_flaws.py."""
    own = pb.ContainerStatus(id="c1", state=pb.CONTAINER_RUNNING, started_at=NOW_NS, finished_at=7)
    event_, _ = heard(event(container_event_type=EventType.STOPPED, containers_statuses=[own]))
    assert event_ is not None
    assert event_.flawed == Flawed((Flaw.WRONG_STATE,), 1, ListedState.RUNNING, NOW_NS, 7)


def test_a_sandbox_has_no_status_of_its_own_and_an_event_of_nothing_known_owes_none() -> None:
    """Without a sandbox status it is not known whose event it is; every kubelet ignores it."""
    of_sandbox, _ = heard(event(container_id="p1"))
    nameless, _ = heard(event(pod_sandbox_status=None, containers_statuses=[]))
    assert of_sandbox is not None
    assert nameless is not None
    assert (of_sandbox.flawed, nameless.flawed) == (None, Flawed((Flaw.NO_POD,), 0))


def test_a_good_event_becomes_an_exact_fact() -> None:
    assert heard(event()) == (
        Announcement(
            container_id="c1",
            type=EventType.STARTED,
            received=12.5,
            created_at_ns=NOW_NS,
            kind=ObjectKind.CONTAINER,
            sandbox_id="p1",
            pod=SHOP,
            stream=3,
            received_wall_ns=NOW_NS,
        ),
        Counter(),
    )


@pytest.mark.parametrize(
    ("raw", "flaw"),
    [
        *((event(container_event_type=n), Malformed.UNKNOWN_EVENT) for n in (4, 9, -1, 2**31 - 1)),
        (event(container_id=""), Malformed.EMPTY_ID),
        (GARBAGE, Malformed.UNDECODABLE),
    ],
)
def test_an_event_that_says_nothing_is_counted_and_left_out(raw: bytes, flaw: Malformed) -> None:
    assert heard(raw) == (None, Counter({flaw: 1}))


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


@pytest.mark.parametrize(
    ("raw", "kind", "sandbox_id", "pod", "flaws"),
    [
        (event(container_id="p1"), ObjectKind.SANDBOX, "p1", SHOP, {}),
        # Containerd 1.7 sends a sandbox's DELETED like that: no flaw, just less to know.
        (event(pod_sandbox_status=None), None, "", None, {}),
        # It does not say whether the event is the sandbox's own.
        (event(pod_sandbox_status=pb.PodSandboxStatus(metadata=METADATA)), None, "", SHOP, {}),
        (
            event(pod_sandbox_status=pb.PodSandboxStatus(id="p1")),
            ObjectKind.CONTAINER,
            "p1",
            None,
            {Malformed.NO_METADATA: 1},
        ),
    ],
    ids=["the sandbox's own", "no status", "no id", "no metadata"],
)
def test_the_status_tells_what_an_event_is_about(
    raw: bytes,
    kind: ObjectKind | None,
    sandbox_id: str,
    pod: Pod | None,
    flaws: dict[Malformed, int],
) -> None:
    fact, found = heard(raw)
    assert fact is not None
    assert (fact.kind, fact.sandbox_id, fact.pod, found) == (kind, sandbox_id, pod, Counter(flaws))


@pytest.mark.parametrize(
    ("created_at", "kept"),
    [(1, True), (NOW_NS, True), (2**63 - 1, True), (0, False), (-1, False), (-(2**63), False)],
)
def test_a_time_that_cannot_be_is_no_time(created_at: int, kept: bool) -> None:
    fact, flaws = heard(event(created_at=created_at))
    assert fact is not None
    assert fact.created_at_ns == (created_at if kept else 0)
    assert flaws == (Counter() if kept else Counter({Malformed.BAD_TIME: 1}))


LONG = "x" * 257
CUT = LONG[:256]


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


def test_an_event_of_too_long_names_is_cut_or_left_out() -> None:
    assert heard(event(container_id=LONG)) == (None, Counter({Malformed.TOO_LONG: 1}))
    metadata = pb.PodSandboxMetadata(namespace="shop", name=LONG, uid="u")
    status = pb.PodSandboxStatus(id=LONG, metadata=metadata)
    fact, flaws = heard(event(pod_sandbox_status=status))
    assert fact is not None
    assert (fact.sandbox_id, fact.pod) == (CUT, Pod("shop", CUT, "u"))
    assert flaws == Counter({Malformed.TOO_LONG: 2})


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
@given(items=st.lists(st.one_of(SANDBOXES, CONTAINERS), unique_by=lambda item: item.id))
def test_every_item_is_either_a_fact_or_a_flaw(items: list[pb.PodSandbox | pb.Container]) -> None:
    facts, flaws = decoded(*items)
    assert len(facts) + flaws[Malformed.EMPTY_ID] == len(items)
    named = [item for item in items if item.id]
    odd = [i for i in named if i.state not in range(2 if isinstance(i, pb.PodSandbox) else 4)]
    assert flaws[Malformed.UNKNOWN_STATE] == len(odd)
    bare = [item for item in named if not item.HasField("metadata")]
    assert flaws[Malformed.NO_METADATA] == len(bare)


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
    raw = lists(container(metadata=name), container(id=""))[1]
    annotation = b"\x4a\x03abc"
    other = lists(container(metadata=name))[1]
    entry = next(each for each in entries(other) if each) + annotation
    other = field(1, entry)
    decoder = ListDecoder()
    once = Counter({Malformed.TOO_LONG: 1, Malformed.EMPTY_ID: 1})
    for message in (raw, raw, other, other):
        decoder.items([], [message])
        assert decoder.flaws == once
    decoder.items([], [lists(container(metadata=name, state=9))[1]])
    assert decoder.flaws == once + Counter({Malformed.TOO_LONG: 1, Malformed.UNKNOWN_STATE: 1})
    decoder.items([], [])
    decoder.items([], [other])
    assert decoder.flaws[Malformed.TOO_LONG] == once[Malformed.TOO_LONG] + 2
    # So it is if lists failed: nothing of them is remembered.
    with pytest.raises(UndecodableError):
        decoder.items([], [other, GARBAGE])
    decoder.items([], [other])
    assert decoder.flaws[Malformed.TOO_LONG] == once[Malformed.TOO_LONG] + 3


def test_an_entry_of_the_same_bytes_is_the_same_item() -> None:
    pods = [sandbox(id=f"p{number}") for number in range(4)]
    rest = [container(id=f"c{number}", pod_sandbox_id=f"p{number}") for number in range(4)]
    decoder = ListDecoder()
    before = {item.id: item for item in decoder.items(*[[raw] for raw in lists(*pods, *rest)])}
    pods[2] = sandbox(id="p2", state=pb.SANDBOX_NOTREADY)
    pods[3] = sandbox(id="p3", metadata=pb.PodSandboxMetadata(name="renamed"))
    rest[1] = container(id="c1", pod_sandbox_id="p1", state=pb.CONTAINER_EXITED)
    raws = lists(*reversed(pods), *reversed(rest))
    after = decoder.items(*[[raw] for raw in raws])
    assert {item.id for item in after if item is before[item.id]} == {"p0", "p1", "c0", "c2"}


def test_lists_that_could_not_be_decoded_are_not_remembered() -> None:
    """Half of them may be of one relist, and half of another."""
    decoder = ListDecoder()
    first, garbled = lists(container(pod_sandbox_id="p1")), lists(sandbox())[0]
    assert [item.pod for item in decoder.items([first[0]], [first[1]])] == [None]
    with pytest.raises(UndecodableError):
        decoder.items([garbled], [GARBAGE])
    again = lists(sandbox(), container())
    assert [item.pod for item in decoder.items([again[0]], [again[1]])] == [SHOP, SHOP]


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
