"""Why an announcement was missed: which interval of the stream counts for each cause."""

import pytest

from exporter.pleg.facts import Discarded, Fact, StreamDown, StreamRefused, StreamUnproven
from exporter.pleg.profiles import Never
from tests.support.facts import (
    CREATED,
    READY,
    RUNNING,
    beat,
    cause_of,
    created,
    profile,
    relist,
    taking,
    up,
)

C1_STARTS = (relist(10, c1=CREATED), relist(20, c1=RUNNING), relist(30, c1=RUNNING))


# --- silent, stream_down, discarded -------------------------------------------


def test_a_miss_while_the_stream_was_up_is_silent() -> None:
    """Only the runtime can have lost it. This cause pages."""
    assert cause_of("c1 ContainerStarted", up(), *C1_STARTS) == "silent"


@pytest.mark.parametrize(
    ("down", "back", "cause"),
    [
        (8, 9.4, "silent"),
        (8, 9.9, "stream_down"),
        (8, 10.1, "stream_down"),
        (12, 13, "stream_down"),
        (20.5, 21, "stream_down"),
        (24.9, 29, "stream_down"),
        (25.1, 29, "stream_down"),
    ],
)
def test_an_outage_counts_from_the_relist_before_until_the_announcement_is_lost(
    down: float, back: float, cause: str
) -> None:
    """The change came after the relist at 10 and was proven at 20; no younger event came since."""
    watch = (up(), StreamDown(down), up(back))
    assert cause_of("c1 ContainerStarted", *watch, *C1_STARTS) == cause


@pytest.mark.parametrize(
    ("at", "cause"),
    [
        (9.9, "silent"),
        (10.1, "discarded"),
        (19, "discarded"),
        (25.1, "discarded"),
    ],
)
def test_so_do_events_that_this_process_dropped(at: float, cause: str) -> None:
    """One of them might have been the one."""
    assert cause_of("c1 ContainerStarted", up(), Discarded(at), *C1_STARTS) == cause


@pytest.mark.parametrize("fact", [StreamDown(26), Discarded(26), StreamUnproven(26)])
@pytest.mark.parametrize(("made", "lost"), [(24.9, False), (25, False), (25.1, True)])
def test_a_younger_event_proves_the_loss_whatever_happens_next(
    fact: Fact, made: float, *, lost: bool
) -> None:
    """Proven at 20, so it had until 25: what comes over the same watch and is younger proves it."""
    facts = (up(), *C1_STARTS[:2], beat(made), fact, up(28), C1_STARTS[2], relist(60, c1=RUNNING))
    assert (cause_of("c1 ContainerStarted", *facts) == "silent") is lost


def test_the_interval_begins_where_the_relist_before_was_requested() -> None:
    """It may have looked before it was complete."""
    before = taking(5, relist(5, c1=CREATED))
    for at, cause in ((4.9, "silent"), (5.1, "discarded")):
        facts = (up(), relist(1, c1=CREATED), Discarded(at), before, *C1_STARTS[1:])
        assert cause_of("c1 ContainerStarted", *facts) == cause


def test_a_stream_that_never_was_up_is_down() -> None:
    """Until the first subscription."""
    assert cause_of("c1 ContainerStarted", *C1_STARTS) == "stream_down"


def test_a_subscription_that_takes_over_leaves_no_outage() -> None:
    """The stream was never down in between."""
    takes_over = (C1_STARTS[0], up(15), beat(15.1), relist(16, c1=CREATED), *C1_STARTS[1:])
    assert cause_of("c1 ContainerStarted", up(), *takes_over) == "silent"


def test_a_refused_stream_is_down_until_it_is_up() -> None:
    """There was no stream since the relist before the proof: not the runtime's fault."""
    facts = (up(), relist(1), StreamRefused(2), relist(3), up(4))
    assert cause_of("c1 ContainerStarted", *facts, *C1_STARTS) == "silent"
    soon = (relist(5, c1=RUNNING), relist(20))
    assert cause_of("c1 ContainerStarted", *facts, *soon) == "stream_down"


def test_a_stream_that_is_down_after_it_was_refused_is_judged_again() -> None:
    """The exporter tries to subscribe now."""
    facts = (StreamRefused(0), StreamDown(0.5))
    assert cause_of("c1 ContainerStarted", *facts, *C1_STARTS) == "stream_down"


def test_each_drop_excuses_the_steps_that_waited() -> None:
    """One before, one after the second proof."""
    first = (relist(1), relist(2, c1=RUNNING), Discarded(3), relist(8, c1=RUNNING))
    second = (relist(10, c1=RUNNING, c2=RUNNING), Discarded(11), relist(20))
    assert cause_of("c1 ContainerStarted", up(), *first, *second) == "discarded"
    assert cause_of("c2 ContainerStarted", up(), *first, *second) == "discarded"


def test_an_outage_outweighs_a_drop() -> None:
    """The stream was down, and events were dropped too."""
    facts = (up(), StreamDown(12), up(13), Discarded(14), *C1_STARTS)
    assert cause_of("c1 ContainerStarted", *facts) == "stream_down"


def test_the_profile_outweighs_an_outage() -> None:
    """It would not have been announced either way."""
    facts = (relist(1), relist(2, p1=READY), relist(3), relist(20))
    rules = profile(Never.SANDBOX_REMOVED)
    assert cause_of("p1 ContainerRemoved", *facts, profile=rules) == "by_design"


@pytest.mark.parametrize(
    ("fact", "cause"), [(StreamDown(4), "stream_down"), (Discarded(4), "discarded")]
)
def test_a_container_that_disappeared_is_excused_as_any_other(fact: Fact, cause: str) -> None:
    """From the relist before the one that did not show it, until the grace after that."""
    facts = (up(), relist(1), created("c1", 2), relist(3), fact, relist(20))
    assert cause_of("c1 ContainerRemoved", *facts) == cause
