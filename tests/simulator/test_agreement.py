"""The truth and an observer's ledger reach the same numbers by different roads."""

from __future__ import annotations

from hypothesis import given, settings
from hypothesis import strategies as st

from exporter.simulator.options import Options, Runtime
from tests.support.witness import GRACE, Witness, disagreements

MOVES = (
    "run_pod",
    "create",
    "create",
    "start",
    "start",
    "start",
    "fail_start",
    "exit",
    "exit",
    "stop",
    "remove",
    "remove",
    "stop_pod",
    "remove_pod",
    "kill_sandbox",
    "read",
    "relist",
    "relist",
    "relist",
)
# On CRI-O a loss just before a pod's removal cannot be told from what it never announces.
CRIO_MOVES = (*(move for move in MOVES if move != "remove_pod"), "end_pod")
STREAM_MOVES = ("disconnect", "leave", "restart", "back", "back")


def act(witness: Witness, move: str, pick: int) -> None:
    """One move, on the pod or container that `pick` points at."""
    runtime = witness.runtime
    sandboxes = runtime.sandboxes()
    containers = runtime.containers()
    if move in ("read", *STREAM_MOVES):
        getattr(witness, move)()
    elif move == "relist":
        # What is kept for longer than the grace comes too late for some verdicts.
        witness.back()
        witness.relist(GRACE + 1.0 + pick % 10)
    elif move == "run_pod":
        runtime.run_pod(f"pod-{pick}")
    elif move == "create":
        ready = [one for one in sandboxes if one.ready]
        if ready:
            runtime.create(ready[pick % len(ready)].id, "app")
    elif move == "end_pod":
        end_pod(witness, pick)
    elif move.endswith(("_pod", "_sandbox")):
        if sandboxes:
            getattr(runtime, move)(sandboxes[pick % len(sandboxes)].id)
    elif containers:
        getattr(runtime, move)(containers[pick % len(containers)].id)


def end_pod(witness: Witness, pick: int) -> None:
    """Stop a pod, let everything settle, remove it."""
    runtime = witness.runtime
    for sandbox in runtime.sandboxes()[pick % 3 :][:1]:
        witness.back()
        runtime.stop_pod(sandbox.id)
        for _ in range(3):
            witness.relist()
        runtime.remove_pod(sandbox.id)


def agree(options: Options, story: list[tuple[str, int]]) -> None:
    """Play the story, let everything settle, and compare."""
    witness = Witness(options)
    witness.subscribe()
    witness.relist()
    for move, pick in story:
        act(witness, move, pick)
    witness.back()
    if options.runtime is Runtime.CRIO:
        # There the ledger learns of a gap only when the container's life is over.
        for container in witness.runtime.containers():
            witness.runtime.remove(container.id)
    witness.settle()
    assert disagreements(witness) == []


def stories(moves: tuple[str, ...]) -> st.SearchStrategy[list[tuple[str, int]]]:
    """Up to 60 moves, each on something that an integer picks."""
    return st.lists(st.tuples(st.sampled_from(moves), st.integers(0, 50)), max_size=60)


@settings(max_examples=300, deadline=None)
@given(
    runtime=st.sampled_from((Runtime.CONTAINERD_2, Runtime.CONTAINERD_1)),
    drop=st.sampled_from((0.0, 0.1, 0.5, 1.0)),
    doubled=st.sampled_from((0.0, 0.3)),
    seed=st.integers(0, 10_000),
    story=stories(MOVES),
)
def test_losses_and_copies_agree(
    runtime: Runtime,
    drop: float,
    doubled: float,
    seed: int,
    story: list[tuple[str, int]],
) -> None:
    """Whatever lives and is lost, the ledger counts exactly what the truth expects."""
    options = Options(
        churn=0, drop=drop, duplicate=doubled, reorder=doubled, runtime=runtime, seed=seed
    )
    agree(options, story)


@settings(max_examples=200, deadline=None)
@given(
    runtime=st.sampled_from((Runtime.CONTAINERD_2, Runtime.CONTAINERD_1)),
    drop=st.sampled_from((0.0, 0.3)),
    seed=st.integers(0, 10_000),
    story=stories(MOVES + STREAM_MOVES),
)
def test_interruptions_agree(
    runtime: Runtime, drop: float, seed: int, story: list[tuple[str, int]]
) -> None:
    """Streams that end and begin again change who is to blame, not the sums."""
    agree(Options(churn=0, drop=drop, runtime=runtime, seed=seed), story)


@settings(max_examples=200, deadline=None)
@given(
    drop=st.sampled_from((0.0, 0.1, 0.5)),
    seed=st.integers(0, 10_000),
    story=stories(CRIO_MOVES + STREAM_MOVES),
)
def test_crio_agrees_where_its_pods_end_slowly(
    drop: float, seed: int, story: list[tuple[str, int]]
) -> None:
    """What CRI-O leaves out is by design; what it loses besides is told apart, given time."""
    agree(Options(churn=0, drop=drop, runtime=Runtime.CRIO, seed=seed), story)
