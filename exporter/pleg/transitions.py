"""Generic PLEG's transitions as a table: (old state, new state) to lifecycle events.

Blind spot, like the kubelet's: a container that begins and ends between two lists leaves no trace
in them. Source: kubelet `pkg/kubelet/pleg/generic.go`, `generateEvents`.
"""

from typing import Final

from exporter.model.events import Lifecycle, ListedState
from exporter.model.labels import IdentityEnum


class PlegState(IdentityEnum):
    """The kubelet's `plegContainerState`."""

    RUNNING = "running"
    EXITED = "exited"
    UNKNOWN = "unknown"
    NON_EXISTENT = "non-existent"


PLEG_STATE: Final = {
    ListedState.CREATED: PlegState.UNKNOWN,
    ListedState.UNKNOWN: PlegState.UNKNOWN,
    ListedState.RUNNING: PlegState.RUNNING,
    ListedState.EXITED: PlegState.EXITED,
    None: PlegState.NON_EXISTENT,
}

_CHANGED = (Lifecycle.CHANGED,)
_STARTED = (Lifecycle.STARTED,)
_DIED = (Lifecycle.DIED,)
_REMOVED = (Lifecycle.REMOVED,)
_DIED_AND_REMOVED = (Lifecycle.DIED, Lifecycle.REMOVED)

TRANSITIONS: Final[dict[tuple[PlegState, PlegState], tuple[Lifecycle, ...]]] = {
    (PlegState.RUNNING, PlegState.RUNNING): (),
    (PlegState.RUNNING, PlegState.EXITED): _DIED,
    (PlegState.RUNNING, PlegState.UNKNOWN): _CHANGED,
    (PlegState.RUNNING, PlegState.NON_EXISTENT): _DIED_AND_REMOVED,
    (PlegState.EXITED, PlegState.RUNNING): _STARTED,
    (PlegState.EXITED, PlegState.EXITED): (),
    (PlegState.EXITED, PlegState.UNKNOWN): _CHANGED,
    (PlegState.EXITED, PlegState.NON_EXISTENT): _REMOVED,
    (PlegState.UNKNOWN, PlegState.RUNNING): _STARTED,
    (PlegState.UNKNOWN, PlegState.EXITED): _DIED,
    (PlegState.UNKNOWN, PlegState.UNKNOWN): (),
    (PlegState.UNKNOWN, PlegState.NON_EXISTENT): _DIED_AND_REMOVED,
    (PlegState.NON_EXISTENT, PlegState.RUNNING): _STARTED,
    (PlegState.NON_EXISTENT, PlegState.EXITED): _DIED,
    (PlegState.NON_EXISTENT, PlegState.UNKNOWN): _CHANGED,
    (PlegState.NON_EXISTENT, PlegState.NON_EXISTENT): (),
}


def transition(old: ListedState | None, new: ListedState | None) -> tuple[Lifecycle, ...]:
    """The lifecycle events proven by one change in the lists; None means "not listed"."""
    return TRANSITIONS[PLEG_STATE[old], PLEG_STATE[new]]
