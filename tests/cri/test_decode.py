"""Messages to facts: what a runtime sends is never an exception, every flaw is counted once."""

from __future__ import annotations

from collections import Counter

import pytest

from exporter.cri import runtime_v1_pb2 as pb
from exporter.cri.decode import Decoder, Malformed
from exporter.errors import CriError, UndecodableError
from exporter.pleg.events import Announcement, EventType, Listed, ListedState, ObjectKind
from tests.support.cri_messages import (
    GARBAGE,
    METADATA,
    NOW_NS,
    SECOND_NS,
    SHOP,
    container,
    decoded,
    event,
    heard,
    lists,
    sandbox,
)

# --- lists --------------------------------------------------------------------


def test_good_lists_become_exact_facts() -> None:
    """Sandboxes first, each container with its sandbox's pod, nothing to complain of."""
    items, flaws = decoded(container(), sandbox())
    assert items == (
        Listed("p1", ObjectKind.SANDBOX, ListedState.RUNNING, "p1", "", SHOP),
        Listed("c1", ObjectKind.CONTAINER, ListedState.RUNNING, "p1", "app", SHOP),
    )
    assert flaws == Counter()


def test_empty_lists_are_lists() -> None:
    """A node without pods is no error; protobuf writes it as no bytes at all."""
    assert list(Decoder().lists([b""], [b""])) == []


def test_streamed_lists_may_come_without_any_message() -> None:
    """So ends a streamed list of nothing."""
    assert list(Decoder().lists([], [])) == []


def test_a_list_in_many_messages_is_one_list() -> None:
    """A container finds its pod, whichever message that came in."""
    pods = [lists(sandbox(id=each))[0] for each in ("p1", "p2")]
    rest = [lists(container(id=f"c-{each}", pod_sandbox_id=each))[1] for each in ("p2", "p1")]
    items = {item.id: item for item in Decoder().lists(pods, rest)}
    assert list(items) == ["p1", "p2", "c-p2", "c-p1"]
    assert items["c-p1"].pod == items["p1"].pod is not None


@pytest.mark.parametrize(
    ("number", "state", "flaws"),
    [
        (pb.CONTAINER_CREATED, ListedState.CREATED, 0),
        (pb.CONTAINER_RUNNING, ListedState.RUNNING, 0),
        (pb.CONTAINER_EXITED, ListedState.EXITED, 0),
        (pb.CONTAINER_UNKNOWN, ListedState.UNKNOWN, 0),
        (7, ListedState.UNKNOWN, 1),
        (-1, ListedState.UNKNOWN, 1),
    ],
)
def test_a_containers_state_is_kept_or_becomes_unknown(
    number: int, state: ListedState, flaws: int
) -> None:
    """A state of tomorrow is a state of which we know nothing, and is counted."""
    items, found = decoded(sandbox(), container(state=number))
    assert (items[1].state, found[Malformed.UNKNOWN_STATE]) == (state, flaws)
    assert found.total() == flaws


@pytest.mark.parametrize(
    ("number", "state", "flaws"),
    [
        (pb.SANDBOX_READY, ListedState.RUNNING, 0),
        (pb.SANDBOX_NOTREADY, ListedState.EXITED, 0),
        (7, ListedState.UNKNOWN, 1),
    ],
)
def test_a_sandboxs_state_is_kept_or_becomes_unknown(
    number: int, state: ListedState, flaws: int
) -> None:
    """As a container's."""
    items, found = decoded(sandbox(state=number))
    assert (items[0].state, found[Malformed.UNKNOWN_STATE]) == (state, flaws)
    assert found.total() == flaws


def test_what_has_no_id_is_left_out_and_counted() -> None:
    """There is nothing to pair it with; its neighbours stay."""
    items, flaws = decoded(sandbox(id=""), sandbox(), container(id=""), container())
    assert [item.id for item in items] == ["p1", "c1"]
    assert flaws == Counter({Malformed.EMPTY_ID: 2})


def test_a_missing_metadata_costs_the_name_and_not_the_container() -> None:
    """Who it is may be unknown; that it runs is not."""
    items, flaws = decoded(sandbox(metadata=None), container(metadata=None))
    assert items == (
        Listed("p1", ObjectKind.SANDBOX, ListedState.RUNNING, "p1", "", None),
        Listed("c1", ObjectKind.CONTAINER, ListedState.RUNNING, "p1", "", None),
    )
    assert flaws == Counter({Malformed.NO_METADATA: 2})


def test_a_container_whose_sandbox_is_not_listed_is_kept() -> None:
    """The lists are not atomic: the sandbox may have gone between them."""
    items, flaws = decoded(container(pod_sandbox_id="gone"))
    assert items == (Listed("c1", ObjectKind.CONTAINER, ListedState.RUNNING, "gone", "app", None),)
    assert flaws == Counter()


@pytest.mark.parametrize("created_at", [0, -1, 2**62])
def test_a_lists_times_are_not_looked_at(created_at: int) -> None:
    """Only events' times matter here."""
    items, flaws = decoded(sandbox(created_at=created_at), container(created_at=created_at))
    assert (len(items), flaws) == (2, Counter())


@pytest.mark.parametrize(
    "raws", [(GARBAGE, b""), (b"", GARBAGE), (GARBAGE, GARBAGE)], ids=["first", "second", "both"]
)
def test_a_list_that_is_none_is_one_flaw_and_a_failed_relist(raws: tuple[bytes, bytes]) -> None:
    """No part of it is believed: half a list would prove removals that never were."""
    decoder = Decoder()
    with pytest.raises(UndecodableError, match="sent a list that is no protobuf") as caught:
        list(decoder.lists(raws[:1], raws[1:]))
    assert isinstance(caught.value, CriError)
    assert caught.value.reason == "internal"
    assert decoder.flaws == Counter({Malformed.UNDECODABLE: 1})


