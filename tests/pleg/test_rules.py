"""What a runtime never announces: one story for each rule of a profile, and for its limits."""

from dataclasses import replace

import pytest

from exporter.pleg.events import Announcement, Inquiry, Relist
from exporter.pleg.facts import Fact, Inquired
from exporter.pleg.findings import Cause
from exporter.pleg.profiles import Never, Profile
from tests.support.facts import (
    CONTAINERD_2,
    CREATED,
    EVENTFUL,
    EXITED,
    NOTREADY,
    READY,
    RUNNING,
    UNKNOWN,
    Play,
    Shown,
    cause_of,
    created,
    of_sandbox,
    profile,
    relist,
    started,
    stopped,
    up,
)

# --- by design ----------------------------------------------------------------

MADE = replace(READY, state=CREATED.state)
P1_STAYS = relist(1, p1=READY)
C1_IN_P1 = relist(2, p1=READY, c1=RUNNING.inside("p1"))
C1_OUT = relist(3, p1=NOTREADY, c1=EXITED.inside("p1"))

RULES: tuple[tuple[Never, str, tuple[Fact, ...]], ...] = (
    (
        Never.SANDBOX_CREATED,
        "p1 ContainerChanged",
        (relist(1), relist(2, p1=replace(READY, state=CREATED.state))),
    ),
    (Never.SANDBOX_REMOVED, "p1 ContainerRemoved", (relist(1, p1=NOTREADY), relist(2))),
    (Never.SANDBOX_FAILED, "p1 ContainerDied", (relist(1), relist(2, p1=NOTREADY))),
    (
        Never.FAILED_START,
        "c1 ContainerDied",
        (relist(1), relist(2, c1=EXITED), Inquired(2.5, "c1", Inquiry.NEVER_STARTED)),
    ),
    (
        Never.DELETED_BELOW,
        "c1 ContainerRemoved",
        (relist(1, c1=EXITED), Inquired(1.5, "c1", Inquiry.DELETED_BELOW), relist(2)),
    ),
    (Never.REMOVED_WITH_SANDBOX, "c1 ContainerRemoved", (P1_STAYS, C1_IN_P1, C1_OUT, relist(4))),
    (Never.FORCED_REMOVAL, "p1 ContainerDied", (P1_STAYS, C1_IN_P1, relist(3))),
    (Never.FORCED_REMOVAL, "c1 ContainerDied", (P1_STAYS, C1_IN_P1, relist(3))),
)


@pytest.mark.parametrize(("rule", "event", "facts"), RULES)
def test_what_a_runtime_never_announces_is_missed_by_design(
    rule: Never, event: str, facts: tuple[Fact, ...]
) -> None:
    """With the rule in the profile; without it, the same story is silent."""
    story = (up(), *facts, relist(20))
    findings = Play(*story, profile=profile(rule)).findings
    assert {finding.rule for finding in findings if finding.cause is Cause.BY_DESIGN} == {rule}
    assert cause_of(event, *story, profile=profile(rule)) == "by_design"
    assert cause_of(event, *story, profile=profile(*(set(Never) - {rule}))) == "silent"


# --- the rules' limits --------------------------------------------------------


def test_a_removed_container_whose_sandbox_stayed_ready_is_not_excused() -> None:
    """RemovePodSandbox stops the sandbox first; this one was removed by itself."""
    facts = (up(), P1_STAYS, C1_IN_P1, relist(3, p1=READY), relist(4), relist(20))
    rules = profile(Never.REMOVED_WITH_SANDBOX)
    assert cause_of("c1 ContainerRemoved", *facts, profile=rules) == "silent"


def test_nor_is_one_that_only_the_stream_has_named() -> None:
    """Its sandbox was READY when the first list did not show it, and is gone by now."""
    named = created("c1", 2)._replace(sandbox_id="p1")
    facts = (up(), P1_STAYS, named, relist(3, p1=READY), relist(4), relist(20))
    rules = profile(Never.REMOVED_WITH_SANDBOX)
    assert cause_of("c1 ContainerRemoved", *facts, profile=rules) == "silent"


