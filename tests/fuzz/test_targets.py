"""Every parser of foreign bytes, by name: what runtimes, files and servers may hold or send.

They raise only what the code around a parser expects, in bounded time and memory.
"""

import asyncio
import atexit
import contextlib
import functools
import io
import json
import re
import subprocess
import sys
import time
from collections.abc import Awaitable, Callable, Coroutine, Iterable, Iterator
from dataclasses import dataclass
from importlib.util import find_spec
from itertools import islice
from pathlib import Path
from tempfile import mkdtemp
from typing import Any, Final, TypeVar

import aiohttp
import pytest
from google.protobuf.message import DecodeError, Message

from crifilter.calls import trimmed, trimmed_event
from exporter.commands.options import AnswerFormat
from exporter.cri import limits
from exporter.cri import runtime_v1_pb2 as pb
from exporter.cri.client import CriClient
from exporter.cri.decode import Decoder
from exporter.cri.lists import ListDecoder
from exporter.errors import (
    ConfigError,
    CriError,
    KubeletError,
    PrometheusError,
    TooLargeError,
    UndecodableError,
)
from exporter.kubelet.pods import Pods
from exporter.model.events import Listed, ObjectKind
from exporter.model.facts import BeliefsShown, Believed
from exporter.model.labels import Malformed
from exporter.node.state import Node
from exporter.recording.recorder import member

# Imported late by the policy: here, so that a search sees into them.
from exporter.web.access import web_config  # noqa: F401
from exporter.web.access.policy import WebPolicy
from fleet.prometheus import Prometheus
from replay.answer import ReplayOptions, replay
from replay.reader import members
from testbed import messages
from testbed.http2 import framed
from tests import ROOT
from tests.support.cri_messages import NOW_NS, container, event, lists, sandbox
from tests.support.peers import http_peer, runtime_peer
from tests.support.report_fleets import recorded_answers
from tests.support.tape import STORY, in_blocks, recording_of
from tests.support.web import MTLS, TLS, WebFiles
from tests.traces.replaying import rows

_T = TypeVar("_T")
# Of CPU, for an input of some kilobytes; honest ones take milliseconds.
MOST_SECONDS: Final = 5.0
# Of an error, which becomes one line of a log.
_MOST_CHARACTERS: Final = 4096


@dataclass(frozen=True, slots=True)
class Target:
    """A parser: `call` gives it an input and says if that was accepted."""

    call: Callable[[bytes], bool]
    seeds: Callable[[], Iterable[bytes]]
    found: tuple[bytes, ...] = ()


def tried(target: Target, data: bytes) -> bool:
    """Whether the input was accepted; raises if it does harm, or takes too long."""
    began = time.thread_time()
    accepted = target.call(data)
    took = time.thread_time() - began
    assert took < MOST_SECONDS, f"{took:.1f} s of CPU for {len(data)} bytes"
    return accepted


@contextlib.contextmanager
def only(*allowed: type[Exception]) -> Iterator[None]:
    """Nothing else may be raised; and what is raised is short enough for a log."""
    try:
        yield
    except allowed as error:
        assert len(str(error)) < _MOST_CHARACTERS  # noqa: PT017 - it need not be raised


@functools.cache
def _runner() -> asyncio.Runner:
    runner = asyncio.Runner()
    atexit.register(runner.close)
    return runner


def completed(coroutine: Coroutine[object, object, _T]) -> _T:
    """Its result; all run in one loop, because gRPC keeps the first one."""
    return _runner().run(coroutine)


@functools.cache
def folder() -> Path:
    return Path(mkdtemp())


def require_printable(text: str) -> None:
    odd = {char for char in text if not (char.isprintable() or char == "\n")}
    assert not odd, odd


def _pair(first: bytes, second: bytes) -> bytes:
    return len(first).to_bytes(2, "big") + first + second


def _halves(data: bytes) -> tuple[bytes, bytes]:
    end = 2 + int.from_bytes(data[:2], "big")
    return data[2:end], data[end:]


def _parsed(kind: type[Message], raw: bytes) -> Any:
    try:
        return kind.FromString(raw)
    except DecodeError:
        return None


def _listed(sandboxes: bytes, containers: bytes) -> list[Listed] | None:
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
    usable = [each for each in ids if 0 < len(each) <= limits.TEXT and each.isascii()]
    assert [item.id for item in items] == usable
    assert found is None or found == items
    return found is not None


