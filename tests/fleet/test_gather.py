"""From a Prometheus' answers to a report: which number goes where, and what the exit code is."""

import math

import pytest

from fleet.options import FailOn
from tests.fleet.conftest import reported
from tests.support.prometheus import standing_in
from tests.support.report_answers import NEW, OLD, answers, named, sample

pytestmark = pytest.mark.quick


async def test_each_answer_goes_to_its_place() -> None:
    """A number that no other has, for each; what is judged is rounded down, to the safe side."""
    died = {"event": "ContainerDied"}
    known = answers(
        nodes=[sample(2, **NEW), sample(3, **OLD)],
        lifecycle_events=[sample(1000.4, **NEW, **died), sample(500, **OLD, **died)],
        # A rate of nothing is no number.
        judged_exits=[sample(900.9, **NEW), sample(math.nan, **OLD)],
        missed_events=[
            sample(7.2, **NEW, **died, cause="silent"),
            sample(8, **NEW, **died, cause="new"),
        ],
        late_events=[sample(5, **NEW, **died, cause="silent")],
        counts=[sample(6, **NEW, what="gaps")],
    )
    async with standing_in(*known) as url:
        outcome = await reported(url)
    new, old = outcome.runtime("containerd 2.1.9"), outcome.runtime("containerd 1.7.24")
    assert (new["nodes"], new["transitions"], new["judged"]) == (2, 1000, 900 + 30_000)
    assert (old["nodes"], old["transitions"], old["judged"]) == (3, 500, 0)
    assert new["missed"] == [
        {"event": "ContainerDied", "number": 7, "cause": "silent"},
        # Of a later version, and last.
        {"event": "ContainerDied", "number": 8, "cause": "new"},
    ]
    assert new["late"] == [{**died, "number": 5, "cause": "silent"}]
    assert new["gaps"] == 6
    assert new["final_loss"] == 2
    whole = outcome.data["fleet"]
    assert (whole["nodes"], whole["transitions"], whole["judged"]) == (5, 1500, 900 + 30_000)
    assert whole["missed"] == new["missed"]


async def test_what_the_labels_do_not_tell_is_noted() -> None:
    """Some targets without the node's label; and what Prometheus itself warns of."""
    known = answers(processes=named(all=5, named=3))
    async with standing_in(*known, warnings=("too old",)) as url:
        notes = (await reported(url)).data["notes"]
    assert "2 of 5 targets have no label node: they count as one node" in notes
    assert "Prometheus warns: too old" in notes


@pytest.mark.parametrize(
    ("judged", "lost", "verdict", "failing"),
    [
        (10_000, 0, "NOT YET", {FailOn.NOT_GO}),
        (1000, 0, "NOT ENOUGH EVIDENCE", {FailOn.NOT_GO}),
        (10_000, 100, "NO-GO", {FailOn.NOT_GO, FailOn.NO_GO}),
    ],
)
async def test_a_pipeline_fails_on_the_verdicts_that_it_was_told(
    judged: int, lost: int, verdict: str, failing: set[FailOn]
) -> None:
    """The report is written in any case, and nothing on stderr."""
    missed = [sample(lost, **NEW, event="ContainerDied", cause="silent")]
    kubelets = [sample(2, **NEW, what="versions", git_version="v1.36.0")]
    known = answers(judged_exits=[sample(judged, **NEW)], missed_events=missed, kubelets=kubelets)
    async with standing_in(*known) as url:
        for fail_on in ("never", "no-go", "not-go"):
            flags = ("--output-format=markdown", f"--fail-on={fail_on}")
            outcome = await reported(url, *flags)
            assert outcome.out.startswith(f"# {verdict}\n")
            assert (outcome.code, outcome.err) == (int(FailOn(fail_on) in failing), "")