def test_the_sandbox_may_be_gone_one_relist_after_its_container() -> None:
    """The two lists are not atomic, and the removal takes its time."""
    facts = (up(), P1_STAYS, C1_IN_P1, C1_OUT, relist(4, p1=NOTREADY), relist(5), relist(20))
    rules = profile(Never.REMOVED_WITH_SANDBOX)
    assert cause_of("c1 ContainerRemoved", *facts, profile=rules) == "by_design"


def test_a_container_whose_sandbox_nobody_knows_is_not_excused() -> None:
    """There is no sandbox that could have been removed with it."""
    facts = (up(), relist(1, c1=EXITED.inside("p1")), relist(2), relist(20))
    rules = profile(Never.REMOVED_WITH_SANDBOX)
    assert cause_of("c1 ContainerRemoved", *facts, profile=rules) == "silent"


def test_an_event_that_does_not_name_the_sandbox_leaves_it_known() -> None:
    """The container was removed inside the removal of the sandbox that its first event named."""
    named = created("c1", 2)._replace(sandbox_id="p1"), stopped("c1", 2.5)
    facts = (up(), P1_STAYS, *named, relist(3, p1=NOTREADY), relist(4), relist(20))
    rules = profile(Never.REMOVED_WITH_SANDBOX)
    assert cause_of("c1 ContainerRemoved", *facts, profile=rules) == "by_design"


def test_an_exit_that_was_listed_was_not_forced_although_the_list_doubts_it_later() -> None:
    """The lists showed it EXITED, then UNKNOWN, and then not at all."""
    ended = relist(3, p1=READY, c1=EXITED.inside("p1"))
    doubted = relist(4, p1=READY, c1=UNKNOWN.inside("p1"))
    facts = (up(), P1_STAYS, C1_IN_P1, ended, doubted, relist(5), relist(20))
    rules = profile(Never.FORCED_REMOVAL)
    assert cause_of("c1 ContainerDied", *facts, profile=rules) == "silent"


def test_an_exit_after_a_removal_that_was_undone_was_not_forced() -> None:
    """A list has shown it, and only then were sandbox and container swept away."""
    back = relist(4, p1=READY, c1=RUNNING.inside("p1"))
    ended = relist(5, p1=READY, c1=EXITED.inside("p1"))
    facts = (up(), P1_STAYS, C1_IN_P1, relist(3, p1=READY), back, ended, relist(6), relist(20))
    rules = profile(Never.FORCED_REMOVAL)
    assert cause_of("c1 ContainerDied", *facts, profile=rules) == "silent"


@pytest.mark.parametrize("was", [RUNNING, CREATED, UNKNOWN])
def test_a_forced_removal_excuses_every_exit_that_no_list_showed(was: Shown) -> None:
    """It ran, whatever state was listed last."""
    inside = relist(2, p1=READY, c1=was.inside("p1"))
    facts = (up(), P1_STAYS, inside, started("c1", 2.5), relist(3), relist(20))
    rules = profile(Never.FORCED_REMOVAL)
    assert cause_of("c1 ContainerDied", *facts, profile=rules) == "by_design"


def test_a_forced_removal_excuses_what_no_list_ever_showed() -> None:
    """A short life: the stream named sandbox and container, and both were swept away."""
    begin = (of_sandbox(started("p1", 2)), started("c1", 3)._replace(sandbox_id="p1"))
    facts = (up(), relist(1), *begin, relist(4), relist(20))
    rules = profile(Never.FORCED_REMOVAL)
    assert cause_of("p1 ContainerDied", *facts, profile=rules) == "by_design"
    assert cause_of("c1 ContainerDied", *facts, profile=rules) == "by_design"


def test_an_announced_exit_of_the_sandbox_means_that_nothing_was_forced() -> None:
    """It was stopped in order, so its containers were."""
    facts = (up(), P1_STAYS, C1_IN_P1, of_sandbox(stopped("p1", 2.5)), relist(3), relist(20))
    rules = profile(Never.FORCED_REMOVAL)
    assert cause_of("c1 ContainerDied", *facts, profile=rules) == "silent"


