"""`shadow-pleg check`: what it finds, what to do about it, and the exit code."""

import asyncio
import json
import re
from collections.abc import Callable
from dataclasses import replace
from fnmatch import fnmatchcase
from pathlib import Path

import grpc
import pytest

from conformance.cri_client import encoded
from exporter.commands.check import CheckLine, check, examine, writable
from exporter.commands.options import AnswerFormat
from exporter.cri import runtime_v1_pb2 as pb
from exporter.runtimes.permission import EventStream
from exporter.settings.config import Config, Watch
from exporter.settings.flags import ListenAddress
from simulator.options import Options
from simulator.runtime import CgroupFiles
from simulator.service import Method
from testbed.messages import introduction
from testbed.waiting import until
from tests.support.cri_messages import container, sandbox
from tests.support.runtimes import (
    DISABLED,
    EXCLUSIVE,
    QUIET,
    UNIMPLEMENTED,
    ScriptedServer,
    running_container,
    simulated,
)

pytestmark = pytest.mark.virtual_time

BROADCAST = "broadcast: containerd 2 sends every event to every subscriber"
HOLDS = "ok   events   the runtime holds the stream open (0 events meanwhile)"
CAN = "this node can be watched"
STILL = "this node can be watched (without its event stream)"
CANNOT = "this node cannot be watched"
# The kernel is not asked.
LISTS = "ok   watched  without events, serve watches relists and twins"
UPGRADE = (
    "              -> upgrade the runtime, or, where neither the kubelet nor anything else uses its"
    " events, give --event-stream=always"
)
ENABLE_CRIO = (
    "              -> put enable_pod_events = true under [crio.runtime] in"
    " /etc/crio/crio.conf.d/10-events.conf and restart CRI-O"
)
SHARED = (
    "exclusive: containerd 1.7 has one event channel for all subscribers:"
    " a second one takes events from the kubelet (containerd#7318)"
)
# Another one on this machine is not asked.
NO_EXPORTER = ListenAddress("127.0.0.1", 0)
SOCKET = "ok   socket   unix://SOCKET MODE, running as US"
EMPTY = "ok   relist   0 sandboxes and 0 containers, 0 KiB, in TIME (slowest of 3: TIME)"


async def preflight(
    capsys: pytest.CaptureFixture[str], path: Path, wish: EventStream = EventStream.AUTO
) -> tuple[bool, list[str]]:
    """Whether a check was good, and its lines, without what differs between machines."""
    quick = Config(runtime_endpoint=path, event_stream=wish, relist_timeout=0.3)
    config = replace(quick, kernel_witness=Watch.NEVER, web_listen_address=NO_EXPORTER)
    good = await check(config, AnswerFormat.TEXT)
    text = capsys.readouterr().out.replace(str(path), "SOCKET")
    text = re.sub(r"[a-z-]{10} \d+:\d+, running as \d+:\d+", "MODE, running as US", text)
    return good, re.sub(r"\d+\.\d ms", "TIME", text).splitlines()


SAFE = f"ok   stream   {BROADCAST}; safe"
CRIO_SAFE = "ok   stream   broadcast: CRI-O since 1.33 sends every event to every subscriber; safe"
ENDED = "note events   the runtime ends the stream at once: its events are switched off"
NO_CALL = "note events   GetContainerEvents: unimplemented: unknown method GetContainerEvents"
NEWER = (
    "              -> this version announces events by itself: see in its log whether its CRI"
    " plugin runs"
)


