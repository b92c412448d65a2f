"""Why a verdict was reached, as a person reads it: every verdict has its words, and true ones."""

import pytest
from hypothesis import given

from exporter.evidence.reasons import why
from exporter.model.events import Inquiry, Lifecycle
from exporter.model.facts import Discarded, Inquired, StreamDown, learnt
from exporter.model.findings import Cause, Finding, Verdict
from exporter.model.labels import Never
from exporter.pleg.entry import Entry
from exporter.pleg.ledger import Ledger
from exporter.pleg.steps import Exit
from exporter.runtimes.known import PROFILES
from exporter.runtimes.runtime import Profile
from tests.support.facts import (
    CONTAINERD_2,
    CREATED,
    CRIO,
    ELSEWHERE,
    EXITED,
    GRACE,
    NOTREADY,
    READY,
    RUNNING,
    Told,
    created,
    deleted,
    emptied,
    facts_of,
    found,
    lively,
    looked,
    populated,
    relist,
    started,
    stopped,
    up,
    wall_ns,
)
from tests.support.scenarios import any_logs
from tests.support.searching import examples

pytestmark = pytest.mark.quick

Reasoned = tuple[Finding, tuple[str, ...]]


def reasoned(*facts: Told, profile: Profile = CONTAINERD_2) -> list[Reasoned]:
    """Every finding of a story with its reasons."""
    ledger = Ledger(profile, GRACE)
    told = []
    for fact in facts_of(lively(facts)):
        for finding in ledger.take(fact).findings:
            entry = ledger.known(finding.container_id)
            told.append((finding, why(finding, entry, profile, GRACE, learnt(fact))))
    return [each for each in told if each[0].container_id != ELSEWHERE]


def the(verdict: Verdict, told: list[Reasoned]) -> tuple[str, ...]:
    """The reasons of the one finding of that verdict."""
    (reasons,) = (reasons for finding, reasons in told if finding.verdict is verdict)
    return reasons


SILENT = (up(), relist(1), relist(2, c1=RUNNING), relist(10, c1=RUNNING))


def test_a_silent_miss_is_argued_in_full() -> None:
    """Who proves it, that nothing came in time, that no rule excuses it, and whose fault it is."""
    assert the(Verdict.MISSED, reasoned(*SILENT)) == (
        "the relist that completed 8.000 s ago proves it",
        (
            "no STARTED came within the grace of 5 s, nor until this relist, which was requested"
            " after that"
        ),
        "no rule of the runtime's profile excuses it",
        (
            "silent: lost by the runtime or on its way: a younger event came over the same"
            " subscription"
        ),
    )


IN_QUESTION = "undecided: no witness saw it run, and ContainerStatus can no longer say"
EXIT = (up(), relist(1), relist(2, c1=CREATED), relist(3, c1=EXITED), relist(20))


@pytest.mark.parametrize(
    ("facts", "doubted"),
    [
        (EXIT, True),
        ((*EXIT[:4], Inquired(4, "c1", Inquiry.STARTED), EXIT[4]), False),
        ((*EXIT[:3], relist(3, c1=RUNNING), relist(4, c1=EXITED), EXIT[4]), False),
        ((up(), relist(1), relist(3, p1=NOTREADY), relist(20, p1=NOTREADY)), False),
    ],
    ids=["never-seen-to-run", "asked", "listed-running", "sandbox"],
)
def test_an_exit_that_may_be_a_failed_start_says_so(facts: tuple[Told, ...], doubted: bool) -> None:  # noqa: FBT001 -- a parameter
    """Nothing but `ContainerStatus` tells the two apart, and it was too late for that."""
    told = reasoned(*facts)
    verdict = Verdict.UNDECIDED if doubted else Verdict.MISSED
    (reasons,) = (r for f, r in told if f.verdict is verdict and f.event is Lifecycle.DIED)
    assert reasons[-1].startswith(IN_QUESTION if doubted else "silent: ")


@pytest.mark.parametrize(
    ("fact", "begins"),
    [(StreamDown(3), "stream_down: the subscription"), (Discarded(3), "discarded: dropped")],
)
def test_what_excuses_the_runtime_is_named(fact: Told, begins: str) -> None:
    """An outage or an overflow of our own."""
    told = reasoned(*SILENT[:3], fact, SILENT[3])
    assert the(Verdict.MISSED, told)[-1].startswith(begins)


@pytest.mark.parametrize("rule", Never)
def test_the_rule_of_the_profile_that_was_applied_is_quoted(rule: Never) -> None:
    """In exactly the words of the profile's table."""
    ledger = Ledger(CRIO, GRACE)
    finding = [found for fact in facts_of(lively(SILENT)) for found in ledger.take(fact).findings][
        -1
    ]
    by_design = finding._replace(cause=Cause.BY_DESIGN, rule=rule)
    reasons = why(by_design, ledger.known("c1"), CRIO, GRACE, 20.0)
    assert reasons[-1] == f"by_design: cri-o never announces {rule.value}"