def test_a_sandbox_that_ran_did_not_fail_to_set_up() -> None:
    """STARTED was announced, only its exit was not."""
    facts = (up(), relist(1), of_sandbox(started("p1", 1.5)), relist(2, p1=NOTREADY), relist(20))
    rules = profile(Never.SANDBOX_FAILED)
    assert cause_of("p1 ContainerDied", *facts, profile=rules) == "silent"


@pytest.mark.parametrize(
    ("answers", "cause"),
    [
        ((Inquiry.STARTED,), "silent"),
        ((Inquiry.NEVER_STARTED,), "by_design"),
    ],
)
def test_an_unannounced_exit_is_judged_by_what_container_status_says(
    answers: tuple[Inquiry, ...], cause: str
) -> None:
    """It tells a lost exit from a failed start."""
    asked = [Inquired(3, "c1", answer) for answer in answers]
    lists = (relist(1), relist(2, c1=EXITED), relist(20, c1=EXITED))
    assert cause_of("c1 ContainerDied", up(), *lists, *asked, profile=CONTAINERD_2) == cause


def test_an_answer_that_it_never_started_is_older_than_its_start() -> None:
    """It was asked before the STARTED came."""
    answer = Inquired(3, "c1", Inquiry.NEVER_STARTED)
    facts = (up(), relist(1), relist(2, c1=EXITED), started("c1", 2.5), answer, relist(20))
    assert cause_of("c1 ContainerDied", *facts, profile=CONTAINERD_2) == "silent"


# --- gaps by the profile ------------------------------------------------------


def gaps(*facts: Announcement | Relist | Inquired, profile: Profile) -> list[str]:
    """The steps that were counted as gaps."""
    judged = Play(up(), relist(1), *facts, relist(20), profile=profile).judged
    return [line.removesuffix(" gap") for line in judged if line.endswith(" gap")]


def test_a_sandbox_whose_creation_is_never_announced_leaves_no_gap() -> None:
    """CRI-O, and containerd 1.7; a container's is always announced."""
    rules = profile(Never.SANDBOX_CREATED)
    assert gaps(of_sandbox(started("p1", 2)), profile=rules) == []
    assert gaps(started("c1", 2), profile=rules) == ["c1 ContainerChanged"]
    assert gaps(of_sandbox(started("p1", 2)), profile=EVENTFUL) == ["p1 ContainerChanged"]


def test_a_stopped_that_comes_for_all_does_not_mean_that_it_ran() -> None:
    """CRI-O announces it for containers that never did; but not for sandboxes."""
    rules = profile(Never.STOPPED_MEANS_RAN)
    life = (created("c1", 2), stopped("c1", 3))
    assert gaps(*life, profile=EVENTFUL) == ["c1 ContainerStarted"]
    assert gaps(*life, profile=rules) == []
    assert gaps(*map(of_sandbox, life), profile=rules) == ["c1 ContainerStarted"]


@pytest.mark.parametrize(
    ("answer", "gap"),
    [(Inquiry.STARTED, ["c1 ContainerStarted"]), (Inquiry.NEVER_STARTED, [])],
)
def test_there_container_status_is_asked(answer: Inquiry, gap: list[str]) -> None:
    """A STOPPED without a STARTED opens the doubt."""
    rules = profile(Never.STOPPED_MEANS_RAN)
    facts = (created("c1", 2), stopped("c1", 3), relist(4, c1=EXITED))
    play = Play(up(), relist(1), *facts, profile=rules)
    assert play.take_doubts() == ("c1",)
    assert gaps(*facts, Inquired(5, "c1", answer), profile=rules) == gap


def test_a_failed_start_leaves_no_gap() -> None:
    """ContainerStatus said that it never ran; the STOPPED is the runtime's own affair."""
    answer = Inquired(5, "c1", Inquiry.NEVER_STARTED)
    facts = (created("c1", 2), stopped("c1", 3), relist(4, c1=EXITED), answer)
    assert gaps(*facts, profile=EVENTFUL) == []