@pytest.mark.parametrize(
    ("options", "wish", "said"),
    [
        (QUIET, EventStream.AUTO, (SAFE, HOLDS, CAN)),
        (
            EXCLUSIVE,
            EventStream.AUTO,
            (f"note stream   {SHARED}: relist only", UPGRADE, LISTS, STILL),
        ),
        (
            EXCLUSIVE,
            EventStream.ALWAYS,
            (f"note stream   {SHARED}; subscribed because of --event-stream=always", HOLDS, CAN),
        ),
        (
            QUIET,
            EventStream.NEVER,
            ("note stream   broadcast: --event-stream=never: relist only", LISTS, STILL),
        ),
        (DISABLED, EventStream.AUTO, (CRIO_SAFE, ENDED, ENABLE_CRIO, LISTS, STILL)),
        (UNIMPLEMENTED, EventStream.AUTO, (SAFE, NO_CALL, NEWER, LISTS, STILL)),
    ],
)
async def test_the_answer_has_the_order_of_the_questions_and_a_remedy(
    capsys: pytest.CaptureFixture[str], options: Options, wish: EventStream, said: tuple[str, ...]
) -> None:
    """A stream is tried only where that is safe or wished; nothing is left behind."""
    async with simulated(options) as server:
        good, lines = await preflight(capsys, server.socket, wish)
        assert server.runtime.channel.subscriptions == (HOLDS in said)
        await until(lambda: server.runtime.channel.subscribers == 0, "it is gone")
    runtime = options.runtime.value.replace("/", " ")
    while (issue := next((n for n, line in enumerate(lines) if "issue" in line), 0)) > 0:
        del lines[issue : issue + 2]
    *found, of_kubelet, verdict = lines
    assert of_kubelet.startswith("ok   kubelet  not asked")
    assert "docs/kubelet.md" in of_kubelet
    assert [*found, verdict] == [SOCKET, f"ok   runtime  {runtime}, CRI v1", EMPTY, *said]
    assert good


async def examined(server: ScriptedServer, cgroups: Path) -> list[CheckLine]:
    return await examine(Config(runtime_endpoint=server.socket, cgroup_root=cgroups))


NONE_SHOWN = "the cgroups below DIR show processes of 0 of 1 running containers"
ALL_SHOWN = (
    "the cgroups below DIR show processes of 1 of 1 running containers (v2, cgroupfs, in /kubepods)"
)


@pytest.mark.parametrize(
    ("shown", "level", "text", "watched"),
    [
        (None, "note", "DIR/pids: No such file or directory", "relists and twins"),
        ("other", "note", NONE_SHOWN, "relists and twins"),
        ("", "ok", ALL_SHOWN, "relists, ghosts, strays and twins"),
    ],
    ids=["no cgroups", "those of another node", "its own"],
)
async def test_check_says_whether_the_cgroups_are_those_of_the_containers_and_what_is_watched(
    tmp_path: Path, shown: str | None, level: str, text: str, watched: str
) -> None:
    async with simulated(EXCLUSIVE) as server:
        _, app = running_container(server)
        if shown is not None:
            CgroupFiles(tmp_path).run("uid", shown or app)
        lines = await examined(server, tmp_path)
    said = {line.subject: line for line in lines}
    found = said["kernel"]
    assert (found.level, found.text.replace(str(tmp_path), "DIR")) == (level, text)
    assert ("--cgroup-root" in found.remedy) is (level == "note")
    assert said["watched"].text == f"without events, serve watches {watched}"
    assert {line.level for line in lines} <= {"ok", "note"}


def kernel(lines: list[CheckLine]) -> list[tuple[str, str]]:
    said = [(line.level, line.text) for line in lines if line.subject == "kernel"][1:]
    return [
        (level, re.sub(r"\([0-9a-f]+\)", "(ID)", re.sub(r"\d{4}-[^,]*Z", "THEN", text)))
        for level, text in said
    ]


RUNS = "runs by the lists since THEN, and"
GHOST = f"shop/web-1/app (ID) {RUNS} has no process: a ghost"
MOVED = f"shop/web-1/app (ID) {RUNS} its processes may be elsewhere in its pod"
UNSEEN = f"shop/web-1/app (ID) {RUNS} its processes are not seen"


