"""Whatever a runtime sends: bounded memory, a free event loop, an end within two seconds.

In processes of their own, over real sockets. Memory and CPU time are measured, not time on a
clock. An exporter takes 60 MiB where nothing is sent; the DaemonSet's limit is 256. No callback
takes 40 ms on a quiet machine, where one of 36 s was seen; on a busy one CPU time, too, is longer.
"""

import functools
from collections import Counter
from collections.abc import AsyncIterator, Callable, Iterable, Mapping
from contextlib import asynccontextmanager
from typing import Any

import pytest

from conformance.cri_client import encoded
from exporter.cri import runtime_v1_pb2 as pb
from testbed.http2 import Stream, framed
from testbed.messages import introduction
from tests.support.cri_messages import event
from tests.support.hostile_runtime import Answer, Measured, reply, watching

MIB = 1024 * 1024
MOST_MIB = 256.0
MOST_SECONDS_OF_A_CALLBACK = 2.0
MOST_SECONDS_TO_END = 2.0
MOST_LOG_BYTES = 32 * 1024

Answers = Mapping[str, Answer | bytes]


@asynccontextmanager
async def harmless(answers: Answers, *flags: str) -> AsyncIterator[Measured]:
    """Such a runtime and an exporter, which whatever was sent has cost little at the end."""
    async with watching(answers, *flags) as exporter:
        yield exporter
        cost = await exporter.cost()
        assert cost.peak_mib < MOST_MIB
        assert cost.longest_callback < MOST_SECONDS_OF_A_CALLBACK
        assert cost.cpu_after_signal < MOST_SECONDS_TO_END
        assert len(exporter.log) < MOST_LOG_BYTES


def sandboxes(*items: pb.PodSandbox) -> bytes:
    return pb.ListPodSandboxResponse(items=items).SerializeToString()


def containers(*items: pb.Container) -> bytes:
    return pb.ListContainersResponse(containers=items).SerializeToString()


def sandbox(number: int, text: str = "") -> pb.PodSandbox:
    """One with usual names, or with that text in their place."""
    metadata = pb.PodSandboxMetadata(
        name=text or f"workload-{number:05}-7d9f8b6c5d-x2x4z",
        uid=text or f"{number:08x}-1e5c-4f8e-9a55-0123456789ab",
        namespace=text or f"team-{number % 20}",
    )
    return pb.PodSandbox(id=f"{number:064x}", metadata=metadata)


def container(number: int, sandbox_id: str) -> pb.Container:
    return pb.Container(
        id=f"c{number:063x}",
        pod_sandbox_id=sandbox_id,
        metadata=pb.ContainerMetadata(name=f"container-{number % 7}"),
        state=pb.CONTAINER_RUNNING,
    )


def events(*messages: bytes) -> Answers:
    whole = [framed(message) for message in messages]
    return {"GetContainerEvents": lambda stream: stream.put(whole)}


def unary(*messages: bytes) -> Answer:
    return reply(b"".join(messages))


INFO = "shadow_pleg_runtime_info"
ERRORS = "shadow_pleg_relist_errors_total"
FLAWS = "shadow_pleg_malformed_messages_total"
ONE_SANDBOX = sandboxes(sandbox(0))
# A tag of a field that a list does not have, and 0.
UNKNOWN_FIELD = b"\x10\0"
EMPTY_ENTRY = b"\x0a\0"
# Two bytes for each, and a hundred in memory.
EMPTY_STATUS = b"\x2a\0"
# One wide letter makes a text take four bytes for each other one.
WIDE = "\N{SPOUTING WHALE}" + "a" * 255


def parted() -> Answers:
    """A list that cannot be sent as a whole, and is as large for each state."""
    asked: list[Stream] = []

    def answer(stream: Stream) -> None:
        asked.append(stream)
        if len(asked) == 1:
            stream.finish(8, "grpc: trying to send message larger than max (1 vs. 0)")
        else:
            stream.answer(UNKNOWN_FIELD * (15 * MIB))

    return {"ListContainers": answer}


