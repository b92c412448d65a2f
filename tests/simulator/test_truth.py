"""What the truth expects of small stories, counted by hand."""

from __future__ import annotations

import pytest

from exporter.pleg.events import EventType, Lifecycle, ObjectKind
from exporter.simulator.options import Options, Runtime
from exporter.simulator.truth import Row
from tests.support.witness import Witness, disagreements

pytestmark = pytest.mark.quick

CONTAINER, SANDBOX = ObjectKind.CONTAINER, ObjectKind.SANDBOX


def watched(runtime: Runtime = Runtime.CONTAINERD_2) -> Witness:
    """A runtime whose observer has its baseline and its stream."""
    witness = Witness(Options(churn=0, runtime=runtime))
    witness.subscribe()
    witness.relist()
    return witness


def expected(witness: Witness, name: str) -> dict[tuple[Lifecycle, ObjectKind], int]:
    """All totals of that name that are not 0, once everything has settled."""
    witness.settle()
    assert disagreements(witness) == []
    rows = witness.runtime.truth.summary().rows
    return {(row.event, row.object): getattr(row, name) for row in rows if getattr(row, name)}


def a_container(witness: Witness) -> str:
    """One that is listed RUNNING, and of which nothing was lost."""
    container = witness.runtime.create(witness.runtime.run_pod("web"), "app")
    witness.runtime.start(container)
    witness.relist()
    return container


def test_nothing_lost_is_nothing_missed() -> None:
    """A whole life, fully announced."""
    witness = watched()
    container = a_container(witness)
    witness.runtime.exit(container)
    witness.relist()
    witness.runtime.remove(container)
    assert expected(witness, "lost") == {}
    assert expected(witness, "happened")[Lifecycle.DIED, CONTAINER] == 1


@pytest.mark.parametrize(
    ("kind", "event"),
    [(EventType.STOPPED, Lifecycle.DIED), (EventType.DELETED, Lifecycle.REMOVED)],
)
def test_what_a_relist_proves_is_missed(kind: EventType, event: Lifecycle) -> None:
    """The lists show both the exit and the removal."""
    witness = watched()
    container = a_container(witness)
    witness.runtime.outbox.drop_next(container, kind)
    witness.runtime.exit(container)
    witness.relist()
    witness.runtime.remove(container)
    assert expected(witness, "missed") == {(event, CONTAINER): 1}
    assert expected(witness, "lost") == {(event, CONTAINER): 1}


def test_what_only_a_later_announcement_proves_is_a_gap() -> None:
    """CREATED and then RUNNING between two lists: the creation is nowhere listed."""
    witness = watched()
    witness.runtime.outbox.drop_next(None, EventType.CREATED)
    a_container(witness)
    # The sandbox's creation came first.
    assert expected(witness, "gaps") == {(Lifecycle.CHANGED, SANDBOX): 1}


def test_what_nothing_can_prove_is_unprovable() -> None:
    """A life between two lists of which only the creation was announced, and its end."""
    witness = watched()
    pod = witness.runtime.run_pod("web")
    container = witness.runtime.create(pod, "app")
    witness.runtime.outbox.drop_next(container, EventType.STARTED)
    witness.runtime.outbox.drop_next(container, EventType.STOPPED)
    witness.runtime.start(container)
    witness.runtime.remove(container)
    assert expected(witness, "unprovable") == {
        (Lifecycle.STARTED, CONTAINER): 1,
        (Lifecycle.DIED, CONTAINER): 1,
    }
    assert expected(witness, "missed") == {}


def test_what_the_stream_named_and_no_list_shows_was_removed() -> None:
    """Announced as running, never listed, its end lost: two missed events."""
    witness = watched()
    container = witness.runtime.create(witness.runtime.run_pod("web"), "app")
    witness.runtime.start(container)
    witness.runtime.outbox.drop_next(container, EventType.STOPPED)
    witness.runtime.outbox.drop_next(container, EventType.DELETED)
    witness.runtime.remove(container)
    assert expected(witness, "missed") == {
        (Lifecycle.DIED, CONTAINER): 1,
        (Lifecycle.REMOVED, CONTAINER): 1,
    }