@pytest.mark.parametrize(
    ("handler", "others", "said"),
    [
        # Its sandbox has processes, and so has a container of the same handler.
        ("", ["p1", "c0"], [("fail", GHOST)]),
        ("", ["c0"], [("fail", GHOST)]),
        # No container of that handler has been seen to have processes in its cgroup.
        ("", ["p1"], [("note", UNSEEN)]),
        ("untrusted", ["p1", "c0"], [("note", UNSEEN)]),
        # Who is not listed has processes in its pod.
        ("", ["p1", "c0", "n1"], [("note", MOVED)]),
        (
            "kata",
            ["p1", "c0"],
            [("ok", "1 containers of kata run in sandboxes that cgroups do not show")],
        ),
    ],
)
async def test_who_is_not_seen_is_named_and_a_ghost_only_by_proof(
    tmp_path: Path, handler: str, others: list[str], said: list[tuple[str, str]]
) -> None:
    """Dead for however long, and whether its cgroup is empty or gone; found in two looks."""
    async with simulated() as server:
        p0, c0 = running_container(server)
        p1, c1 = running_container(server, "web-1")
        if handler:
            server.faults.sandboxes.append(sandbox(id=p1, runtime_handler=handler))
        files = CgroupFiles(tmp_path)
        ids = {"p0": p0, "c0": c0, "p1": p1, "n1": "nobody"}
        uids = [server.runtime.sandboxes[each].metadata.uid for each in (p0, p1)]
        for each in others:
            files.run(uids[int(each[1])], ids[each])
        lines = await examined(server, tmp_path)
        assert [each for each in kernel(lines) if "web-0" not in each[1]] == said
        files.run(uids[1], c1)
        lines = await examined(server, tmp_path)
        assert not any("web-1" in text for _, text in kernel(lines))


async def test_who_is_missing_in_one_of_two_looks_is_not_named(tmp_path: Path) -> None:
    """One begins between them, and one ends, which the runtime needs a moment to notice."""
    async with simulated() as server:
        files, apps = CgroupFiles(tmp_path), []
        for number in range(4):
            _, app = running_container(server, f"web-{number}")
            apps.append(app)
            files.run(f"u{number}", app)
        files.remove("u0", apps[0])
        files.remove("u1", apps[1])

        async def meanwhile() -> None:
            await asyncio.sleep(1)
            files.run("u1", apps[1])
            files.remove("u2", apps[2])

        async with asyncio.TaskGroup() as both:
            both.create_task(meanwhile())
            looked = both.create_task(examined(server, tmp_path))
    assert [text for _, text in kernel(looked.result())] == [UNSEEN.replace("web-1", "web-0")]


async def test_a_ghost_fails_the_check_and_hinders_no_watch(
    capsys: pytest.CaptureFixture[str], tmp_path: Path
) -> None:
    async with simulated() as server:
        for number in range(13):
            pod, app = running_container(server, f"web-{number}")
            CgroupFiles(tmp_path).run(f"u{number}", pod if number else app)
        config = Config(
            runtime_endpoint=server.socket, cgroup_root=tmp_path, web_listen_address=NO_EXPORTER
        )
        assert not await check(config, AnswerFormat.TEXT)
    lines = capsys.readouterr().out.splitlines()
    failed = [line for line in lines if line.startswith("fail kernel")]
    assert len(failed) == 11
    assert failed[-1] == "fail kernel   2 more are not seen"
    assert lines[-1] == CAN


async def test_drivers_that_differ_are_named_with_what_to_do(tmp_path: Path) -> None:
    """The kubelet names for systemd, and the runtime takes it for a path."""
    async with simulated() as server:
        _, app = running_container(server)
        folder = tmp_path / f"pids/system.slice/kubepods-podu1.slice:cri-containerd:{app}"
        folder.mkdir(parents=True)
        (folder / "cgroup.procs").write_text("7\n")
        lines = await examined(server, tmp_path)
    first, second, third = (line for line in lines if line.subject == "kernel")
    assert first.text.endswith(
        " 1 of 1 running containers"
        " (v1, systemd in the kubelet, cgroupfs in the runtime, in /system.slice)"
    )
    assert (second.level, "SystemdCgroup = true" in second.remedy) == ("note", True)
    assert (third.level, third.remedy != "") == ("note", True)
    assert third.text.startswith(f"OOM kills are not counted: {tmp_path}: no memory hierarchy")