LISTS: Mapping[str, Callable[[], Answers]] = {
    "empty entries": lambda: {"ListPodSandbox": unary(EMPTY_ENTRY * (15 * MIB))},
    "unknown fields": lambda: {"ListContainers": unary(UNKNOWN_FIELD * (15 * MIB))},
    "a message beyond what gRPC takes": lambda: {"ListPodSandbox": unary(EMPTY_ENTRY * (31 * MIB))},
    "a million sandboxes in 9 MB": lambda: {
        "ListPodSandbox": unary(*(b"\x0a\x07\x0a\x05%05x" % n for n in range(1_000_000)))
    },
    "one entry": lambda: {"ListPodSandbox": unary(sandboxes(pb.PodSandbox(id="s" * (30 * MIB))))},
    "as much for each state": parted,
    "endless sandboxes": lambda: {"StreamPodSandboxes": ONE_SANDBOX * 100},
    "endless containers": lambda: {
        "StreamPodSandboxes": reply(ONE_SANDBOX),
        "StreamContainers": containers(container(1, "")) * 100,
    },
}


RARELY = {"a million sandboxes in 9 MB", "one entry", "endless sandboxes"}


def but_rarely(cases: Iterable[str], *more: str) -> list[Any]:
    """These cases, with some of them only in soaks."""
    rare = RARELY.union(more)
    return [pytest.param(each, marks=[pytest.mark.soak] * (each in rare)) for each in cases]


@pytest.mark.parametrize("sent", but_rarely(LISTS))
async def test_a_list_beyond_the_limits_is_a_counted_error(sent: str) -> None:
    async with harmless(LISTS[sent](), "--relist-period=100ms") as exporter:
        await exporter.shows(
            lambda seen: seen.value(ERRORS, reason="resource_exhausted") >= 2, "two relists failed"
        )


@pytest.mark.parametrize(
    "streamed", [False, pytest.param(True, marks=pytest.mark.soak)], ids=["unary", "streamed"]
)
async def test_a_huge_node_is_watched(streamed: bool) -> None:
    pods = [sandbox(number) for number in range(14_000)]
    rest = [container(number, pods[number % len(pods)].id) for number in range(100_000)]
    some = [sandboxes(*pods[n : n + 1000]) for n in range(0, len(pods), 1000)]
    others = [containers(*rest[n : n + 1000]) for n in range(0, len(rest), 1000)]
    if streamed:
        answers = {"StreamPodSandboxes": reply(*some), "StreamContainers": reply(*others)}
    else:
        answers = {"ListPodSandbox": unary(*some), "ListContainers": unary(*others)}
    async with harmless(answers, "--relist-period=100ms", "--relist-timeout=2m") as exporter:
        seen = await exporter.shows(
            lambda seen: seen.value("shadow_pleg_relist_duration_seconds_count") >= 2, "it relists"
        )
        assert seen.value("shadow_pleg_containers", state="running") == 100_000
        assert seen.value("shadow_pleg_sandboxes", state="ready") == 14_000
        assert not seen.counts(ERRORS)


FLAWED: Mapping[str, tuple[str, Callable[[], Answers]]] = {
    "ids of 1 MiB": (
        "too_long",
        lambda: events(*(event(container_id="i" * MIB) for _ in range(200))),
    ),
    "crowded events": (
        "too_large",
        lambda: {"GetContainerEvents": event() + EMPTY_STATUS * (3 * MIB)},
    ),
    "wide names": (
        "not_ascii",
        lambda: {"ListPodSandbox": unary(*(sandboxes(sandbox(n, WIDE)) for n in range(35_000)))},
    ),
    "names of 5 000 characters": (
        "too_long",
        lambda: {
            "ListPodSandbox": unary(*(sandboxes(sandbox(n, "n" * 5000)) for n in range(1000)))
        },
    ),
}


@pytest.mark.parametrize("sent", FLAWED)
async def test_what_is_too_long_or_too_large_is_left_out_and_counted(sent: str) -> None:
    reason, answers = FLAWED[sent]
    async with harmless(answers(), "--relist-period=100ms") as exporter:
        await exporter.shows(lambda seen: seen.value(FLAWS, reason=reason) >= 20, "counted")
        await exporter.relisted()


async def test_events_as_large_as_a_kubelet_takes_are_read_and_cost_no_memory() -> None:
    """As fast as they come: sixty containers of a pod have annotations of 250 KB each."""
    annotations = b"a" * (250 * 1024)
    status = encoded({1: "c1", 3: 1, 13: {1: {1: "note", 2: annotations}}})
    large = event(containers_statuses=None) + encoded({5: status}) * 60
    async with harmless({"GetContainerEvents": large}) as exporter:
        seen = await exporter.shows(
            lambda seen: sum(seen.counts("shadow_pleg_events_received_total").values()) >= 20,
            "they are read",
        )
        assert seen.stream == "streaming"
        assert seen.counts(FLAWS) == {}