def test_a_text_that_is_no_utf_8_makes_the_list_undecodable() -> None:
    """Protobuf demands UTF-8; a runtime that cuts names in the middle may not give it."""
    raw = pb.ListPodSandboxResponse(items=[sandbox(id="Zebra")]).SerializeToString()
    with pytest.raises(UndecodableError):
        list(Decoder().lists([raw.replace(b"Zebra", b"Z\xffbra")], []))


def test_twenty_megabytes_of_lists_are_decoded_to_the_last_item() -> None:
    """Labels and annotations, which make the bulk, are skipped; no item is."""
    # Field 9 of a Container is its annotations, which our description leaves out.
    padding = b"\x4a\xa8\x46" + b"x" * 9000
    one = container().SerializeToString() + padding
    head = b"\x0a" + _varint(len(one))
    raw = (head + one) * 2300
    assert len(raw) > 20_000_000
    decoder = Decoder()
    items = list(decoder.lists([], [raw]))
    assert len(items) == 2300
    assert set(items) == {Listed("c1", ObjectKind.CONTAINER, ListedState.RUNNING, "p1", "app")}
    assert decoder.flaws == Counter()


def _varint(number: int) -> bytes:
    out = b""
    while number > 127:
        out, number = out + bytes([number & 127 | 128]), number >> 7
    return out + bytes([number])


# --- events -------------------------------------------------------------------


def test_a_good_event_becomes_an_exact_fact() -> None:
    """With both of our clocks, and the subscription that brought it."""
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


@pytest.mark.parametrize("number", list(EventType))
def test_every_type_of_event_is_known(number: EventType) -> None:
    """CREATED, STARTED, STOPPED and DELETED, by the numbers on the wire."""
    fact, flaws = heard(event(container_event_type=int(number)))
    assert fact is not None
    assert (fact.type, flaws) == (number, Counter())


@pytest.mark.parametrize("number", [4, 9, -1, 2**31 - 1])
def test_a_type_of_tomorrow_is_counted_and_left_out(number: int) -> None:
    """We cannot know what it announces."""
    raw = event(container_event_type=number)
    assert heard(raw) == (None, Counter({Malformed.UNKNOWN_EVENT: 1}))


def test_an_event_of_nobody_is_counted_and_left_out() -> None:
    """An empty id names no container."""
    assert heard(event(container_id="")) == (None, Counter({Malformed.EMPTY_ID: 1}))


def test_an_event_about_the_sandbox_itself_is_known_as_such() -> None:
    """Its id is its own sandbox's."""
    fact, flaws = heard(event(container_id="p1"))
    assert fact is not None
    assert (fact.kind, fact.sandbox_id, flaws) == (ObjectKind.SANDBOX, "p1", Counter())


def test_an_event_without_a_status_is_taken_and_leaves_the_kind_open() -> None:
    """Containerd 1.7 sends a sandbox's DELETED like that: no flaw, just less to know."""
    fact, flaws = heard(event(pod_sandbox_status=None))
    assert fact is not None
    assert (fact.kind, fact.sandbox_id, fact.pod, flaws) == (None, "", None, Counter())


def test_a_status_without_an_id_leaves_the_kind_open() -> None:
    """It does not say whether the event is the sandbox's own."""
    fact, flaws = heard(event(pod_sandbox_status=pb.PodSandboxStatus(metadata=METADATA)))
    assert fact is not None
    assert (fact.kind, fact.sandbox_id, fact.pod, flaws) == (None, "", SHOP, Counter())


def test_a_status_without_metadata_is_counted() -> None:
    """The event counts; whose pod it is stays unknown."""
    fact, flaws = heard(event(pod_sandbox_status=pb.PodSandboxStatus(id="p1")))
    assert fact is not None
    assert (fact.kind, fact.pod) == (ObjectKind.CONTAINER, None)
    assert flaws == Counter({Malformed.NO_METADATA: 1})


@pytest.mark.parametrize(
    ("created_at", "kept"),
    [
        (1, True),
        (NOW_NS, True),
        (NOW_NS + 300 * SECOND_NS, True),
        (NOW_NS + 300 * SECOND_NS + 1, False),
        (2**63 - 1, False),
        (0, False),
        (-1, False),
        (-(2**63), False),
    ],
)
def test_a_time_that_cannot_be_is_no_time(created_at: int, kept: bool) -> None:  # noqa: FBT001 -- a column of the table
    """Zero, before the epoch, or further ahead than a clock is stepped; the event itself counts."""
    fact, flaws = heard(event(created_at=created_at))
    assert fact is not None
    assert fact.created_at_ns == (created_at if kept else 0)
    assert flaws == (Counter() if kept else Counter({Malformed.BAD_TIME: 1}))


def test_garbage_on_the_stream_is_counted_and_left_out() -> None:
    """The next event is read all the same."""
    assert heard(GARBAGE) == (None, Counter({Malformed.UNDECODABLE: 1}))


def test_flaws_are_counted_where_the_decoder_was_told_to() -> None:
    """The node's own counter, which the metrics read."""
    flaws: Counter[Malformed] = Counter({Malformed.EMPTY_ID: 5})
    decoder = Decoder(flaws)
    decoder.announcement(event(container_id=""), 0.0, NOW_NS, stream=0)
    assert flaws[Malformed.EMPTY_ID] == 6
