"""Pods that stay Terminating: whose fault it is."""

from typing import Any

import pytest

from exporter.model.events import Listed, ListedState, ObjectKind, Pod, Status
from exporter.model.facts import BeliefsShown, Believed, CgroupsRead
from exporter.model.findings import Finding, Verdict
from tests.support.facts import Given, Play, Whole, emptied, populated

pytestmark = pytest.mark.quick

POD = Pod("shop", "cart", "u1")
RUNS, ENDED = ListedState.RUNNING, ListedState.EXITED
OVERDUE = (Verdict.OVERDUE_PROCESS, Verdict.OVERDUE_RUNTIME, Verdict.OVERDUE_KUBELET)
SINCE, GRACE = 10.0, 5.0


def overdue(
    state: ListedState,
    *kernel: Given,
    sandbox: ListedState = RUNS,
    until: float = 71.0,
    patience: float = GRACE,
    keeps: bool = True,
) -> list[Finding]:
    """What is found of a pod that is deleted at 10 s, once the kubelet is asked again.

    `state`, `sandbox`: as all later lists show them. `keeps`: the kubelet still has the pod then.
    """
    status = Status("c1", RUNS, "app")
    facts: list[tuple[float, Given]] = [
        (1.2, Believed(1.2, POD, (status,), ())),
        (1.3, BeliefsShown(1.3)),
        (SINCE, Believed(SINCE, POD, (), (), due=SINCE + patience)),
        *((fact.at, fact) for fact in kernel if not isinstance(fact, CgroupsRead)),  # type: ignore[union-attr] # they have a time
    ]
    for at in range(1, int(until), 10):
        over = at > SINCE
        items = (
            Listed("p1", ObjectKind.SANDBOX, sandbox if over else RUNS, "p1", "", POD),
            Listed("c1", ObjectKind.CONTAINER, state if over else RUNS, "p1", "app", None),
        )
        read = at + 0.05
        facts += [(read, CgroupsRead(read)), (at + 0.06, Whole(read, at + 0.06, items))]
    gone = () if keeps else ("c1",)
    due = SINCE + patience if keeps else None
    facts.append((until, Believed(until, POD, (), gone, not keeps, asked=True, due=due)))
    play = Play(*(fact for _, fact in sorted(facts, key=lambda each: each[0])))
    return [each for each in play.findings if each.verdict in OVERDUE]


ALIVE = populated("c1", 1.01, "u1")
LIVES: tuple[Given, ...] = (ALIVE,)
DIED: tuple[Given, ...] = (ALIVE, emptied("c1", 12.0))


PROCESS, RUNTIME, KUBELET = OVERDUE


@pytest.mark.parametrize(
    ("state", "kernel", "more", "found"),
    [
        # A stop took 86,400 s, and the pod stayed Terminating for a day; the runtime is not late.
        # https://github.com/cri-o/cri-o/issues/9754, https://github.com/cri-o/cri-o/issues/6699
        (RUNS, LIVES, {}, [(PROCESS, "c1")]),
        # https://github.com/containerd/containerd/issues/10636: StopContainer kept failing,
        # although no process was left.
        (RUNS, DIED, {}, [(RUNTIME, "c1")]),
        # https://github.com/kubernetes/kubernetes/issues/93925: all containers had exited, and the
        # pod stayed Terminating.
        (ENDED, (), {"sandbox": ENDED}, [(KUBELET, "c1")]),
        # Its grace is not over, or only just.
        (RUNS, LIVES, {"patience": 100.0}, []),
        (RUNS, LIVES, {"until": 40.0}, []),
        # The kubelet, asked again, has dropped it.
        (ENDED, (), {"sandbox": ENDED, "keeps": False}, []),
        # Who is late with a sandbox, or with processes that are not seen, is not known.
        (ENDED, (), {}, []),
        (RUNS, (), {}, []),
    ],
)
def test_who_is_late_is_named_and_nobody_without_proof(
    state: ListedState,
    kernel: tuple[Given, ...],
    more: dict[str, Any],
    found: list[tuple[Verdict, str]],
) -> None:
    late = overdue(state, *kernel, **more)
    assert [(each.verdict, each.container_id) for each in late] == found
    assert all(each.pod == POD for each in late)