def _list_seeds() -> Iterator[bytes]:
    world = messages.World(2, 2)
    yield _pair(world.sandboxes(), world.containers())
    yield _pair(*lists(sandbox(), sandbox(id="", state=7), container(), container(metadata=None)))
    garbled, none = lists(sandbox(id="it is ASCII"))
    yield _pair(garbled.replace(b"is", b"\xaa\xbb"), none)
    yield b""


def _cri_event(data: bytes) -> bool:
    """An event is a fact, or at least one flaw; a `filter` between changes neither."""
    decoder = Decoder()
    heard = decoder.event(data, 12.5, NOW_NS, 3)
    assert heard is not None or decoder.flaws
    if heard is not None:
        assert Decoder().event(trimmed_event(data), 12.5, NOW_NS, 3) == heard
    if isinstance(heard, tuple):
        said, exited = heard
        assert 0 < len(said.container_id) <= limits.TEXT
        assert len(said.sandbox_id) <= limits.TEXT
        assert len(exited) <= limits.EVENT_FIELDS or len(data) <= limits.UNCOUNTED_BYTES
    return isinstance(heard, tuple)


def _event_seeds() -> Iterator[bytes]:
    yield event()
    yield event(container_id="", container_event_type=9, created_at=-1, pod_sandbox_status=None)
    exited = pb.ContainerStatus(id="c2", state=pb.CONTAINER_EXITED, started_at=1)
    yield event(containers_statuses=[exited, pb.ContainerStatus(id="c3")])


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
# A GOAWAY with one of the error codes from 13 on: gRPC ends the process, see pyproject.toml.
_ENDS_GRPC: Final = re.compile(rb"\x07.{9}(?!\0\0\0[\0-\x0c])", re.DOTALL)


def _http2(data: bytes) -> bool:
    """The first byte chooses the call, and who begins; the others are what the peer sends."""
    if _ENDS_GRPC.search(data):
        return False

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
    trailers = b"\0\x0bgrpc-status" + bytes([len(status)]) + status
    data = b"".join(_frame(0, 0, framed(each)) for each in messages_)
    return _frame(1, 4, _OPENING) + data + _frame(1, 5, trailers)


def _http2_seeds() -> Iterator[bytes]:
    status = pb.ContainerStatusResponse(status=pb.ContainerStatus(id="c1", started_at=1))
    world = messages.World(1, 1)
    answers = (messages.introduction(), world.sandboxes(), status.SerializeToString(), event())
    for call, message in enumerate(answers):
        yield bytes([call]) + _answer(*[message] * (1 + call % 2))
        yield bytes([call]) + _answer(status=b"12")
        # GOAWAY, a reset, a PING, and settings without a call.
        yield bytes([call]) + _frame(7, 0, bytes(8), 0)
        yield bytes([call]) + _frame(1, 4, _OPENING) + _frame(3, 0, b"\0\0\0\x0b")
        yield bytes([call]) + _answer(b"\xff\xff") + _frame(6, 0, bytes(8), 0)
    yield bytes([_BEGINS]) + _frame(4, 0, b"\0\4\0\0\xff\xff", 0)
    yield bytes([_BEGINS]) + b"HTTP/1.1 400 Bad Request\r\n\r\n"


def _recording(data: bytes) -> bool:
    return _replayed(data) | _replayed(member(data))


def _replayed(content: bytes) -> bool:
    path = folder() / "recording.gz"
    path.write_bytes(content)
    # Templates take longer than all else.
    form = AnswerFormat.JSON if len(content) % 8 else AnswerFormat.TEXT
    complete = False
    with only(ConfigError), contextlib.redirect_stdout(io.StringIO()) as out:
        complete = replay(path, ReplayOptions(output_format=form))
        replay(path, ReplayOptions(explain="c1", output_format=form))
    require_printable(out.getvalue())
    return complete


def _recording_seeds() -> Iterator[bytes]:
    data, _ = recording_of(folder() / "seed.gz", *STORY)
    yield data
    yield b"".join(in_blocks(data))
    yield b"".join(members(io.BytesIO(data)))


def _web_config(data: bytes) -> bool:
    files = _web_files()
    files.config.write_bytes(data)
    with contextlib.suppress(ConfigError):
        WebPolicy(str(files.config), Node()).load()
        return True
    return False


@functools.cache
def _web_files() -> WebFiles:
    return WebFiles(folder())


