"""What the core makes of reports: OOM kills, what outlives an exporter, pods that do not end."""

from typing import Any

import pytest

from exporter.model.events import Listed, ListedState, ObjectKind, Pod, Status
from exporter.model.facts import BeliefsShown, Believed, CgroupsRead
from exporter.model.findings import Finding, Verdict
from exporter.node.state import Tally
from tests.pleg.test_oom import check
from tests.support.facts import Given, Play, Whole, emptied, ends, killed, populated

pytestmark = pytest.mark.quick

POD = Pod("shop", "cart", "u1")
RUNS, ENDED = ListedState.RUNNING, ListedState.EXITED


def sandbox(state: ListedState = RUNS) -> Listed:
    return Listed("p1", ObjectKind.SANDBOX, state, "p1", "", POD)


def app(name: str = "c1", state: ListedState = RUNS, pod: Pod | None = POD) -> Listed:
    return Listed(name, ObjectKind.CONTAINER, state, "p1", "app", pod)


OVER = emptied("c1", 20)
# On systemd a container's folder is gone as soon as it is empty: its pod's count is left.
OF_POD = killed(20, "")
REPORTS: dict[str, tuple[list[Given], list[str]]] = {
    # Workers of gunicorn were killed again and again. The pod stayed Running, with 0 restarts.
    "https://github.com/kubernetes/kubernetes/issues/69676": ([killed(20)], ["c1 survived"]),
    # containerd's shim began to watch for it after the start, and read the count when it was gone:
    # the reason stayed Error.
    "https://github.com/containerd/containerd/issues/12260": (
        [killed(20), OVER, ends(20.1, 137, "Error")],
        ["c1 announced_as_error"],
    ),
    "https://github.com/systemd/systemd/issues/40102": (
        [OF_POD, OVER, ends(20.1, 137, "Error")],
        ["c1 announced_as_error"],
    ),
    # `container_oom_events_total` was 0 on every node: its series went with the container.
    "https://github.com/google/cadvisor/issues/3015": (
        [OF_POD, OVER, ends(20.1)],
        ["c1 announced"],
    ),
    # A child was killed, init ended with 0, and the reason was OOMKilled: two facts in one word.
    "https://github.com/kubernetes/kubernetes/issues/104454": (
        [killed(20), OVER, ends(20.1, 0)],
        ["c1 survived", "c1 reason_only"],
    ),
    # An event told of an OOM at a limit; the count of kills had not risen, and that alone counts.
    "https://github.com/containerd/containerd/issues/7102": (
        [OVER, ends(20.1)],
        ["c1 reason_only"],
    ),
}


@pytest.mark.parametrize("between", [False, True])
@pytest.mark.parametrize(("story", "expected"), REPORTS.values(), ids=REPORTS)
def test_what_happened_to_a_process_is_found(
    story: list[Given], expected: list[str], *, between: bool
) -> None:
    """Of the container that it was in, with its pod, and once."""
    check(story, expected, between=between)


# What the lists show once something is wrong; whether the kernel, and the kubelet, show `c1`
# running.
WRONG: dict[str, tuple[Verdict, tuple[Listed, ...], bool, bool]] = {
    "listed as ended": (Verdict.STRAY, (app(state=ENDED),), True, False),
    "not listed": (Verdict.STRAY, (), True, False),
    "two of a name": (Verdict.TWIN, (app(), app("c2")), False, False),
    "a kubelet that has not noticed": (Verdict.STALE, (app(state=ENDED),), False, True),
}


def seen(since: int, wrong: str, from_: int) -> Play:
    """What a process sees that began then: a list every ten seconds, the kernel, the kubelet."""
    _, shown, runs, believed = WRONG[wrong]
    facts: list[Given] = [BeliefsShown(since + 0.2)]
    if runs:
        facts.append(populated("c1", since))
    if believed:
        status = Status("c1", RUNS, "app")
        facts.append(Believed(since + 0.1, POD, (status,), ()))
    for at in range(since, since + 80, 10):
        items = (sandbox(), *(shown if at > from_ else (app(),)))
        facts += [CgroupsRead(at + 0.5), Whole(at + 0.5, at + 0.5, items)]
        if believed:
            facts.append(Believed(at + 0.6, POD, (), (), asked=True))
    return Play(*facts)


