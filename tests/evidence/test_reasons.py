"""Why a verdict was reached, as a person reads it: every verdict has its words, and true ones."""

from pathlib import Path

import pytest

from exporter.evidence.reasons import why
from exporter.evidence.timeline import ContainerTimeline, lasting
from exporter.model.facts import Fact, Killed, KillsCounted, learnt
from exporter.model.findings import Cause, Finding, Verdict
from exporter.model.labels import Flaw, Limit, Never, OomKill
from exporter.pleg.entry import Entry
from exporter.pleg.ledger import Ledger
from exporter.pleg.steps import Exit
from exporter.runtimes.runtime import Profile
from tests import ROOT, assert_golden
from tests.support.facts import (
    CONTAINERD_2,
    CRIO,
    ELSEWHERE,
    GRACE,
    RUNNING,
    Given,
    facts_of,
    found,
    lines,
    lively,
    relist,
    up,
)
from tests.support.scenarios import histories
from tests.support.stories import stories

pytestmark = pytest.mark.quick

Reasoned = tuple[Finding, tuple[str, ...]]


def reasoned(*facts: Given, profile: Profile = CONTAINERD_2) -> list[Reasoned]:
    ledger = Ledger(profile, GRACE)
    said = []
    for fact in facts_of(lively(facts)):
        for finding in ledger.judge(fact).findings:
            entry = ledger.known(finding.container_id)
            said.append((finding, why(finding, entry, profile, GRACE, learnt(fact))))
    return [each for each in said if each[0].container_id != ELSEWHERE]


SILENT = (up(), relist(1), relist(2, c1=RUNNING), relist(10, c1=RUNNING))
STORIES = stories(Path(__file__).with_name("stories.yaml"), "reasons")


def test_what_is_said_is_the_golden_text() -> None:
    text = []
    for story, (facts, _) in STORIES.items():
        text.append(f"{story}:")
        for finding, reasons in reasoned(*facts):
            if finding.verdict is not Verdict.WITNESSED:
                text += [f"  {lines([finding])[0]}", *(f"    {each}" for each in reasons)]
    assert_golden("\n".join(text) + "\n", ROOT / "tests" / "golden" / "reasons.txt")


@pytest.mark.parametrize("rule", Never)
def test_the_rule_of_the_profile_that_was_applied_is_quoted(rule: Never) -> None:
    ledger = Ledger(CRIO, GRACE)
    finding = [found for fact in facts_of(lively(SILENT)) for found in ledger.judge(fact).findings][
        -1
    ]
    by_design = finding._replace(cause=Cause.BY_DESIGN, rule=rule)
    reasons = why(by_design, ledger.known("c1"), CRIO, GRACE, 20.0)
    assert reasons[-1] == f"by_design: cri-o never announces {rule.value}"


def test_what_an_event_or_two_lists_show_by_themselves_is_said() -> None:
    flawed = found(Verdict.FLAWED)._replace(cause=Flaw.NO_POD)
    assert why(flawed, Entry("c1"), CONTAINERD_2, GRACE, 0) == ("this STOPPED names no pod",)
    twin = found(Verdict.TWIN)._replace(other="c0")
    (reason,) = why(twin, Entry("c1"), CONTAINERD_2, GRACE, 0)
    assert reason.startswith("two relists in a row, both requested later than 5 s after the first")
    assert "beside c0, an older container" in reason


def test_of_a_forgotten_container_nothing_is_made_up() -> None:
    finding, _ = reasoned(*SILENT)[-1]
    reasons = why(finding, None, CONTAINERD_2, GRACE, 20.0)
    assert reasons == ("the ledger no longer has this container",)


def test_whatever_happens_every_verdict_has_a_reason() -> None:
    for log in histories():
        for finding, reasons in reasoned(*log):
            assert reasons, finding
            assert all(reasons)


def test_of_a_slow_exit_without_times_only_the_delay_is_said() -> None:
    slow, last = found(Verdict.SLOW)._replace(seconds=7.0), "longer than the grace of 5 s"
    for entry in (None, Entry("c1", exit=Exit())):
        said = why(slow, entry, CONTAINERD_2, GRACE, 0)
        assert said == (f"the process ended 7.0 s before the runtime said so: {last}",)


@pytest.mark.parametrize(
    ("seconds", "said"),
    [
        *((0, "0.0 ms"), (0.00042, "0.4 ms"), (0.00996, "10 ms"), (0.9996, "1.0 s")),
        *((2.27, "2.3 s"), (119.96, "2.0 min"), (3600, "60.0 min"), (-5, "-5.0 s")),
    ],
)
def test_a_length_of_time_is_said_as_a_person_reads_it(seconds: float, said: str) -> None:
    assert lasting(seconds) == said


KILL = "the kernel counted an OOM kill of a process of it"
AT = {
    Limit.CONTAINER: f"{KILL}; the limit was the container's own",
    Limit.UNKNOWN: f"{KILL}; whose limit it was is not known",
    None: KILL,
}


@pytest.mark.parametrize("limit", AT)
@pytest.mark.parametrize(
    ("kind", "known", "said", "so"),
    [
        (
            OomKill.ANNOUNCED_AS_ERROR,
            Exit(exit_code=137, reason="Error"),
            "the runtime announced its end with exit code 137 (Error)",
            "the container ended by it, and its end was announced as an error",
        ),
        (
            OomKill.SURVIVED,
            Exit(exit_code=1),
            "the runtime announced its end with exit code 1 (no reason)",
            "its container runs on, or ended otherwise: Kubernetes shows no kill",
        ),
        (
            OomKill.UNANNOUNCED,
            Exit(),
            "nothing was announced of its end",
            "its container has ended, and no announcement says how",
        ),
    ],
)
def test_a_kill_says_what_was_counted_and_what_was_said(
    limit: Limit | None, kind: OomKill, known: Exit, said: str, so: str
) -> None:
    """Whose limit it was says who has to act."""
    finding = found(Verdict.OOM, kind)._replace(limit=limit)
    entry = Entry("c1", exit=known)
    assert why(finding, entry, CONTAINERD_2, GRACE, 10.0) == (AT[limit], said, so)


def test_a_kill_of_a_container_that_is_forgotten_and_a_word_without_one() -> None:
    survived = found(Verdict.OOM, OomKill.SURVIVED)
    assert why(survived, None, CONTAINERD_2, GRACE, 10.0)[1] == "nothing was announced of its end"
    only = found(Verdict.OOM, OomKill.REASON_ONLY)
    entry = Entry("c1", exit=Exit(exit_code=0, reason="OOMKilled"))
    assert why(only, entry, CONTAINERD_2, GRACE, 10.0) == (
        "within 5 s of its end, the kernel counted no OOM kill that made it",
        "the runtime announced its end with exit code 0 (OOMKilled)",
        "OOMKilled was announced of it, and no kill made that end",
    )


def test_a_timeline_has_the_counts_of_the_container_and_of_the_node() -> None:
    timeline = ContainerTimeline("c1")
    kills: list[Fact] = [Killed(1, "c1", "u1", 1, 1, Limit.POD), Killed(2, "c1", "u1", 3, 3)]
    counts: list[Fact] = [Killed(3, "c2", "u1", 1, 1), KillsCounted(4, 5), KillsCounted(5, None)]
    moments = [moment for fact in (*kills, *counts) for moment in timeline.add(fact)]
    assert [each.text for each in moments] == [
        "1 OOM kill of processes; whose limit: its pod's",
        "3 OOM kills of processes; whose limit: not known",
        "the node's OOM kills of processes since the first count: 5",
        "the node's OOM kills of processes since the first count: not readable any more",
    ]
