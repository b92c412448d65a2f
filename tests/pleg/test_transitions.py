"""Generic PLEG's table, cell by cell."""

from itertools import product

import pytest

from exporter.model.events import ANNOUNCES, EventType, Lifecycle, ListedState
from exporter.pleg.relist import PLEG_STATE, TRANSITIONS, PlegState, transition

CHANGED, STARTED, DIED, REMOVED = Lifecycle
STATES = (PlegState.RUNNING, PlegState.EXITED, PlegState.UNKNOWN, PlegState.NON_EXISTENT)

# Rows: the old state. Columns: the new one. Both in the order of STATES.
CELLS = (
    ((), (DIED,), (CHANGED,), (DIED, REMOVED)),
    ((STARTED,), (), (CHANGED,), (REMOVED,)),
    ((STARTED,), (DIED,), (), (DIED, REMOVED)),
    ((STARTED,), (DIED,), (CHANGED,), ()),
)


def test_the_table_is_complete() -> None:
    assert set(TRANSITIONS) == set(product(PlegState, PlegState))


@pytest.mark.parametrize(("row", "column"), list(product(range(4), range(4))))
def test_each_cell_is_the_kubelets(row: int, column: int) -> None:
    assert TRANSITIONS[STATES[row], STATES[column]] == CELLS[row][column]


def test_every_listed_state_and_its_absence_has_a_pleg_state() -> None:
    """CREATED is unknown to the kubelet, as is whatever a runtime cannot name."""
    assert PLEG_STATE == {
        ListedState.CREATED: PlegState.UNKNOWN,
        ListedState.UNKNOWN: PlegState.UNKNOWN,
        ListedState.RUNNING: PlegState.RUNNING,
        ListedState.EXITED: PlegState.EXITED,
        None: PlegState.NON_EXISTENT,
    }


def test_a_change_in_the_lists_proves_what_the_kubelet_would_emit() -> None:
    assert transition(None, ListedState.CREATED) == (CHANGED,)
    assert transition(ListedState.CREATED, ListedState.UNKNOWN) == ()
    assert transition(ListedState.RUNNING, None) == (DIED, REMOVED)


def test_each_announcement_stands_for_one_lifecycle_event() -> None:
    assert [event.announces for event in EventType] == [CHANGED, STARTED, DIED, REMOVED]
    assert set(ANNOUNCES) == set(EventType)


def test_lifecycle_events_are_labelled_as_the_kubelet_names_them() -> None:
    """These are label values of the metrics."""
    assert [event.label for event in Lifecycle] == [
        "ContainerChanged",
        "ContainerStarted",
        "ContainerDied",
        "ContainerRemoved",
    ]
