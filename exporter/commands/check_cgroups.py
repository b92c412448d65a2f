"""The part of `check` about cgroups: their layout, and containers whose processes are not seen."""

import asyncio
from collections import Counter, deque
from collections.abc import AsyncIterator
from datetime import UTC, datetime
from pathlib import PurePath
from typing import Final, NamedTuple

from exporter.cri.client import CriClient
from exporter.cri.lists import ListDecoder
from exporter.errors import CriError, KernelError
from exporter.kernel.folders import Container, Driver, driver_of
from exporter.kernel.oom import Kills
from exporter.kernel.tree import Tree
from exporter.kernel.unseen import Unseen
from exporter.loops.lease import ANSWER_TIMEOUT
from exporter.model.events import Listed
from exporter.node.state import words_of
from exporter.runtimes.known import is_elsewhere
from exporter.settings.config import Config

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


class Said(NamedTuple):
    """One line of the answer."""

    # ok, note or fail.
    level: str
    text: str
    remedy: str = ""


async def look(config: Config, client: CriClient) -> list[Said]:
    """Compare cgroups and lists twice; CriError if nothing can be listed."""
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
                said.append(Said("ok", text))
            said += [each async for each in _named(client, unseen, missing)]
    except KernelError as error:
        return [Said("note", str(error), _MOUNT)]
    finally:
        tree.close()
    return said


def _layout(config: Config, unseen: Unseen) -> list[Said]:
    running = {each.id for each in unseen.running}
    sandboxes = {each.sandbox_id for each in unseen.running}
    seen = [each for each in unseen.tree.shown if each.id in running | sandboxes]
    text = (
        f"the cgroups below {config.cgroup_root} show processes of"
        f" {len(running) - len(unseen.missing)} of {len(running)} running containers"
    )
    if not seen:
        return [Said("note", text, _MOUNT) if running else Said("ok", text)]
    drivers = sorted({driver_of(PurePath(each.path).name).value for each in seen})
    places = sorted({_place(each) for each in seen})
    more = f" and {len(places) - 2} more" if len(places) > 2 else ""  # noqa: PLR2004 - enough
    text += f" (v{unseen.tree.version}, {' and '.join(drivers)}, in {', '.join(places[:2])}{more})"
    said = [Said("ok", text)]
    if Driver.MIXED.value in drivers:
        said.append(Said("note", "the cgroup drivers of kubelet and runtime differ", _DIFFER))
    return said


def _memory(config: Config, tree: Tree) -> list[Said]:
    """A line that says why OOM kills are not counted; none if they are."""
    kills = Kills(tree, str(config.cgroup_root), lambda _: None)
    kills.begin()
    return [Said("note", f"OOM kills are not counted: {kills.note}", _MEMORY)] if kills.note else []


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
) -> AsyncIterator[Said]:
    """Lines about containers that were missing twice; those that are proven dead come first."""
    dead = {each.id for each in unseen.dead}
    named = sorted(missing.values(), key=lambda each: each.id not in dead)
    for each in named[:_NAMED]:
        who = f"{words_of(each)} ({each.id[:12]}) runs by the lists{await _since(client, each)}"
        if each.id in dead:
            yield Said("fail", f"{who}, and has no process: a ghost", _GHOST)
        elif each.id in unseen.moved:
            yield Said("note", f"{who}, and its processes may be elsewhere in its pod", _UNSEEN)
        else:
            yield Said("note", f"{who}, and its processes are not seen", _UNSEEN)
    if len(named) > _NAMED:
        level = "fail" if len(dead) > _NAMED else "note"
        yield Said(level, f"{len(named) - _NAMED} more are not seen")


async def _since(client: CriClient, container: Listed) -> str:
    try:
        started_ns = await client.started(container.id, ANSWER_TIMEOUT)
    except CriError:
        return ""
    if started_ns <= 0:
        return ""
    return f" since {datetime.fromtimestamp(started_ns // 10**9, UTC):%Y-%m-%dT%H:%M:%SZ}"
