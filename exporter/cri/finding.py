"""Which of the node's sockets is that of the kubelet's runtime.

A node may have several: Docker brings a containerd of its own, and a distribution may have been
replaced by another. The kubelet's word decides; then who answers the CRI; then, in a pod, who runs
this pod. What is left undecided is refused: to watch another runtime than the kubelet's would look
like a node on which nothing happens.
"""

import os
from dataclasses import dataclass, replace
from pathlib import Path
from typing import Final

from google.protobuf.message import DecodeError

from exporter.cri import runtime_v1_pb2 as pb
from exporter.cri.client import CriClient
from exporter.cri.kubelets import Named, beneath, named_by_kubelet
from exporter.errors import ConfigError, CriError, CriUnavailableError
from exporter.settings.sockets import PLACES

_ANSWER_SECONDS: Final = 5.0
_START: Final = "start the runtime, or name its socket with --runtime-endpoint"
_CHOOSE: Final = "name the kubelet's with --runtime-endpoint"


@dataclass(frozen=True, slots=True)
class Node:
    """Where to look: `root` is the node's file system; `pod_uid` this pod's, "" outside of one."""

    root: Path = Path("/")
    pod_uid: str = ""


@dataclass(frozen=True, slots=True)
class Found:
    """A socket that exists: whether it is the one, and why or why not."""

    path: Path
    used_by: str
    chosen: bool
    why: str

    @property
    def text(self) -> str:
        """One line."""
        return f"unix://{self.path} ({self.used_by}): {self.why}"


async def find(node: Node) -> list[Found]:
    """All that exist, the chosen one first; CriUnavailableError or ConfigError if none can be."""
    there = _existing(node)
    named = {beneath(node.root, each.path): each for each in named_by_kubelet(node.root)}
    if binding := [path for path, by in named.items() if by.running or _exists(path)]:
        return _of_kubelet(binding, named, there)
    if not there:
        raise absent(*(beneath(node.root, place.path) for place in PLACES))
    if len(there) == 1:
        return [Found(*there.popitem(), chosen=True, why="no other socket is there")]
    return await _asked(node, there)


def absent(*looked: Path) -> CriUnavailableError:
    """The error that says where no socket is."""
    places = ", ".join(f"unix://{path}" for path in looked)
    return CriUnavailableError("unavailable", f"no runtime socket at {places}", _START)


def _exists(path: Path) -> bool:
    return os.path.exists(path)  # noqa: PTH110 - False where it may not be looked at


def _existing(node: Node) -> dict[Path, str]:
    """The candidates that exist, each once: some are links to others."""
    there: dict[Path, str] = {}
    seen: set[tuple[int, int]] = set()
    for place in PLACES:
        path = beneath(node.root, place.path)
        try:
            status = path.stat()
        except (FileNotFoundError, NotADirectoryError):
            continue
        except OSError:
            # A path that cannot be examined may still exist; `require_usable` reports that.
            there[path] = place.used_by
            continue
        if (identity := (status.st_dev, status.st_ino)) not in seen:
            seen.add(identity)
            there[path] = place.used_by
    return there


def _of_kubelet(
    binding: list[Path], named: dict[Path, Named], there: dict[Path, str]
) -> list[Found]:
    if len(binding) > 1:
        said = ", ".join(f"unix://{path} ({named[path].source})" for path in binding)
        raise ConfigError(f"kubelets name more than one socket: {said}", _CHOOSE)
    (path,) = binding
    used_by = there.pop(path, "the kubelet's own place")
    others = [
        Found(other, who, chosen=False, why="not the kubelet's") for other, who in there.items()
    ]
    return [Found(path, used_by, chosen=True, why=f"the kubelet's: {named[path].source}"), *others]


async def _asked(node: Node, there: dict[Path, str]) -> list[Found]:
    """Choose by what each answers."""
    answers = [await _ask(path, used_by, node.pod_uid) for path, used_by in there.items()]
    answering = [found for found, _ in answers if found.chosen]
    ours = [found for found, runs_us in answers if runs_us]
    ignored = [found for found, _ in answers if not found.chosen]
    if len(answering) == 1:
        (one,) = answering
        return [replace(one, why=f"{one.why}, and no other answers"), *ignored]
    if len(ours) == 1:
        (one,) = ours
        others = [
            replace(each, chosen=False, why=f"{each.why}, but does not run this pod")
            for each in answering
            if each is not one
        ]
        return [replace(one, why=f"{one.why}, and runs this pod"), *others, *ignored]
    said = "; ".join(found.text for found, _ in answers)
    if not answering:
        raise CriUnavailableError("unavailable", f"no runtime answers: {said}", _START)
    raise ConfigError(f"several runtimes answer: {said}", _CHOOSE)


async def _ask(path: Path, used_by: str, pod_uid: str) -> tuple[Found, bool]:
    """Whether a runtime answers there (`chosen`), and whether it runs this pod."""
    client = CriClient(path)
    try:
        version = await client.version(_ANSWER_SECONDS)
        said = f"answers as {version.name} {version.version}"
        found = Found(path, used_by, chosen=True, why=said)
        if not pod_uid:
            return found, False
        lists = await client.lists(_ANSWER_SECONDS)
        listed = map(pb.ListPodSandboxResponse.FromString, lists.sandboxes)
        return found, any(item.metadata.uid == pod_uid for each in listed for item in each.items)
    except (CriError, DecodeError) as error:
        return Found(path, used_by, chosen=False, why=f"no CRI v1: {error}"), False
    finally:
        await client.close()
