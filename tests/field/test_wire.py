"""Messages as real runtimes have sent them."""

import time
from collections import Counter

import grpc
import pytest

from conformance.cri_client import Fields, encoded
from crifilter.calls import ALLOWED, EVENTS, trimmed, trimmed_answer, trimmed_event
from exporter.conditions.sentences import GARBLED, REFUSED
from exporter.cri import runtime_v1_pb2 as pb
from exporter.cri.client import SERVICE
from exporter.cri.decode import Decoder
from exporter.cri.lists import ListDecoder
from exporter.model.events import EventType, Pod
from exporter.model.labels import Malformed
from exporter.web.status_page import headline_of
from simulator.service import Method
from testbed.containerd import Containerd
from testbed.waiting import until
from tests.support.commands import filtering
from tests.support.cri_messages import NOW_NS, container, event, heard, lists
from tests.support.facts import CREATED, EXITED, RUNNING, Play, beat, relist, started, up
from tests.support.observer import observing, patiently
from tests.support.runtimes import ScriptedServer, running_container, unannounced
from tests.support.stage import Stage

FLAWS = "shadow_pleg_malformed_messages_total"
# No UTF-8; containerd up to 2.1 and CRI-O up to 1.33 send such bytes as they are.
CUT = b"c\x82\xff\xfe"
RUNS = pb.ContainerStatus(id="c1", state=pb.CONTAINER_RUNNING)
SHOWN = "c\\x82\\xff\\xfe"


@pytest.mark.quick
def test_a_text_that_is_no_utf_8_costs_that_text_and_not_the_list() -> None:
    """https://github.com/kubernetes/kubernetes/issues/139132

    Strict checks of UTF-8 came with cri-api 0.34; older servers take and return any bytes, so one
    container of such a name is in each list.
    """
    pod: Fields = {1: {1: "p1", 2: {1: CUT, 2: "uid-1", 3: "shop"}, 7: b"kata\xff"}}
    app: Fields = {1: {1: "c1", 2: "p1", 3: {1: CUT}, 6: 1}}
    other: Fields = {1: {1: "c2", 2: "p1", 3: {1: "app"}, 6: 1}}
    decoder = ListDecoder()
    for _ in range(3):
        items = decoder.items([encoded(pod)], [encoded(app) + encoded(other)])
        assert [(item.id, item.name) for item in items] == [
            ("p1", ""),
            ("c1", SHOWN),
            ("c2", "app"),
        ]
        assert {item.pod for item in items} == {Pod("shop", SHOWN, "uid-1")}
        assert items[0].elsewhere
        # So it can be told who has it.
        assert list(decoder.garbled) == ["p1", "c1"]
    # Once, and not with each list.
    assert decoder.flaws == Counter({Malformed.NOT_UTF8: 3})
    names = f"shop/{SHOWN}, shop/{SHOWN}/{SHOWN}"
    said = headline_of(Stage(garbled=decoder.garbled).judge.at(0.0))
    assert any(f"{names} has {GARBLED}: {REFUSED}." in each.sentences for each in said)
    decoder.items([encoded(pod)], [encoded(other)])
    assert list(decoder.garbled) == ["p1"]


@pytest.mark.quick
def test_a_text_that_is_no_utf_8_costs_that_text_and_not_the_event() -> None:
    """https://github.com/kubernetes/kubernetes/issues/136323

    A text was cut in the middle of a letter. In an event that is a name, or the reason of an exit;
    without the event, the exit would be called lost.
    """
    status: Fields = {1: "c1", 2: {1: CUT}, 3: 2, 5: NOW_NS, 6: NOW_NS, 7: 3, 10: b"Err\xc3"}
    raw = encoded(
        {1: "c1", 2: 2, 3: NOW_NS, 4: {1: "p1", 2: {1: CUT, 2: "uid-1", 3: "shop"}}, 5: status}
    )
    fact, flaws = heard(raw)
    assert fact is not None
    assert (fact.pod, fact.exit_code, fact.reason) == (Pod("shop", SHOWN, "uid-1"), 3, "Err\\xc3")
    assert fact.flawed is None
    assert flaws == Counter({Malformed.NOT_UTF8: 2})
    # Nor do they end what `filter` passes on.
    assert heard(trimmed_event(raw)) == (fact, flaws)


@pytest.mark.quick
async def test_a_filter_passes_such_texts_on() -> None:
    """https://github.com/kubernetes/kubernetes/issues/139132

    Go's protobuf refuses to marshal them since cri-api 0.34; here they are what they were.
    """
    app = encoded({1: {1: "c1", 2: "p1", 3: {1: CUT}, 6: 1}})
    kind = ALLOWED[SERVICE + "ListContainers"]
    assert await trimmed_answer(kind, app) == app
    version = encoded({1: "0.1.0", 2: b"containerd\xff", 3: "v2.1.9"})
    assert trimmed(pb.VersionResponse, version) == version
    assert ALLOWED[EVENTS].trim(b"") == b""


