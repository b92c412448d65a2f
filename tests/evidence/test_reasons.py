"""Why a verdict was reached, as a person reads it: every verdict has its words, and true ones."""

import pytest

from exporter.evidence.reasons import NOTABLE, why
from exporter.evidence.timeline import ContainerTimeline
from exporter.model.facts import Fact, Killed, KillsCounted
from exporter.model.findings import Cause, Finding, Verdict
from exporter.model.labels import Flaw, Limit, Never, OomKill
from tests.support.facts import CONTAINERD_2, GRACE, facts_of, found
from tests.support.stories import told

pytestmark = pytest.mark.quick


def reasons(finding: Finding) -> tuple[str, ...]:
    return why(finding, CONTAINERD_2, GRACE)


def test_every_verdict_has_its_words() -> None:
    """What is wrong with an event, or became of a kill, is its cause."""
    late = ((Verdict.LATE, each) for each in Cause)
    for verdict, cause in {*NOTABLE, *late, *((each, None) for each in Verdict)}:
        said = reasons(found(verdict, cause))
        assert not any("{" in each for each in said)
        assert said or (verdict in {Verdict.FLAWED, Verdict.OOM} and cause is None)


@pytest.mark.parametrize("rule", Never)
def test_the_rule_of_the_profile_that_was_applied_is_quoted(rule: Never) -> None:
    by_design = found(Verdict.MISSED, Cause.BY_DESIGN)._replace(rule=rule)
    assert reasons(by_design)[-1] == f"by_design: containerd never announces {rule.value}"


KILL = "the kernel counted an OOM kill of a process of it; whose limit it was: its pod's"
OLDER = "an older container of the same pod and name"
TWICE = "two relists in a row, both requested later than 5 s after"
MISSED = (
    "a relist or the kernel proves ContainerDied",
    "no STOPPED came within the grace of 5 s, and none until a relist that was requested later",
)


@pytest.mark.parametrize(
    ("finding", "said"),
    [
        (
            found(Verdict.MISSED, Cause.SILENT)._replace(other="c9"),
            (
                *MISSED,
                "containerd announces this: no rule of its profile excuses it",
                (
                    "silent: lost by the runtime or on its way: a younger event came over the same"
                    " subscription, of c9"
                ),
            ),
        ),
        (found(Verdict.FLAWED)._replace(cause=Flaw.NO_POD), ("this STOPPED names no pod",)),
        (
            found(Verdict.TWIN)._replace(other="c0"),
            (f"{TWICE} the first that did, show it running beside c0, {OLDER}",),
        ),
        (
            found(Verdict.GHOST)._replace(limit=Limit.POD, before=True),
            (
                "it stood already when observation began: no counter counts it again",
                "the kernel shows no process of it",
                f"{TWICE} that, show it running",
                KILL,
            ),
        ),
        (
            found(Verdict.OOM, OomKill.SURVIVED)._replace(limit=Limit.POD),
            (KILL, "its container runs on, or ended otherwise: Kubernetes shows no kill"),
        ),
        (
            found(Verdict.SLOW)._replace(seconds=7.0),
            ("the process ended 7.0 s before the runtime said so: longer than the grace of 5 s",),
        ),
    ],
    ids=lambda it: it.verdict.value if isinstance(it, Finding) else "",
)
def test_what_is_known_of_it_is_said(finding: Finding, said: tuple[str, ...]) -> None:
    assert reasons(finding) == said


def test_a_timeline_has_exit_codes_and_the_counts_of_the_container_and_of_the_node() -> None:
    timeline = ContainerTimeline("c1")
    kills: list[Fact] = [Killed(1, "c1", "u1", 1, 1, Limit.POD), Killed(2, "c1", "u1", 3, 3)]
    counts: list[Fact] = [Killed(3, "c2", "u1", 1, 1), KillsCounted(4, 5), KillsCounted(5, None)]
    ends = facts_of(told("ends 6 137 Error; ends 7 0 -"))
    moments = [each for fact in (*kills, *counts, *ends) for each in timeline.add(fact)]
    assert [each.text.partition(", ")[0] for each in moments] == [
        "OOM kills of processes: 1; whose limit: its pod's",
        "OOM kills of processes: 3; whose limit: not known",
        "the node's OOM kills of processes since the first count: 5",
        "the node's OOM kills cannot be counted any more",
        "announced STOPPED on subscription 0 with exit code 137 (Error)",
        "announced STOPPED on subscription 0 with exit code 0 (no reason)",
    ]
