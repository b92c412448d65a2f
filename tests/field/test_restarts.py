"""What stands for longer than one process of the exporter lives."""

import pytest

from exporter.model.events import Listed, ListedState, ObjectKind, Pod, Status
from exporter.model.facts import BeliefsShown, Believed, CgroupsRead
from exporter.model.findings import Verdict
from exporter.node.state import Tally
from tests.support.facts import Given, Play, Whole, populated

pytestmark = pytest.mark.quick

POD = Pod("shop", "cart", "u1")
RUNS, ENDED = ListedState.RUNNING, ListedState.EXITED
READY = Listed("p1", ObjectKind.SANDBOX, RUNS, "p1", "", POD)


def app(name: str, state: ListedState = RUNS) -> Listed:
    return Listed(name, ObjectKind.CONTAINER, state, "p1", "app", POD)


# What the lists show once something is wrong; whether the kernel, and the kubelet, show `c1`
# running.
WRONG: dict[str, tuple[Verdict, tuple[Listed, ...], bool, bool]] = {
    "listed as ended": (Verdict.STRAY, (app("c1", ENDED),), True, False),
    "not listed": (Verdict.STRAY, (), True, False),
    "two of a name": (Verdict.TWIN, (app("c1"), app("c2")), False, False),
    "a kubelet that has not noticed": (Verdict.STALE, (app("c1", ENDED),), False, True),
}


def seen(since: int, wrong: str, from_: int = 20) -> Play:
    """What a process sees that began then: a list every ten seconds, the kernel, the kubelet."""
    _, shown, runs, believed = WRONG[wrong]
    facts: list[Given] = [BeliefsShown(since + 0.2)]
    if runs:
        facts.append(populated("c1", since))
    if believed:
        status = Status("c1", RUNS, "app")
        facts.append(Believed(since + 0.1, POD, (status,), ()))
    for at in range(since, since + 80, 10):
        items = (READY, *(shown if at > from_ else (app("c1"),)))
        facts += [CgroupsRead(at + 0.5), Whole(at + 0.5, at + 0.5, items)]
        if believed:
            facts.append(Believed(at + 0.6, POD, (), (), asked=True))
    return Play(*facts)


def tally(of: Play) -> Tally:
    counted = Tally()
    for finding in of.findings:
        counted.add(finding, 0.0)
    return counted


@pytest.mark.parametrize("wrong", WRONG)
def test_a_restart_counts_nothing_again_that_stands(wrong: str) -> None:
    """On a cluster where a killed shim left two strays, `report` had five after three restarts.

    The second process has it in its gauge and as a case, and a gate that it fails stays closed.
    """
    verdict = WRONG[wrong][0]
    for began, total in ((1, 1), (101, 0)):
        process = seen(began, wrong)
        assert process.ledger.number(verdict) == 1
        (found,) = (each for each in process.findings if each.verdict is verdict)
        assert found.before is (total == 0)
        counted = tally(process)
        assert (counted.total(verdict), counted.found[verdict, None]) == (total, 1)


@pytest.mark.parametrize("wrong", WRONG)
def test_what_goes_wrong_after_the_first_list_is_counted(wrong: str) -> None:
    assert tally(seen(1, wrong, from_=5)).total(WRONG[wrong][0]) == 1
