"""What a runtime sends: lists, events, other answers, and HTTP/2 itself."""

from collections.abc import Awaitable, Callable, Iterator
from typing import Any, Final

from google.protobuf.message import DecodeError, Message

from exporter.cri import limits
from exporter.cri import runtime_v1_pb2 as pb
from exporter.cri.allowed import trimmed, trimmed_event
from exporter.cri.client import CriClient
from exporter.cri.decode import Decoder
from exporter.cri.lists import ListDecoder
from exporter.errors import CriError, TooLargeError, UndecodableError
from exporter.model.events import Listed, ObjectKind
from exporter.model.labels import Malformed
from testbed import messages
from tests.fuzz.judging import Target, completed, only
from tests.fuzz.peers import runtime_peer
from tests.support.cri_messages import NOW_NS, container, event, lists, sandbox
from tests.support.hostile_runtime import framed


def _pair(first: bytes, second: bytes) -> bytes:
    return len(first).to_bytes(2, "big") + first + second


def _halves(data: bytes) -> tuple[bytes, bytes]:
    """Both parts of what `_pair` made."""
    end = 2 + int.from_bytes(data[:2], "big")
    return data[2:end], data[end:]


def _parsed(kind: type[Message], raw: bytes) -> Any:  # noqa: ANN401 - of that kind
    try:
        return kind.FromString(raw)
    except DecodeError:
        return None


def _listed(sandboxes: bytes, containers: bytes) -> list[Listed] | None:
    """The items; None if these are no lists."""
    decoder = ListDecoder()
    try:
        items = decoder.items([sandboxes], [containers])
    except TooLargeError:
        return None
    except UndecodableError:
        assert decoder.flaws[Malformed.UNDECODABLE] == 1
        return None
    for item in items:
        assert 0 < len(item.id) <= limits.TEXT
        assert max(map(len, (item.name, item.sandbox_id, *(item.pod or ())))) <= limits.TEXT
        assert item.kind is ObjectKind.CONTAINER or item.id == item.sandbox_id
    # Once more, with what it kept of them.
    assert decoder.items([sandboxes], [containers]) == items
    return items


def _cri_lists(data: bytes) -> bool:
    """Lists with and without a `filter` between are the same, and as protobuf reads them."""
    sandboxes, containers = _halves(data)
    found = _listed(sandboxes, containers)
    boxes = _parsed(pb.ListPodSandboxResponse, sandboxes)
    rest = _parsed(pb.ListContainersResponse, containers)
    if boxes is None or rest is None:
        return False
    items = _listed(
        trimmed(pb.ListPodSandboxResponse, sandboxes),
        trimmed(pb.ListContainersResponse, containers),
    )
    assert items is not None
    ids = [each.id for each in (*boxes.items, *rest.containers)]
    assert [item.id for item in items] == [each for each in ids if 0 < len(each) <= limits.TEXT]
    assert found is None or found == items
    return found is not None


def _list_seeds() -> Iterator[bytes]:
    world = messages.World(2, 2)
    yield _pair(world.sandboxes(), world.containers())
    yield _pair(*lists(sandbox(), sandbox(id="", state=7), container(), container(metadata=None)))
    yield b""


def _cri_event(data: bytes) -> bool:
    """An event is a fact, or at least one flaw; a `filter` between changes neither."""
    decoder = Decoder()
    heard = decoder.event(data, 12.5, NOW_NS, 3)
    assert heard is not None or decoder.flaws
    if heard is not None:
        said, exited = heard
        assert 0 < len(said.container_id) <= limits.TEXT
        assert len(said.sandbox_id) <= limits.TEXT
        assert len(exited) <= limits.EVENT_FIELDS or len(data) <= limits.UNCOUNTED_BYTES
        assert Decoder().event(trimmed_event(data), 12.5, NOW_NS, 3) == heard
    return heard is not None


def _event_seeds() -> Iterator[bytes]:
    world = messages.World(1, 1)
    yield event()
    yield event(container_id="", container_event_type=9, created_at=-1, pod_sandbox_status=None)
    exited = pb.ContainerStatus(id="c2", state=pb.CONTAINER_EXITED, started_at=1)
    yield event(containers_statuses=[exited, pb.ContainerStatus(id=next(iter(world.ids)))])


_Call = Callable[[CriClient], Awaitable[object]]


async def _read_events(client: CriClient) -> None:
    await client.subscribe(1, _PATIENCE).read(_cri_event)


# A unary call that gets two answers waits for its deadline, even if the peer has left.
_PATIENCE: Final = 0.5
_CALLS: Final[tuple[_Call, ...]] = (
    lambda client: client.version(_PATIENCE),
    lambda client: client.lists(_PATIENCE),
    lambda client: client.audit("c1", _PATIENCE),
    _read_events,
)
_BEGINS: Final = 128


def _http2(data: bytes) -> bool:
    """The first byte chooses the call, and who begins; the others are what the peer sends."""

    async def called() -> bool:
        async with runtime_peer(data[1:], greets=data[0] < _BEGINS) as socket:
            client = CriClient(socket)
            try:
                with only(CriError):
                    await _CALLS[data[0] % len(_CALLS)](client)
                    return True
            finally:
                await client.close()
        return False

    return bool(data) and completed(called())


_OPENING: Final = b"\x88\x0f\x10\x10application/grpc"


def _frame(kind: int, flags: int, payload: bytes, stream: int = 1) -> bytes:
    return (
        len(payload).to_bytes(3, "big") + bytes((kind, flags)) + stream.to_bytes(4, "big") + payload
    )


def _answer(*messages_: bytes, status: bytes = b"0") -> bytes:
    """What a gRPC server sends in answer to the first call on a connection."""
    trailers = b"\0\x0bgrpc-status" + bytes([len(status)]) + status
    data = b"".join(_frame(0, 0, framed(each)) for each in messages_)
    return _frame(1, 4, _OPENING) + data + _frame(1, 5, trailers)


def _http2_seeds() -> Iterator[bytes]:
    status = pb.ContainerStatusResponse(status=pb.ContainerStatus(id="c1", started_at=1))
    world = messages.World(1, 1)
    answers = (messages.version(), world.sandboxes(), status.SerializeToString(), event())
    for call, message in enumerate(answers):
        yield bytes([call]) + _answer(*[message] * (1 + call % 2))
        yield bytes([call]) + _answer(status=b"12")
        # GOAWAY, a reset, a PING, and settings without a call.
        yield bytes([call]) + _frame(7, 0, bytes(8), 0)
        yield bytes([call]) + _frame(1, 4, _OPENING) + _frame(3, 0, b"\0\0\0\x0b")
        yield bytes([call]) + _answer(b"\xff\xff") + _frame(6, 0, bytes(8), 0)
    yield bytes([_BEGINS]) + _frame(4, 0, b"\0\4\0\0\xff\xff", 0)
    yield bytes([_BEGINS]) + b"HTTP/1.1 400 Bad Request\r\n\r\n"


TARGETS: Final = {
    "cri-lists": Target(_cri_lists, _list_seeds),
    "cri-event": Target(_cri_event, _event_seeds),
    "http2": Target(_http2, _http2_seeds),
}
