"""What each generation of kubelet does with events: the table, row by row."""

import re

import pytest

from exporter.model.events import EventType
from exporter.runtimes.kubelets import GENERATIONS, REWRITE, generation_of

CREATED, STARTED, STOPPED, DELETED = EventType


@pytest.mark.parametrize(
    ("version", "name"),
    [
        ("v1.25.16", None),
        ("v1.26.0", "1.26"),
        ("v1.26.15+k3s1", "1.26"),
        ("v1.27.0", "1.27 to 1.35"),
        ("v1.30.4-gke.1348000", "1.27 to 1.35"),
        ("v1.35.9", "1.27 to 1.35"),
        ("1.36.2", "1.36"),
        ("v1.37.0-rc.1", "1.37"),
        ("v1.38.0-alpha.1", None),
        ("v2.27.0", None),
        ("", None),
        ("unknown", None),
    ],
)
def test_a_kubelets_generation_follows_from_its_version(version: str, name: str | None) -> None:
    """Of one that is not in the table nothing is assumed."""
    found = generation_of(version)
    assert (found and found.name) == name


@pytest.mark.parametrize(
    ("version", "relists", "errors"),
    [
        ("v1.26.0", 300.0, 5),
        ("v1.31.0", 300.0, 5),
        ("v1.36.0", 300.0, 5),
        ("v1.37.0", 1.0, 5),
    ],
)
def test_released_kubelets_try_again_at_once_and_give_up_for_good(
    version: str, relists: float, errors: int
) -> None:
    """Up to 1.36 they relist every 300 s meanwhile."""
    one = generation_of(version)
    assert one is not None
    assert (one.relist_seconds, one.retry_seconds) == (relists, 0.0)
    assert not one.gave_up(errors - 1)
    assert one.gave_up(errors)


def test_the_rewrite_never_gives_up() -> None:
    """It waits up to a minute between two attempts, and relists as if there were no events."""
    assert not REWRITE.gave_up(1e6)
    assert (REWRITE.relist_seconds, REWRITE.retry_seconds) == (1.0, 60.0)
    assert REWRITE not in GENERATIONS


@pytest.mark.parametrize(
    ("version", "event", "cost"),
    [
        ("v1.31.0", STARTED, "takes the pod's state from the event; .* up to 300 s later"),
        ("v1.37.0", STARTED, "does nothing on STARTED: the loss costs it nothing"),
        ("v1.36.0", STOPPED, "on STOPPED a kubelet 1.36 takes .* up to 300 s later"),
        ("v1.37.0", DELETED, "does nothing on DELETED: the loss costs it nothing"),
        ("v1.37.0", STOPPED, "on STOPPED a kubelet 1.37 relists that pod at once; .* 1 s later"),
        ("rewrite", CREATED, "does nothing on CREATED: the loss costs it nothing"),
        ("rewrite", STOPPED, "on STOPPED a kubelet the rewritten KEP relists .* up to 1 s later"),
    ],
)
def test_a_loss_costs_a_kubelet_what_it_would_have_done(
    version: str, event: EventType, cost: str
) -> None:
    """And the time until its next relist: since 1.37 only an exit asks for one."""
    one = generation_of(version) or REWRITE
    assert re.search(cost, one.loss(event))


def test_each_row_has_a_source_and_no_version_has_two_rows() -> None:
    """The table can be checked by others."""
    assert all("#" in row.source for row in (*GENERATIONS, REWRITE))
    minors = [minor for row in GENERATIONS for minor in row.minors]
    assert minors == list(range(26, 38))
