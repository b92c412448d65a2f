"""Which of several sockets is the kubelet's: its own word, who answers, who runs this pod."""

from collections.abc import AsyncIterator
from contextlib import AsyncExitStack, asynccontextmanager
from dataclasses import dataclass, field
from pathlib import Path

import pytest

from exporter.cri.finding import Node, find
from exporter.cri.kubelets import beneath
from exporter.errors import ConfigError, CriUnavailableError
from exporter.settings.sockets import KUBELET_FILES, PLACES, Place
from simulator.options import Runtime
from tests.support.runtimes import QUIET, grpc_without_cri, short_folder, simulated
from tests.support.scripted_runtime import ScriptedServer

CONTAINERD, CRIO, DOCKERD, K3S = (place.path for place in PLACES[:4])


@dataclass
class FakeNode:
    """The file system of a node; `at` has the runtimes by path."""

    root: Path
    at: dict[Path, ScriptedServer] = field(default_factory=dict)

    def file(self, path: Path | str, text: str) -> None:
        """Write a file of the node."""
        place = self.root / str(path).lstrip("/")
        place.parent.mkdir(parents=True, exist_ok=True)
        place.write_text(text)

    def process(self, number: int, *command: str, ids: str = "") -> None:
        """A process, as /proc shows it."""
        self.file(f"/proc/{number}/cmdline", "".join(f"{each}\0" for each in command))
        self.file(f"/proc/{number}/status", f"Name:\tx\nNSpid:\t{number}{ids}\n")

    async def found(self, pod_uid: str = "") -> list[tuple[Path, bool, str]]:
        """What is found: the node's own path, whether it is the one, and why."""
        return [
            (Path("/") / each.path.relative_to(self.root), each.chosen, each.why)
            for each in await find(Node(self.root, pod_uid))
        ]


@asynccontextmanager
async def node(*paths: Path, silent: tuple[Path, ...] = ()) -> AsyncIterator[FakeNode]:
    """A node with a runtime at each of these paths, and servers without the CRI at the others."""
    async with AsyncExitStack() as stack:
        fake = FakeNode(stack.enter_context(short_folder()))
        for path in (*paths, *silent):
            beneath(fake.root, path).parent.mkdir(parents=True, exist_ok=True)
        for path in paths:
            server = simulated(QUIET, at=beneath(fake.root, path))
            fake.at[path] = await stack.enter_async_context(server)
        for path in silent:
            other = await stack.enter_async_context(grpc_without_cri())
            beneath(fake.root, path).symlink_to(other)
        yield fake


@pytest.mark.parametrize("place", PLACES, ids=lambda place: place.used_by.replace(" ", "_"))
async def test_one_socket_is_found_wherever_a_distribution_has_it(place: Place) -> None:
    """Without asking anybody."""
    async with node(place.path) as fake:
        assert await fake.found() == [(place.path, True, "no other socket is there")]


async def test_a_link_to_a_socket_is_not_a_second_one() -> None:
    """As Bottlerocket keeps its old name; a link to nothing is none."""
    async with node(CONTAINERD) as fake:
        old = beneath(fake.root, Path("/run/dockershim.sock"))
        old.symlink_to("containerd/containerd.sock")
        beneath(fake.root, CRIO).parent.mkdir()
        beneath(fake.root, CRIO).symlink_to("gone.sock")
        assert await fake.found() == [(CONTAINERD, True, "no other socket is there")]


async def test_where_none_is_all_places_are_named() -> None:
    """An operator sees at once what is missing from the mounts."""
    async with node() as fake:
        with pytest.raises(CriUnavailableError) as caught:
            await fake.found()
    said = str(caught.value)
    assert all(f"unix://{beneath(fake.root, place.path)}" in said for place in PLACES)
    assert said.endswith(": start the runtime, or name its socket with --runtime-endpoint")


@pytest.mark.parametrize(
    "command",
    [
        ("/usr/bin/kubelet", f"--container-runtime-endpoint=unix://{CRIO}"),
        ("kubelet", "--container-runtime-endpoint", f"/var{CRIO}"),
        ("/usr/local/bin/kubelet", "--v=2", "--config=/etc/its/own.yaml"),
    ],
)
async def test_a_running_kubelet_decides(command: tuple[str, ...]) -> None:
    """By a flag in both spellings, or by its configuration; files of others do not count."""
    async with node(CONTAINERD, CRIO) as fake:
        fake.process(7, *command)
        fake.process(8, "/usr/bin/kubeletctl", f"--container-runtime-endpoint={CONTAINERD}")
        fake.file("/etc/its/own.yaml", f"a: 1\ncontainerRuntimeEndpoint: unix:///var{CRIO}\n")
        fake.file(KUBELET_FILES[0], f"containerRuntimeEndpoint: {CONTAINERD}\n")
        chosen, other = await fake.found()
        assert chosen[:2] == (CRIO, True)
        assert chosen[2].startswith("the kubelet's: ")
        assert other == (CONTAINERD, False, "not the kubelet's")


