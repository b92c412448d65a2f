"""`shadow-pleg check`: whether this node can be watched safely, and what to do if not.

It subscribes only briefly, and only if a subscription is known to be harmless or with
`--event-stream=always`.
"""

import asyncio
import http.client
import itertools
import json
import os
import re
import stat
import time
from collections import Counter, deque
from collections.abc import AsyncIterator, Iterable, Iterator
from dataclasses import asdict, dataclass
from datetime import UTC, datetime
from functools import partial
from pathlib import Path, PurePath
from typing import Final

from exporter.commands.health import TIMED_OUT, address_of, ask
from exporter.commands.options import AnswerFormat
from exporter.conditions.condition import NodeCondition
from exporter.conditions.sentences import GARBLED, REFUSED, UNSENDABLE
from exporter.cri.client import CriClient, RuntimeVersion
from exporter.cri.endpoint import Endpoint, require_usable
from exporter.cri.limits import NEARLY_UNSENDABLE_BYTES
from exporter.cri.lists import ListDecoder
from exporter.errors import (
    ConfigError,
    CriError,
    CriUnimplementedError,
    KernelError,
    ShadowPlegError,
    printable,
    say,
)
from exporter.kernel.folders import Container, Driver, driver_of
from exporter.kernel.oom import Kills
from exporter.kernel.populated import sees_all_processes
from exporter.kernel.tree import Tree
from exporter.kernel.unseen import Unseen
from exporter.loops.lease import ANSWER_TIMEOUT, LeasedStream
from exporter.model.events import Listed, ObjectKind
from exporter.model.labels import StreamState
from exporter.node.state import some_of, words_of
from exporter.runtimes.known import is_elsewhere, known_issues, profile_of
from exporter.runtimes.permission import EventStream, Refused, ended_at_once, subscription
from exporter.runtimes.runtime import Profile
from exporter.settings.config import Config, Watch
from exporter.settings.routes import MOST_CHARACTERS

_RELISTS: Final = 3
_MOUNTS: Final = Path("/proc/self/mountinfo")
_ESCAPED: Final = re.compile(r"\\([0-7]{3})")
_READ_ONLY: Final = "docs/deploy.md says what recursiveReadOnly needs, and who could write what"
_HANGS: Final = "docs/runbooks/ShadowPlegExporterDown.md says what to do"
_MOUNT: Final = (
    "name the node's own cgroups with --cgroup-root, mounted read-only; without them, serve"
    " finds no ghosts and strays"
)
_DIFFER: Final = (
    "give both the same driver, as Kubernetes asks for: SystemdCgroup = true in containerd,"
    " cgroup_manager in CRI-O, native.cgroupdriver in Docker"
)
_MEMORY: Final = "give containers the memory controller; docs/cgroups.md says what is read"
_GHOST: Final = "docs/runbooks/ShadowPlegGhostContainers.md says what to do"
_UNSEEN: Final = "docs/cgroups.md says what may hide it; serve reports no ghost without proof"
# Seconds between two looks: longer than a runtime takes to notice an exit.
_APART: Final = 3.0
_NAMED: Final = 10
_PODS: Final = "kubepods"


@dataclass(frozen=True, slots=True)
class CheckLine:
    """One check's result."""

    subject: str
    # ok, note or fail.
    level: str
    text: str
    remedy: str = ""


_by_kernel: Final = partial(CheckLine, "kernel")
_KUBELET: Final = CheckLine(
    "kubelet",
    "ok",
    "not asked: whether its gate EventedPLEG is on, and whether it still receives events, is in its"
    " own metrics (docs/kubelet.md)",
)