def test_a_failed_start_is_by_design_once_the_status_was_asked() -> None:
    """Listed EXITED with started_at 0."""
    witness = watched()
    container = witness.runtime.create(witness.runtime.run_pod("web"), "app")
    witness.relist()
    witness.runtime.fail_start(container)
    assert expected(witness, "by_design") == {(Lifecycle.DIED, CONTAINER): 1}
    assert expected(witness, "missed") == {}


def test_a_failed_sandbox_is_by_design_where_it_stays_listed() -> None:
    """Only containerd 1.7 leaves one behind."""
    witness = watched(Runtime.CONTAINERD_1)
    assert witness.runtime.fail_pod("web") is not None
    assert watched().runtime.fail_pod("web") is None
    assert expected(witness, "by_design") == {(Lifecycle.DIED, SANDBOX): 1}


def test_crio_announces_no_end_of_what_goes_with_its_pod() -> None:
    """The removals of the sandbox and of the container inside are by design."""
    witness = watched(Runtime.CRIO)
    a_container(witness)
    pod = witness.runtime.sandboxes()[0].id
    witness.runtime.stop_pod(pod)
    witness.relist()
    witness.runtime.remove_pod(pod)
    assert expected(witness, "by_design") == {
        (Lifecycle.REMOVED, CONTAINER): 1,
        (Lifecycle.REMOVED, SANDBOX): 1,
    }


def test_crio_announces_no_stop_of_a_ready_pod_that_is_removed() -> None:
    """Its container's exit is announced, its own is not."""
    witness = watched(Runtime.CRIO)
    a_container(witness)
    witness.runtime.remove_pod(witness.runtime.sandboxes()[0].id)
    assert expected(witness, "by_design")[Lifecycle.DIED, SANDBOX] == 1
    assert expected(witness, "missed") == {}


def test_what_happens_while_nobody_listens_is_lost() -> None:
    """The runtime was down: the exit is never announced, but listed."""
    witness = watched()
    container = a_container(witness)
    witness.restart()
    witness.runtime.exit(container)
    witness.runtime.come_up()
    witness.subscribe()
    assert expected(witness, "missed") == {(Lifecycle.DIED, CONTAINER): 1}


def test_what_is_under_way_is_not_lost_yet() -> None:
    """A held announcement that comes in the end was never missed."""
    witness = watched()
    container = a_container(witness)
    witness.runtime.outbox.hold_next(container, EventType.STOPPED)
    witness.runtime.exit(container)
    witness.relist(1.0)
    row: Row = witness.runtime.truth.summary().row(Lifecycle.DIED, CONTAINER)
    assert (row.under_way, row.lost) == (1, 0)
    witness.runtime.outbox.release()
    witness.read()
    assert expected(witness, "lost") == {}


def test_prehistory_is_nobodys_loss() -> None:
    """What came before the first relist can be neither proven nor missed."""
    witness = Witness(Options(churn=0, drop=1.0))
    container = witness.runtime.create(witness.runtime.run_pod("web"), "app")
    witness.runtime.start(container)
    gone = witness.runtime.create(witness.runtime.sandboxes()[0].id, "gone")
    witness.runtime.remove(gone)
    witness.relist()
    witness.subscribe()
    assert expected(witness, "lost") == {}
    assert expected(witness, "happened") == {}


def test_one_announcement_that_comes_twice_is_one_duplicate() -> None:
    """On one stream; nothing is missed for it."""
    witness = Witness(Options(churn=0, duplicate=1.0))
    witness.subscribe()
    witness.relist()
    a_container(witness)
    doubled = expected(witness, "duplicates")
    assert doubled[Lifecycle.STARTED, CONTAINER] == 1
    assert expected(witness, "lost") == {}


def test_lives_that_are_over_and_judged_are_forgotten() -> None:
    """Totals stay, records go: the truth does not grow for ever."""
    witness = watched()
    for _ in range(20):
        container = a_container(witness)
        witness.runtime.outbox.drop_next(container, EventType.DELETED)
        witness.runtime.remove(container)
        witness.runtime.remove_pod(witness.runtime.sandboxes()[0].id)
    witness.settle()
    assert witness.runtime.truth.open_lives == 0
    assert expected(witness, "missed") == {(Lifecycle.REMOVED, CONTAINER): 20}