async def test_what_is_checked_controls_no_terminal(capsys: pytest.CaptureFixture[str]) -> None:
    said = "\x1b[31m\x1b]0;own\x07\nok   forged line"
    async with simulated() as server:
        introduced = introduction(f"containerd{said}", f"2.1.9{said}")
        server.faults.reply_next(Method.VERSION, introduced)
        _, lines = await preflight(capsys, server.socket)
        server.faults.refuse_next(1, Method.LIST_CONTAINERS, details=said)
        _, refused = await preflight(capsys, server.socket)
    assert all(line.isprintable() for line in lines + refused)
    assert "containerd\\x1b[31m\\x1b]0;own\\x07\\nok   forged line 2.1.9" in lines[1]
    assert "\\x1b[31m\\x1b]0;own\\x07\\nok   forged line" in refused[1]


def malformed(server: ScriptedServer) -> None:
    running_container(server)
    server.faults.containers.append(container(state=7))
    server.faults.sandboxes.append(sandbox(id=""))


def garbled(server: ScriptedServer) -> None:
    pod, _ = running_container(server)
    raw = encoded({1: "c2", 2: pod, 3: {1: b"c\xff"}, 6: 1})
    server.faults.containers.append(pb.Container.FromString(raw))


def crowded(server: ScriptedServer) -> None:
    running_container(server)
    server.faults.sendable = 10


def refusing(method: Method, code: grpc.StatusCode) -> Callable[[ScriptedServer], None]:
    return lambda server: server.faults.refuse_next(1, method, code=code, details="not you")


def introducing(server: ScriptedServer) -> None:
    server.faults.reply_next(Method.VERSION, introduction("containerd", "2.3.2"))


# What is wrong, and lines that follow each other; where going on is pointless, to the last.
WRONG: dict[str, tuple[Callable[[ScriptedServer], None], tuple[str, ...]]] = {
    "a version with known bugs": (
        introducing,
        (
            "ok   relist *",
            "note issue    containerd#13814: ContainerStatus may hang forever (*",
            "              -> *",
            "note issue    containerd#13849: StopContainer may hang forever (*",
            "              -> *",
            "ok   stream *",
        ),
    ),
    "items that cannot be": (
        malformed,
        (
            "note relist   1 sandboxes and 2 *; malformed: empty_id 1, unknown_state 1",
            "              -> report it upstream",
        ),
    ),
    # A kubelet from 1.34 on refuses the whole list: this names the culprit.
    "text that is no UTF-8": (
        garbled,
        (
            "note relist *; malformed: not_utf8 1",
            "              -> remove shop/web-0/c\\xff, which *k/k#139132*",
        ),
    ),
    "a list that is too large to send": (
        crowded,
        (
            "fail runtime  ListPodSandbox: resource_exhausted: *, of SANDBOX_READY alone",
            "              -> remove exited pods and containers, with crictl*",
            CANNOT,
        ),
    ),
    "no socket": (
        lambda it: it.socket.unlink(),
        ("fail socket   no runtime socket at unix://SOCKET*", "              -> *", CANNOT),
    ),
    "lists that hang": (
        lambda it: it.faults.hang(Method.LIST_CONTAINERS),
        ("fail runtime  ListContainers: deadline_exceeded: *", "              -> *", CANNOT),
    ),
    "a server without CRI": (
        refusing(Method.VERSION, grpc.StatusCode.UNIMPLEMENTED),
        ("fail runtime  Version: unimplemented: *", "              -> *", CANNOT),
    ),
    # That is no runtime without events, and nothing that `serve` would live with.
    "a stream that cannot be opened": (
        refusing(Method.GET_CONTAINER_EVENTS, grpc.StatusCode.UNAVAILABLE),
        ("fail events   GetContainerEvents: unavailable: not you",),
    ),
}