def test_a_gap_names_the_later_step_and_what_is_missing() -> None:
    """It cannot be proven by a list, so its proof is what was announced after it."""
    facts = (up(), relist(1), created("c1", 2), stopped("c1", 3), deleted("c1", 4), relist(20))
    assert the(Verdict.GAP, reasoned(*facts)) == (
        "STOPPED, a later step, was announced 17.000 s ago",
        "DELETED, a later step, was announced 16.000 s ago",
        "STARTED was never announced, no relist proved ContainerStarted, and the grace is over",
    )


def test_a_gap_of_a_container_that_ran_says_so() -> None:
    """`ContainerStatus` said it."""
    facts = (up(), relist(1), created("c1", 2), Inquired(3, "c1", Inquiry.STARTED))
    told = reasoned(*facts, deleted("c1", 4), relist(20))
    assert {reasons[-1] for finding, reasons in told if finding.verdict is Verdict.GAP} == {
        "the container is known to have run, so it must have happened"
    }


def test_a_contradiction_says_what_the_lists_show() -> None:
    """And when the announcement came that they contradict."""
    facts = (up(), relist(1, c1=RUNNING), stopped("c1", 2))
    told = reasoned(*facts, relist(3, c1=RUNNING), relist(4, c1=RUNNING))
    assert the(Verdict.CONTRADICTED, told) == (
        "STOPPED came 2.000 s ago",
        "two relists in a row, both requested after it came, still show the older state: running",
    )


def test_of_a_forgotten_container_nothing_is_made_up() -> None:
    """The record says that nothing is remembered."""
    finding, _ = reasoned(*SILENT)[-1]
    reasons = why(finding, None, CONTAINERD_2, GRACE, 20.0)
    assert reasons == ("the ledger no longer has this container",)


@examples(1)
@given(facts=any_logs())
def test_whatever_happens_every_verdict_has_a_reason(facts: list[Told]) -> None:
    """For each profile; and no sentence is empty."""
    for profile in PROFILES[1:3] + PROFILES[-1:]:
        for finding, reasons in reasoned(*facts, profile=profile):
            assert reasons, finding
            assert all(reasons)


def test_which_witness_proved_what_is_said() -> None:
    """The kernel is ahead of the lists, or alone."""
    life = (up(), *looked(1), created("c1", 2), started("c1", 2.1), populated("c1", 2.1))
    alone = reasoned(*life, emptied("c1", 5), deleted("c1", 5.1), *looked(12))
    proof = "the kernel saw its last process end 7.000 s ago; no list showed it"
    assert the(Verdict.MISSED, alone)[0] == proof
    ahead = (*looked(5, c1=RUNNING), emptied("c1", 7.5), *looked(10, c1=EXITED))
    both = reasoned(*life, *ahead, *looked(20, c1=EXITED))
    assert the(Verdict.MISSED, both)[:2] == (
        "the kernel saw its last process end 2.500 s before a list did",
        "the relist that completed 10.000 s ago proves it",
    )


def test_a_slow_exit_is_argued() -> None:
    """How late, by whose clock, and whether the lists knew before."""
    begun = (up(), *looked(1, c1=RUNNING), populated("c1", 2))
    seen = (*begun, emptied("c1", 4), *looked(5, c1=EXITED))
    quiet, last = stopped("c1", 16), "longer than the grace of 5 s"
    told = quiet._replace(received_wall_ns=wall_ns(16))
    assert the(Verdict.SLOW, reasoned(*seen, quiet)) == (
        "the kernel saw its last process end; the runtime does not say when",
        "a list showed it 1.000 s after the end",
        f"the process ended 12.000 s before the runtime said so: {last}",
    )
    late = the(Verdict.SLOW, reasoned(*seen, told._replace(ended_ns=wall_ns(15.5))))
    assert late[0] == "the kernel saw its last process end 11.500 s before finished_at"
    assert the(Verdict.SLOW, reasoned(*begun, told._replace(ended_ns=wall_ns(3.75)))) == (
        "the runtime itself says when it ended: finished_at",
        "no list has shown it yet",
        f"the process ended 12.250 s before the runtime said so: {last}",
    )
    nothing = why(found(Verdict.SLOW)._replace(seconds=7.0), None, CONTAINERD_2, GRACE, 0)
    assert nothing == (f"the process ended 7.000 s before the runtime said so: {last}",)
    blank = Entry("c1", exit=Exit())
    assert why(found(Verdict.SLOW)._replace(seconds=7.0), blank, CONTAINERD_2, GRACE, 0) == nothing


def test_a_ghost_and_a_stray_are_argued() -> None:
    """What the kernel shows against two lists in a row."""
    begun = (up(), *looked(1, p1=READY, c1=RUNNING), populated("c1", 2), populated("x", 3))
    told = reasoned(*begun, emptied("c1", 4), *looked(10, c1=RUNNING), *looked(12, c1=RUNNING))
    assert the(Verdict.GHOST, told) == (
        "the kernel saw its last process end 8.000 s ago, and none since",
        "two relists in a row, both requested later than 5 s after that, show it running",
    )
    assert the(Verdict.STRAY, told)[0].startswith("the kernel shows processes of it")