def _lists_of_lists() -> bytes:
    rows = (
        f"  - &a{number} [{', '.join([f'*a{number - 1}' if number else 'x'] * 10)}]\n"
        for number in range(8)
    )
    return f"http_server_config:\n  http2:\n{''.join(rows)}".encode()


def _web_seeds() -> Iterator[bytes]:
    yield (ROOT / "docs" / "web-config.example.yml").read_bytes()
    yield TLS.encode()
    yield MTLS.encode() + b"  client_allowed_sans: [a, b]\n  min_version: TLS13\n"
    yield b"http_server_config: {http2: &a [x, yes], headers: {X-Frame-Options: *a}}\n"
    yield b"basic_auth_users:\n  a: $2b$04$abcdefghijklmnopqrstuu5cldSTjqTa.nw4QeJC5.F6G/ueChgIa\n"


def _kubelet_pods(data: bytes) -> bool:
    """A message is a fact, nothing, or the end of the watch; what comes a second time is none."""
    pods = Pods()
    try:
        fact = pods.apply(data, 1.0)
        again = pods.apply(data, 2.0)
    except KubeletError:
        return False
    assert again is None or isinstance(again, BeliefsShown)
    if isinstance(fact, Believed):
        assert all(0 < len(each.id) <= limits.TEXT for each in fact.changed)
        assert fact.patience >= 0
    return fact is not None


def _pods_seeds() -> Iterator[bytes]:
    sent = (bytes.fromhex(row["pod"]) for row in rows("evented") if "pod" in row)
    yield from islice(sent, 40)


def _http_answers(data: bytes) -> bool:
    async def asked() -> bool:
        async with http_peer(data) as url, aiohttp.ClientSession() as session:
            with only(PrometheusError):
                await Prometheus(url, session, 60.0).vector("up", 1)
                return True
        return False

    return completed(asked())


def _http_seeds() -> Iterator[bytes]:
    page = json.dumps(
        {"status": "success", "data": {"resultType": "vector", "result": []}}
    ).encode()
    head = b"HTTP/1.1 200 OK\r\nContent-Type: text/plain\r\n"
    yield head + b"Content-Length: %d\r\n\r\n" % len(page) + page
    yield head + b"Transfer-Encoding: chunked\r\n\r\n%x\r\n" % len(page) + page + b"\r\n0\r\n\r\n"
    yield b"HTTP/1.1 307 Temporary Redirect\r\nLocation: http://x.example/\r\n\r\n"
    yield head + b"Content-Encoding: gzip\r\n\r\n" + member(page)
    data = {"resultType": "vector", "result": recorded_answers()[0].result}
    known = json.dumps({"status": "success", "data": data}).encode()
    yield b"HTTP/1.0 422 Unprocessable\r\nContent-Type: application/json\r\n\r\n" + known


TARGETS: Final = {
    "cri-lists": Target(_cri_lists, _list_seeds),
    "cri-event": Target(_cri_event, _event_seeds),
    "http2": Target(
        _http2,
        _http2_seeds,
        # Trailers where a message is due.
        (b"\0" + _answer(status=b"0"),),
    ),
    "recording": Target(_recording, _recording_seeds),
    "web-config": Target(_web_config, _web_seeds, (_lists_of_lists(),)),
    "kubelet-pods": Target(_kubelet_pods, _pods_seeds),
    "http-answers": Target(_http_answers, _http_seeds),
}


@pytest.mark.parametrize("name", TARGETS)
def test_no_known_input_does_harm(name: str) -> None:
    target = TARGETS[name]
    accepted = [tried(target, seed) for seed in target.seeds()]
    assert any(accepted)
    for data in target.found:
        tried(target, data)


@pytest.mark.soak
@pytest.mark.skipif(find_spec("atheris") is None, reason="atheris has no wheel for this machine")
@pytest.mark.parametrize(
    "name", [pytest.param(name, marks=pytest.mark.xdist_group(name)) for name in TARGETS]
)
def test_a_minute_of_fuzzing_finds_nothing(name: str) -> None:
    """What it finds is kept in `.cache/fuzz/found`."""
    command = (sys.executable, "-m", "tests.fuzz", name, "-max_total_time=60")
    ran = subprocess.run(command, check=False, capture_output=True, text=True, cwd=ROOT)
    assert ran.returncode == 0, f"{ran.stdout}{ran.stderr}"[-4000:]