async def check(config: Config, form: AnswerFormat) -> bool:
    """Examine the node and print the answer; returns whether all is well."""
    lines = [*await examine(config), *_running(config)]
    failed = {line.subject for line in lines if line.level == "fail"}
    # Only ghosts make the line `kernel` fail, and they do not prevent watching.
    watchable, good = failed <= {"kernel"}, not failed
    streams = watchable and any(it.subject == "events" and it.level == "ok" for it in lines)
    if form is AnswerFormat.JSON:
        checks = [asdict(line) for line in lines]
        answer = {"watchable": watchable, "event_stream": streams, "checks": checks}
        say(json.dumps(answer, indent=2) + "\n")
    else:
        for line in lines:
            remedy = f"{'':<14}-> {printable(line.remedy)}\n" if line.remedy else ""
            say(f"{line.level:<5}{line.subject:<9}{printable(line.text)}\n{remedy}")
        without = " (without its event stream)" if watchable and not streams else ""
        say(f"this node {'can' if watchable else 'cannot'} be watched{without}\n")
    return good


def _running(config: Config) -> list[CheckLine]:
    """The conditions as the `serve` on this machine reports them, if one runs."""
    lines = []
    for condition in NodeCondition:
        try:
            status, said = ask(config, condition.path, timeout=2.0)
        except ConfigError:
            return []
        port = address_of(config).port
        if not status and said.endswith(TIMED_OUT):
            text = f"what listens on port {port} does not answer: if it is serve, it hangs"
            return [CheckLine("verdict", "note", text, _HANGS)]
        text = f"{condition.value}, by the exporter on port {port}: {said[:MOST_CHARACTERS]}"
        if status == http.client.OK:
            lines.append(CheckLine("verdict", "ok", text))
        elif status in (http.client.SERVICE_UNAVAILABLE, http.client.INTERNAL_SERVER_ERROR):
            remedy = "its status page says why, and what to do"
            lines.append(CheckLine("verdict", "note", text, remedy))
    return lines


async def examine(config: Config) -> list[CheckLine]:
    """The results of all checks, up to the first failure that makes the rest pointless."""
    endpoint = Endpoint(config.runtime_endpoint)
    try:
        socket = endpoint.socket()
        require_usable(socket)
    except ShadowPlegError as error:
        return [CheckLine("socket", "fail", error.problem, error.remedy)]
    lines = [CheckLine("socket", "ok", _describe(socket)), *_mounts(config, socket)]
    client = endpoint.separate()
    try:
        version = await client.version(ANSWER_TIMEOUT)
        said = f"{version.name} {version.version}, CRI {version.api_version}"
        listed = await _relist(client, config.relist_timeout)
        kernel = await _kernel(config, client)
        lines += [CheckLine("runtime", "ok", said), listed, *kernel, *_issues(version)]
        profile = profile_of(version.name, version.version)
        events = await _stream(client, profile, config.event_stream)
        lines += events
        if events[-1].subject != "events" or events[-1].level != "ok":
            seen = any(line.level == "ok" for line in kernel)
            found = "relists, ghosts, strays and twins" if seen else "relists and twins"
            lines.append(CheckLine("watched", "ok", f"without events, serve watches {found}"))
        lines.append(_KUBELET)
    except CriError as error:
        remedy = error.remedy or "see whether the runtime answers crictl version"
        if isinstance(error, CriUnimplementedError):
            remedy = "name a CRI v1 socket, or enable the CRI plugin"
        lines.append(CheckLine("runtime", "fail", error.problem, remedy))
    finally:
        await client.close()
    return lines


def _describe(socket: Path) -> str:
    status = socket.stat()
    return (
        f"unix://{socket} {stat.filemode(status.st_mode)} {status.st_uid}:{status.st_gid},"
        f" running as {os.geteuid()}:{os.getegid()}"
    )


def _mounts(config: Config, socket: Path) -> list[CheckLine]:
    """In a container: whether mounts of the node are writable."""
    if sees_all_processes():
        return []
    of_node = [socket.parent]
    if config.kernel_witness is not Watch.NEVER:
        of_node.append(config.cgroup_root)
    found = writable(of_node, _MOUNTS.read_text("utf-8", "replace"))
    if not found:
        text = "all that this container sees of the node is mounted read-only"
        return [CheckLine("mounts", "ok", text)]
    text = f"{len(found)} mounts of the node are writable, like {printable(str(found[0]))}"
    return [CheckLine("mounts", "note", text, _READ_ONLY)]


