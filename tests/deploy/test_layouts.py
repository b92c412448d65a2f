"""One `helm install` without a value of the runtime, on nodes that have it at different places.

The nodes are folders with a real containerd where the distribution has its own; the image runs with
the arguments, the user and the mounts of the rendered pod.
"""

from collections.abc import AsyncIterator
from dataclasses import dataclass
from pathlib import Path
from typing import Any, Final

import pytest
import pytest_asyncio

from testbed.containerd import Containerd, why_not
from testbed.fixtures import unavailable
from testbed.waiting import until
from tests.support.bundle import built, folder_at, run_image, user
from tests.support.real_lives import live
from tests.support.rendering import Variant, environ_of, variant

# Builds the image, as others do, so they take turns.
pytestmark = [pytest.mark.timeout(600), pytest.mark.xdist_group("tests/deploy/test_image.py")]

_LAYOUTS: Final = {
    "kubeadm": "run/containerd/containerd.sock",
    "k3s": "run/k3s/containerd/containerd.sock",
    "k0s": "run/k0s/containerd.sock",
}
_PATIENCE_SECONDS: Final = 60


@dataclass(frozen=True, slots=True)
class Laid:
    """A node whose file system is at `root`, and its containerd."""

    root: Path
    containerd: Containerd


@pytest_asyncio.fixture(params=_LAYOUTS)
async def node(request: pytest.FixtureRequest, containerd_roots: Path) -> AsyncIterator[Laid]:
    """Each layout, with what a node has besides."""
    if reason := why_not("2.1"):
        unavailable(reason)
    built()
    root = containerd_roots / "2.1"
    place = f"node/{_LAYOUTS[request.param]}"
    known = root if root.exists() else None
    async with Containerd("2.1", known, place=place) as containerd:
        home = containerd.home
        home.chmod(0o711)
        (home / "node" / "run" / "lock").mkdir()
        yield Laid(home / "node", containerd)


def _mounts(it: Variant, root: Path) -> list[Any]:
    """The node's folders as a kubelet mounts them; one of the type Directory has to be there."""
    places = {each["name"]: each for each in it.container["volumeMounts"]}
    mounts = []
    for volume in it.pod["volumes"]:
        of_node, mount = volume["hostPath"], places[volume["name"]]
        assert of_node["type"] == "Directory"
        source = Path(of_node["path"])
        if volume["name"] == "runtime":
            source = root / source.relative_to("/")
        assert source.is_dir()
        mounts.append(folder_at(mount, source))
    return mounts


async def test_the_chart_watches_a_node_wherever_its_containerd_is(
    tmp_path: Path, node: Laid
) -> None:
    """No value names the runtime; nothing is made on the node, and it is subscribed.

    `kubectl exec` needs no flag to find the same.
    """
    it = variant("helm/auto")
    before = sorted((node.root / "run").iterdir())
    quick = ("--missed-grace=1s", "--relist-period=100ms", "--relist-max-duty=100%")
    async with run_image(
        tmp_path,
        *(*it.container["args"], *quick),
        mounts=_mounts(it, node.root),
        who=user(it, it.container),
        environ=environ_of(it.container),
    ) as container:

        async def streams() -> bool:
            return (await container.metrics()).stream == "streaming"

        async def saw_the_end() -> bool:
            seen = (await container.metrics()).counts("shadow_pleg_lifecycle_events_total")
            return seen.get(("ContainerRemoved", "sandbox"), 0) == 1

        await until(container.is_ready, "a first list", seconds=_PATIENCE_SECONDS)
        await until(streams, "a subscription", seconds=_PATIENCE_SECONDS)
        assert "this node can be watched" in await container.output("shadow-pleg", "check")
        async with node.containerd.pods() as cri:
            await live(cri, "web-1")
        await until(saw_the_end, "its end is seen", seconds=_PATIENCE_SECONDS)
        assert (await container.metrics()).missed == {}
        assert await container.stop() == 0
    assert sorted((node.root / "run").iterdir()) == before