@pytest.mark.quick
def test_what_came_and_could_not_be_read_is_no_loss_of_the_runtime() -> None:
    """https://github.com/kubernetes/kubernetes/issues/139132

    The list shows an exit, younger events follow, and the STOPPED itself was not fit to be read.
    """
    raw = event(container_event_type=EventType.STOPPED)[:-1]
    unread = Decoder().event(raw, 3.0, NOW_NS, stream=1)
    assert not isinstance(unread, tuple)
    assert unread is not None
    play = Play(up(), beat(0.5), relist(1, c1=CREATED, c2=RUNNING), started("c1", 2))
    play.then(relist(2.5, c1=RUNNING, c2=RUNNING), unread, relist(4, c1=EXITED, c2=EXITED))
    play.then(beat(20), relist(21, c1=EXITED, c2=EXITED))
    # The other one's was not announced at all.
    assert [each for each in play.judged if "missed" in each] == [
        "c1 ContainerDied missed discarded",
        "c2 ContainerDied missed silent",
    ]


@pytest.mark.quick
def test_ids_of_any_runtime_are_ids() -> None:
    """https://github.com/falcosecurity/libs/issues/1775

    Some have 12 letters, or letters beyond those of hexadecimal digits.
    """
    ids = ["21sa65q9wwiq", "my_ctr", "a.b-c", "f" * 64]
    raws = [[raw] for raw in lists(*(container(id=each) for each in ids))]
    decoder = ListDecoder()
    assert [item.id for item in decoder.items(*raws)] == ids
    heard_of = [heard(event(container_id=each))[0] for each in ids]
    assert [each.container_id for each in heard_of if each] == ids
    assert decoder.flaws == Counter()


@pytest.mark.quick
def test_a_field_that_a_later_runtime_adds_changes_nothing() -> None:
    """https://github.com/containerd/containerd/issues/10740

    A `timestamp` in the status of a sandbox changed what kubelets made of it. Here what is not
    known is skipped, and so are types of events that later runtimes add.
    """
    status: Fields = {1: "p1", 2: {1: "cart", 2: "uid-1", 3: "shop"}, 10: NOW_NS, 11: {1: 1}}
    later: Fields = {1: "c1", 2: 1, 3: NOW_NS, 4: status, 5: {1: "c1", 3: 1}, 99: "new"}
    assert heard(encoded(later)) == heard(event(containers_statuses=[RUNS]))
    decoder = Decoder()
    assert decoder.event(encoded({**later, 2: 4}), 1.0, NOW_NS, stream=1) is None
    assert decoder.flaws == Counter({Malformed.UNKNOWN_EVENT: 1})


@pytest.mark.quick
async def test_an_event_larger_than_grpcs_default_is_read(server: ScriptedServer) -> None:
    """https://github.com/kubernetes/kubernetes/issues/63858

    4 MiB, gRPC's default, broke clients on full nodes. An event holds the statuses of all
    containers of its pod, with their annotations: 9.3 MB were seen, and kubelets take 16 MiB.
    """
    note = {1: {1: "note", 2: "a" * 250_000}}
    statuses: list[str | Fields] = [{1: f"c{n}", 3: 1, 13: note} for n in range(37)]
    async with observing(server.socket) as observer:
        await observer.connected()
        raw = encoded({1: "c1", 2: 1, 3: time.time_ns(), 4: {1: "p1"}, 5: statuses})
        assert len(raw) > 9_200_000
        server.announce_raw(raw)
        await until(lambda: observer.node.received.total() == 1, "it is read")
        assert observer.node.connections == 1


@pytest.mark.quick
@pytest.mark.virtual_time
async def test_a_server_that_refuses_such_texts_is_quoted(server: ScriptedServer) -> None:
    """https://github.com/kubernetes/kubernetes/issues/139132

    From cri-api 0.34 on (containerd 2.2, CRI-O 1.34) a server refuses to send one, which ends every
    client's stream at each event of that pod. What was lost meanwhile is not the stream's silence.
    """
    why = "grpc: error while marshaling: string field contains invalid UTF-8"
    async with observing(server.socket) as observer:
        await observer.connected()
        server.faults.refuse_next(
            3, Method.GET_CONTAINER_EVENTS, code=grpc.StatusCode.INTERNAL, details=why
        )
        server.disconnect()
        await patiently(lambda: why in observer.node.stream.note, "it is quoted")
        with unannounced(server):
            running_container(server)
        await observer.connected(2)
        await observer.judged()
        assert observer.node.stream.note == ""
        assert not any("silent" in each for each in observer.losses)
        assert any("stream_down" in each for each in observer.losses)


@pytest.mark.parametrize("filtered", [False, True], ids=["straight", "filtered"])
async def test_a_real_containerd_with_one_container_of_such_a_name_is_watched(
    containerd: Containerd, filtered: bool
) -> None:
    """https://github.com/kubernetes/kubernetes/issues/139132

    Every list has it; the relist goes on, its life is confirmed, and it is named.
    """
    async with filtering(containerd.socket) as it, containerd.pods() as cri:
        socket = it.socket if filtered else containerd.socket
        async with observing(socket, relist_period=0.2) as exporter:
            await exporter.relisted()
            sandbox = await cri.run_pod("web")
            app = await cri.create(sandbox, CUT)
            await exporter.relisted()
            await cri.start(app)
            await exporter.relisted()
            await exporter.relisted()
            named = dict(exporter.node.garbled)
            await cri.stop(app)
            seen = await exporter.settled()
            await cri.remove(app)
            await exporter.settled()
            after = dict(exporter.node.garbled)
    assert {item.name for item in named.values()} == {SHOWN}
    assert list(named) == [app]
    assert after == {}
    assert seen.counts("shadow_pleg_relist_errors_total") == {}
    assert seen.missed == {}
    # Once, though each of some twenty lists had it; a status in an event names no container here.
    assert seen.counts(FLAWS) == {("not_utf8",): 1}