def writable(folders: Iterable[Path], table: str) -> list[Path]:
    """The mounts that hold these folders, or lie below them, and are not read-only.

    `table`: the process's own `mountinfo`, see proc(5).
    """
    mounts = dict(_mount_points(table))
    found = set()
    for folder in folders:
        found |= {each for each in mounts if folder in each.parents}
        found.add(next((each for each in (folder, *folder.parents) if each in mounts), Path("/")))
    return sorted(each for each in found if mounts.get(each))


def _mount_points(table: str) -> Iterator[tuple[Path, bool]]:
    """Each mount point, and whether it is writable; of several at one point, the uppermost last."""
    for line in table.splitlines():
        point, options = line.split(" ")[4:6]
        decoded = _ESCAPED.sub(lambda found: chr(int(found[1], 8)), point)
        yield Path(decoded), "ro" not in options.split(",")


async def _relist(client: CriClient, timeout: float) -> CheckLine:  # noqa: ASYNC109 - the calls' own deadline
    decoder, took = ListDecoder(), []
    for _ in range(_RELISTS):
        began = time.monotonic()
        lists = await client.lists(timeout)
        items = decoder.items(lists.sandboxes, lists.containers)
        took.append(time.monotonic() - began)
    kinds, size = Counter(item.kind for item in items), sum(lists.sizes.values())
    text = (
        f"{kinds[ObjectKind.SANDBOX]} sandboxes and {kinds[ObjectKind.CONTAINER]} containers,"
        f" {size / 1024:.0f} KiB, in {min(took) * 1000:.1f} ms (slowest of {_RELISTS}:"
        f" {max(took) * 1000:.1f} ms)"
    )
    if max(lists.sizes.values()) >= NEARLY_UNSENDABLE_BYTES:
        text = f"{text}; {UNSENDABLE}"
    if decoder.flaws:
        said = ", ".join(f"{flaw.value} {number}" for flaw, number in decoder.flaws.items())
        text, remedy = f"{text}; malformed: {said}", "report it upstream"
        if decoder.garbled:
            named = ", ".join(some_of(decoder.garbled.values()))
            remedy = f"remove {named}, which has {GARBLED}: {REFUSED}"
        return CheckLine("relist", "note", text, remedy)
    return CheckLine("relist", "ok", text)


def _issues(runtime: RuntimeVersion) -> list[CheckLine]:
    return [
        CheckLine("issue", "note", f"{row.id}: {row.what} ({row.affected})", row.remedy)
        for row in known_issues(runtime.name, runtime.version)
    ]


async def _stream(client: CriClient, profile: Profile, wish: EventStream) -> list[CheckLine]:
    kind, answer = profile.stream.value, subscription(profile, wish)
    if isinstance(answer, Refused):
        return [CheckLine("stream", "note", f"{kind}: {answer.why}", answer.remedy)]
    line = CheckLine("stream", "ok" if answer.harmless else "note", f"{kind}: {answer.why}")
    return [line, await _events(client, profile)]


async def _events(client: CriClient, profile: Profile) -> CheckLine:
    stream = LeasedStream(client, lambda *_: None, ANSWER_TIMEOUT, itertools.count())
    try:
        held = await stream.open()
        if not held.reader.done():
            text = f"the runtime holds the stream open ({stream.brought} events meanwhile)"
            return CheckLine("events", "ok", text)
        end = held.reader.result()
        refused = ended_at_once(end.reason, end.note, profile)
    finally:
        await stream.close()
    level = "fail" if refused.state is StreamState.BACKOFF else "note"
    return CheckLine("events", level, refused.why, refused.remedy)