@pytest.mark.parametrize("wrong", WRONG)
def test_a_restart_counts_nothing_again_that_stands(wrong: str) -> None:
    """On a cluster where a killed shim left two strays, `report` had five after three restarts.

    The second process has it in its gauge and as a case, and a gate that it fails stays closed.
    """
    verdict = WRONG[wrong][0]
    for since, from_, total in ((1, 20, 1), (1, 5, 1), (101, 20, 0)):
        process, counted = seen(since, wrong, from_), Tally()
        for each in process.findings:
            counted.add(each, 0.0)
        assert process.ledger.number(verdict) == 1
        (found,) = (each for each in process.findings if each.verdict is verdict)
        assert found.before is (total == 0)
        assert (counted.total(verdict), counted.found[verdict, None]) == (total, 1)


OVERDUE = (Verdict.OVERDUE_PROCESS, Verdict.OVERDUE_RUNTIME, Verdict.OVERDUE_KUBELET)
PROCESS, RUNTIME, KUBELET = OVERDUE
SINCE, GRACE = 10.0, 5.0


def overdue(
    state: ListedState,
    *kernel: Given,
    home: ListedState = RUNS,
    until: float = 71.0,
    patience: float = GRACE,
    keeps: bool = True,
) -> list[Finding]:
    """What is found of a pod that is deleted at 10 s, once the kubelet is asked again.

    `state`, `home`: as all later lists show container and sandbox. `keeps`: the kubelet still has
    the pod then.
    """
    facts: list[Given] = [
        Believed(1.2, POD, (Status("c1", RUNS, "app"),), ()),
        BeliefsShown(1.3),
        Believed(SINCE, POD, (), (), due=SINCE + patience),
        *kernel,
    ]
    for at in range(1, int(until), 10):
        over = at > SINCE
        items = sandbox(home if over else RUNS), app(state=state if over else RUNS, pod=None)
        facts += [CgroupsRead(at + 0.05), Whole(at + 0.05, at + 0.06, items)]
    gone = () if keeps else ("c1",)
    due = SINCE + patience if keeps else None
    facts.append(Believed(until, POD, (), gone, not keeps, asked=True, due=due))
    return [each for each in Play(*facts).findings if each.verdict in OVERDUE]


LIVES = (populated("c1", 1.01),)
DIED = (*LIVES, emptied("c1", 12.0))


@pytest.mark.parametrize(
    ("state", "kernel", "more", "found"),
    [
        # A stop took 86,400 s, and the pod stayed Terminating for a day; the runtime is not late.
        # https://github.com/cri-o/cri-o/issues/9754, https://github.com/cri-o/cri-o/issues/6699
        (RUNS, LIVES, {}, [PROCESS]),
        # https://github.com/containerd/containerd/issues/10636: StopContainer kept failing,
        # although no process was left.
        (RUNS, DIED, {}, [RUNTIME]),
        # https://github.com/kubernetes/kubernetes/issues/93925: all containers had exited, and the
        # pod stayed Terminating.
        (ENDED, (), {"home": ENDED}, [KUBELET]),
        # Its grace is not over, or only just.
        (RUNS, LIVES, {"patience": 100.0}, []),
        (RUNS, LIVES, {"until": 40.0}, []),
        # The kubelet, asked again, has dropped it.
        (ENDED, (), {"home": ENDED, "keeps": False}, []),
        # Who is late with a sandbox, or with processes that are not seen, is not known.
        (ENDED, (), {}, []),
        (RUNS, (), {}, []),
    ],
)
def test_who_is_late_is_named_and_nobody_without_proof(
    state: ListedState, kernel: tuple[Given, ...], more: dict[str, Any], found: list[Verdict]
) -> None:
    late = overdue(state, *kernel, **more)
    assert [each.verdict for each in late] == found
    assert all((each.container_id, each.pod) == ("c1", POD) for each in late)