@pytest.mark.parametrize("wrong", WRONG)
async def test_what_is_wrong_is_said_with_its_remedy(
    capsys: pytest.CaptureFixture[str], wrong: str
) -> None:
    prepare, said = WRONG[wrong]
    async with simulated() as server:
        prepare(server)
        good, lines = await preflight(capsys, server.socket)
    at = next(n for n, line in enumerate(lines) if fnmatchcase(line, said[0]))
    assert fnmatchcase("\n".join(lines[at : at + len(said)]), "\n".join(said))
    assert (good, lines[-1]) == ((False, CANNOT) if said[0].startswith("fail") else (True, CAN))
    assert sum(line.startswith("fail") for line in lines) == (not good)


@pytest.mark.parametrize(
    ("options", "level", "said"),
    [(QUIET, "ok", (HOLDS[14:], "")), (DISABLED, "note", (ENDED[14:], ENABLE_CRIO[17:]))],
)
async def test_json_says_the_same_to_machines(
    capsys: pytest.CaptureFixture[str], options: Options, level: str, said: tuple[str, str]
) -> None:
    async with simulated(options) as server:
        config = Config(runtime_endpoint=server.socket, web_listen_address=NO_EXPORTER)
        good = await check(config, AnswerFormat.JSON)
    answer = json.loads(capsys.readouterr().out)
    assert set(answer) == {"watchable", "event_stream", "checks"}
    assert answer["watchable"] is good is True
    assert answer["event_stream"] is (level == "ok")
    rest = {"issue", "watched"}
    *others, last, _ = (line for line in answer["checks"] if line["subject"] not in rest)
    subjects = ["socket", "runtime", "relist", "kernel", "stream"]
    assert [(line["subject"], line["level"]) for line in others] == [(it, "ok") for it in subjects]
    of_events = {"subject": "events", "level": level}
    assert last == of_events | dict(zip(("text", "remedy"), said, strict=True))


OF_NODE = (Path("/host/sys/fs/cgroup"), Path("/run/containerd"))
# As in a pod on a real node with cgroup v1, whose mounts were not read-only recursively.
TABLE = r"""
1 0 0:50 / / ro,relatime - overlay overlay rw
2 1 0:51 / /proc rw,nosuid - proc proc rw
3 1 0:28 / /host/sys/fs/cgroup ro,relatime - tmpfs tmpfs rw
4 3 0:35 / /host/sys/fs/cgroup/freezer rw,relatime master:7 - cgroup cgroup rw,freezer
5 3 0:36 / /host/sys/fs/cgroup/pids ro,relatime - cgroup cgroup rw,pids
6 1 0:24 /containerd /run/containerd ro,nosuid - tmpfs tmpfs rw
7 6 0:60 / /run/containerd/a\040b/rootfs rw - overlay overlay rw
8 1 0:61 / /run/containerd-other rw - tmpfs tmpfs rw
""".strip()


def test_mounts_below_those_of_the_node_are_writable_by_their_own_flags() -> None:
    found = writable(OF_NODE, TABLE)
    assert [str(each) for each in found] == [
        "/host/sys/fs/cgroup/freezer",
        "/run/containerd/a b/rootfs",
    ]


def test_a_folder_without_a_mount_of_its_own_is_judged_by_the_one_that_holds_it() -> None:
    """As on cgroup v1, where a single hierarchy may be mounted."""
    assert writable([Path("/host/sys/fs")], TABLE) == [Path("/host/sys/fs/cgroup/freezer")]
    assert writable([Path("/run/containerd-other/x")], TABLE) == [Path("/run/containerd-other")]


def test_of_several_mounts_at_one_point_the_last_counts() -> None:
    again = TABLE + "\n9 4 0:35 / /host/sys/fs/cgroup/freezer ro - cgroup cgroup rw"
    assert writable(OF_NODE[:1], again) == []