async def test_the_kubelet_of_a_node_in_a_container_does_not_decide() -> None:
    """The nodes of kind have kubelets that a look at the machine's processes shows, too."""
    async with node(CONTAINERD) as fake:
        fake.process(7, "kubelet", f"--container-runtime-endpoint={CRIO}", ids="\t99")
        assert await fake.found() == [(CONTAINERD, True, "no other socket is there")]


async def test_the_socket_of_a_running_kubelet_is_waited_for() -> None:
    """It may come after that of another runtime; so may any path of its own."""
    async with node(CONTAINERD) as fake:
        fake.process(7, "kubelet", "--container-runtime-endpoint=unix:///run/own/own.sock")
        chosen, _ = await fake.found()
        assert chosen[:2] == (Path("/run/own/own.sock"), True)


@pytest.mark.parametrize("file", KUBELET_FILES, ids=lambda path: path.name)
@pytest.mark.parametrize(
    "text",
    [
        "kind: KubeletConfiguration\ncontainerRuntimeEndpoint: unix://SOCKET\n",
        '{"kind": "KubeletConfiguration",\n "containerRuntimeEndpoint": "unix://SOCKET"}',
        'KUBELET_KUBEADM_ARGS="--container-runtime-endpoint=unix://SOCKET --pod-infra=x"\n',
    ],
    ids=["yaml", "json", "variables"],
)
async def test_a_kubelets_file_decides_where_no_process_is_seen(file: Path, text: str) -> None:
    """In YAML, in JSON and as kubeadm's variable."""
    async with node(CONTAINERD, K3S) as fake:
        fake.file(file, text.replace("SOCKET", str(K3S)))
        chosen, _ = await fake.found()
        assert chosen == (K3S, True, f"the kubelet's: {file}")


@pytest.mark.parametrize(
    "text",
    [
        'containerRuntimeEndpoint: ""\n',
        f"# containerRuntimeEndpoint: {CONTAINERD}\n",
        # Left behind by what was uninstalled.
        f"containerRuntimeEndpoint: unix://{CRIO}\n",
    ],
)
async def test_a_file_that_names_nothing_that_is_there_decides_nothing(text: str) -> None:
    """Such as the empty one of kubeadm."""
    async with node(CONTAINERD) as fake:
        fake.file(KUBELET_FILES[0], text)
        assert await fake.found() == [(CONTAINERD, True, "no other socket is there")]


async def test_kubelets_that_disagree_are_refused() -> None:
    """Two files of two distributions, and both sockets are there."""
    async with node(CONTAINERD, K3S) as fake:
        fake.file(KUBELET_FILES[0], f"containerRuntimeEndpoint: {CONTAINERD}\n")
        fake.file(KUBELET_FILES[-2], f"containerRuntimeEndpoint: {K3S}\n")
        with pytest.raises(ConfigError, match=r"^kubelets name more than one"):
            await fake.found()


async def test_of_several_the_only_one_that_answers_is_chosen() -> None:
    """Docker's own containerd has the CRI switched off."""
    async with node(DOCKERD, silent=(CONTAINERD,)) as fake:
        chosen, ignored = await fake.found()
        assert chosen[:2] == (DOCKERD, True)
        assert chosen[2].startswith("answers as containerd ")
        assert chosen[2].endswith(", and no other answers")
        assert ignored[:2] == (CONTAINERD, False)
        assert ignored[2].startswith("no CRI v1: Version: unimplemented")


async def test_of_several_that_answer_the_one_that_runs_this_pod_is_chosen() -> None:
    """A pod needs to see neither processes nor files of the node."""
    async with node(CONTAINERD, CRIO) as fake:
        runtime = fake.at[CRIO].runtime
        for each in fake.at.values():
            each.runtime.run_pod("other", "shop")
        runtime.run_pod("shadow-pleg-x", "shadow-pleg")
        *_, ours = runtime.sandboxes.values()
        chosen, other = await fake.found(ours.uid)
        assert chosen[:2] == (CRIO, True)
        assert chosen[2].endswith(", and runs this pod")
        assert other[:2] == (CONTAINERD, False)
        assert other[2].endswith(", but does not run this pod")


@pytest.mark.parametrize("pod_uid", ["", "of-another-node"])
async def test_several_that_answer_alike_are_refused_with_the_flag_to_set(pod_uid: str) -> None:
    """With all that there is to choose from."""
    async with node(CONTAINERD, CRIO) as fake:
        with pytest.raises(ConfigError) as caught:
            await fake.found(pod_uid)
    said = str(caught.value)
    assert said.startswith("several runtimes answer: ")
    assert said.endswith(": name the kubelet's with --runtime-endpoint")
    runtime = Runtime.CONTAINERD_2.value.replace("/", " ")
    for place in PLACES[:2]:
        path = beneath(fake.root, place.path)
        assert f"unix://{path} ({place.used_by}): answers as {runtime}" in said


async def test_several_of_which_none_answers_are_waited_for() -> None:
    """They may be starting."""
    async with node(silent=(CONTAINERD, CRIO)) as fake:
        with pytest.raises(CriUnavailableError, match=r"^no runtime answers: unix://"):
            await fake.found()