async def _kernel(config: Config, client: CriClient) -> list[CheckLine]:
    """Compare cgroups and lists twice; CriError if nothing can be listed."""
    if config.kernel_witness is Watch.NEVER:
        return []
    tree, decoder = Tree(str(config.cgroup_root), lambda _: None), ListDecoder()
    unseen = Unseen(tree)

    async def compare() -> dict[str, Listed]:
        lists = await client.lists(config.relist_timeout)
        deque(tree.read(), maxlen=0)
        unseen.compare(decoder.items(lists.sandboxes, lists.containers), decoder.handlers)
        return {each.id: each for each in unseen.missing}

    try:
        missing = await compare()
        if missing:
            await asyncio.sleep(_APART)
            missing = {key: item for key, item in (await compare()).items() if key in missing}
        said = _layout(config, unseen)
        if said[0].level == "ok":
            said += _memory(config, tree)
            elsewhere = Counter[str]()
            for each in tuple(missing.values()):
                handler = decoder.handlers.get(each.sandbox_id, "")
                if is_elsewhere(handler):
                    elsewhere[handler] += 1
                    del missing[each.id]
            for handler, number in elsewhere.items():
                text = f"{number} containers of {handler} run in sandboxes that cgroups do not show"
                said.append(_by_kernel("ok", text))
            said += [each async for each in _named(client, unseen, missing)]
    except KernelError as error:
        return [_by_kernel("note", str(error), _MOUNT)]
    finally:
        tree.close()
    return said


def _layout(config: Config, unseen: Unseen) -> list[CheckLine]:
    running = {each.id for each in unseen.running}
    sandboxes = {each.sandbox_id for each in unseen.running}
    seen = [each for each in unseen.tree.shown if each.id in running | sandboxes]
    text = (
        f"the cgroups below {config.cgroup_root} show processes of"
        f" {len(running) - len(unseen.missing)} of {len(running)} running containers"
    )
    if not seen:
        return [_by_kernel("note", text, _MOUNT) if running else _by_kernel("ok", text)]
    drivers = sorted({driver_of(PurePath(each.path).name).value for each in seen})
    places = sorted({_place(each) for each in seen})
    more = f" and {len(places) - 2} more" if len(places) > 2 else ""  # noqa: PLR2004 - enough
    text += f" (v{unseen.tree.version}, {' and '.join(drivers)}, in {', '.join(places[:2])}{more})"
    said = [_by_kernel("ok", text)]
    if Driver.MIXED.value in drivers:
        said.append(_by_kernel("note", "the cgroup drivers of kubelet and runtime differ", _DIFFER))
    return said


def _memory(config: Config, tree: Tree) -> list[CheckLine]:
    """A line that says why OOM kills are not counted; none if they are."""
    kills = Kills(tree, str(config.cgroup_root), lambda _: None)
    kills.begin()
    if not kills.note:
        return []
    return [_by_kernel("note", f"OOM kills are not counted: {kills.note}", _MEMORY)]


def _place(container: Container) -> str:
    folder = container.folder
    if folder.pod_uid and folder.parent:
        folder = folder.parent
    names = []
    while folder.parent:
        names.append(folder.name)
        folder = folder.parent
    names.reverse()
    pods = next((at for at, name in enumerate(names) if _PODS in name), len(names) - 1)
    return "/" + "/".join(names[: pods + 1])


async def _named(
    client: CriClient, unseen: Unseen, missing: dict[str, Listed]
) -> AsyncIterator[CheckLine]:
    """Lines about containers that were missing twice; those that are proven dead come first."""
    dead = {each.id for each in unseen.dead}
    named = sorted(missing.values(), key=lambda each: each.id not in dead)
    for each in named[:_NAMED]:
        who = f"{words_of(each)} ({each.id[:12]}) runs by the lists{await _since(client, each)}"
        if each.id in dead:
            yield _by_kernel("fail", f"{who}, and has no process: a ghost", _GHOST)
        elif each.id in unseen.moved:
            yield _by_kernel(
                "note", f"{who}, and its processes may be elsewhere in its pod", _UNSEEN
            )
        else:
            yield _by_kernel("note", f"{who}, and its processes are not seen", _UNSEEN)
    if len(named) > _NAMED:
        level = "fail" if len(dead) > _NAMED else "note"
        yield _by_kernel(level, f"{len(named) - _NAMED} more are not seen")


async def _since(client: CriClient, container: Listed) -> str:
    try:
        started_ns = await client.started(container.id, ANSWER_TIMEOUT)
    except CriError:
        return ""
    if started_ns <= 0:
        return ""
    return f" since {datetime.fromtimestamp(started_ns // 10**9, UTC):%Y-%m-%dT%H:%M:%SZ}"