async def test_an_event_beyond_16_mebibytes_ends_the_stream() -> None:
    """Before it is received, and with its reason; the relist goes on."""
    lost = "shadow_pleg_stream_disconnects_total"
    streams: list[Stream] = []

    def subscribe(stream: Stream) -> None:
        streams.append(stream)
        stream.put(())

    async with harmless({"GetContainerEvents": subscribe}) as exporter:
        await exporter.streaming()
        streams[-1].put([framed(event(container_id="c" * (60 * MIB)))])
        await exporter.shows(
            lambda seen: seen.value(lost, reason="resource_exhausted") == 1, "it ends"
        )
        await exporter.streaming()


async def test_a_stream_of_empty_events_is_left() -> None:
    """Before they fill the window: gRPC needs much more memory for them than their size."""
    lost = "shadow_pleg_stream_disconnects_total"
    async with harmless({"GetContainerEvents": b""}) as exporter:
        await exporter.shows(lambda seen: seen.value(lost, reason="internal") >= 2, "it is left")
        await exporter.relisted()


async def test_a_version_is_cut_and_controls_no_terminal() -> None:
    more = "\x1b[2J\x9b\u202e" * (MIB // 4)
    introduced = reply(introduction("containerd" + more, "v2.1.9" + more))
    async with harmless({"Version": introduced}) as exporter:
        seen = await exporter.shows(lambda seen: bool(seen.labels(INFO)["name"]), "it is known")
        texts = seen.labels(INFO).values()
        assert "".join(texts).isprintable()
        assert {*map(len, texts)} == {len("v1"), len("exclusive"), 256}


def replacing(count: int, of: int, text: str = "") -> tuple[Counter[str], dict[str, Answer]]:
    """Lists of so many containers, some in each sandbox, all with other ids each time; how many."""
    pods = [sandbox(number, text) for number in range(count // of)]
    rest = [container(number, pods[number // of % len(pods)].id) for number in range(count)]
    for number, each in enumerate(rest):
        each.metadata.name = f"container-{number % of}"
    some, others = sandboxes(*pods), containers(*rest)
    made = Counter[str]()

    def listed(stream: Stream, one: bytes, method: str) -> None:
        made[method] += 1
        # Of ids of 64 digits only the last ones differ.
        stream.answer(one.replace(b"0" * 32, b"%032x" % made[method]))

    return made, {
        "ListPodSandbox": functools.partial(listed, one=some, method="ListPodSandbox"),
        "ListContainers": functools.partial(listed, one=others, method="ListContainers"),
    }


@pytest.mark.parametrize(
    ("count", "of", "lists", "text"),
    [
        (40_000, 8, 3, ""),
        pytest.param(40_000, 8, 12, "", marks=pytest.mark.soak),
        pytest.param(52_000, 7, 12, "", marks=pytest.mark.soak),
        # All pods are one, so that there are seven names in all.
        pytest.param(36_000, 7, 12, WIDE[:20], marks=pytest.mark.soak),
        pytest.param(40_000, 7, 12, WIDE[0] * 140, marks=pytest.mark.soak),
    ],
    ids=["short", "usual names", "more than fit", "one pod", "wide letters"],
)
async def test_no_lists_that_replace_each_other_exceed_the_limit(
    count: int, of: int, lists: int, text: str
) -> None:
    made, answers = replacing(count, of, text)
    flags = ("--relist-period=2s", "--relist-max-duty=100%", "--relist-timeout=1m")
    async with harmless(answers, *flags) as exporter:
        seen = await exporter.shows(lambda _: made["ListPodSandbox"] > lists, "enough lists")
        assert seen.value("shadow_pleg_relist_duration_seconds_count") >= lists - 1


async def test_a_version_that_changes_with_every_call_costs_nothing() -> None:
    numbers: list[int] = []

    def changing(stream: Stream) -> None:
        numbers.append(len(numbers))
        stream.answer(introduction("containerd", f"v2.1.{len(numbers)}"))

    answers = {"Version": changing, "GetContainerEvents": lambda stream: stream.finish(14)}
    async with harmless(answers) as exporter:
        seen = await exporter.shows(lambda _: len(numbers) >= 6, "asked again")
        assert seen.labels(INFO)["version"].startswith("v2.1.")
