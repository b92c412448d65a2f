"""From numbers to a verdict: each rule, at its edge, with its reason in words."""

from collections import Counter
from dataclasses import replace
from typing import Any

import pytest

from exporter.report.fleet import Coverage, Fleet, Group
from exporter.report.options import Span
from exporter.report.verdict import Decision, judge, judge_group, percent

pytestmark = pytest.mark.quick
OBJECTIVE = 0.999
FULL = Coverage(
    nodes=10,
    nodes_now=10,
    present=240,
    lived=240,
    streaming=240,
    deaf=0,
    first=300.0,
    kubelets=10,
    unwatched=0,
    kubelet_present=240,
    kubelet_streaming=240,
)


def group(judged: int, silent: int = 0, version: str = "2.1.9", stream: str = "broadcast") -> Group:
    """Ten nodes of containerd."""
    missed = Counter({("silent", "ContainerDied"): silent})
    return Group("containerd", version, stream, 10, judged, judged, missed)


def fleet(*groups: Group, coverage: Coverage = FULL) -> Fleet:
    """Those groups, and their sum."""
    lost = sum(each.silent for each in groups)
    judged = sum(each.judged for each in groups)
    whole = replace(group(judged, lost), name="fleet", version="", stream="")
    span = Span(300, 24, 7200)
    return Fleet("http://p", span, whole, groups, (), coverage, 300, (), (), ())


@pytest.mark.parametrize(
    ("judged", "silent", "verdict", "said"),
    [
        (2995, 0, Decision.GO, "within the 0.1 % allowed"),
        (2994, 0, Decision.NOT_ENOUGH, "1 more without a loss would show it"),
        (2000, 0, Decision.NOT_ENOUGH, "995 more without a loss would show it"),
        (4742, 1, Decision.GO, "within the 0.1 % allowed"),
        (4741, 1, Decision.NOT_ENOUGH, "1 more without a loss would show it"),
        (1000, 1, Decision.NOT_ENOUGH, "3,742 more without a loss would show it"),
        (999, 1, Decision.NO_GO, "may be chance"),
        (5000, 50, Decision.NO_GO, "1 %, more than the 0.1 % allowed"),
        (0, 0, Decision.NOT_ENOUGH, "no transition was seen"),
        (0, 1, Decision.NO_GO, "100 %, more than the 0.1 % allowed"),
    ],
)
def test_a_version_is_judged_by_its_bound_and_its_ratio(
    judged: int, silent: int, verdict: Decision, said: str
) -> None:
    """GO when the bound is within what is allowed, NO-GO when the ratio itself is not."""
    judgement = judge_group(group(judged, silent), OBJECTIVE)
    assert judgement.verdict is verdict
    assert judgement.reasons[0].partition(" (")[0].endswith(said)


@pytest.mark.parametrize(
    ("stream", "version", "verdict", "said"),
    [
        ("none", "1.6.20", Decision.NO_GO, "has no event stream"),
        ("none", "", Decision.NOT_ENOUGH, "is not known"),
        ("exclusive", "1.7.24", Decision.NOT_ENOUGH, "is exclusive"),
        ("fragile", "1.30.0", Decision.NOT_ENOUGH, "is fragile"),
    ],
)
def test_a_stream_that_cannot_be_watched_is_no_go_or_unknown(
    stream: str, version: str, verdict: Decision, said: str
) -> None:
    """No stream is no event to rely on; one that we must not touch is nothing that we know."""
    judgement = judge_group(group(0, version=version, stream=stream), OBJECTIVE)
    assert judgement.verdict is verdict
    assert said in judgement.reasons[0]


def test_a_bad_version_is_not_hidden_by_many_good_ones() -> None:
    """The mean of a million would be a go."""
    judgement = judge(fleet(group(10**6), group(5000, 50, "2.1.8")), OBJECTIVE)
    assert judgement.verdict is Decision.NO_GO
    assert judgement.reasons[0].startswith("containerd 2.1.8 (10 nodes): 50 of 5,000")
    assert judgement.reasons[-1] == "by itself a go: containerd 2.1.9"


def test_a_version_that_is_hardly_seen_leaves_the_fleet_undecided() -> None:
    """What another version does says nothing of it."""
    judgement = judge(fleet(group(10**6), group(50, 0, "2.0.5")), OBJECTIVE)
    assert judgement.verdict is Decision.NOT_ENOUGH
    assert [each.split(" (")[0] for each in judgement.reasons] == ["containerd 2.0.5"]


@pytest.mark.parametrize(
    ("change", "said"),
    [
        ({"unwatched": 2}, "8 of 10 nodes with a kubelet are watched (80 %)"),
        ({"kubelet_streaming": 200}, "listened to for 83.3 % of the nodes' time"),
        (
            {"kubelets": None, "kubelet_present": None, "streaming": 120},
            "listened to for 50 % of the nodes' time",
        ),
    ],
)
def test_losses_may_hide_where_no_stream_was_up(change: dict[str, Any], said: str) -> None:
    """Enough transitions, of too few nodes or too little of the time, are no evidence."""
    judgement = judge(fleet(group(10**6), coverage=replace(FULL, **change)), OBJECTIVE)
    assert judgement.verdict is Decision.NOT_ENOUGH
    assert said in judgement.reasons[0]


def test_nine_tenths_are_enough() -> None:
    """Some node is always being replaced."""
    coverage = replace(FULL, unwatched=1, kubelet_streaming=216)
    assert judge(fleet(group(10**6), coverage=coverage), OBJECTIVE).verdict is Decision.GO


@pytest.mark.parametrize(
    ("share", "said"),
    [
        (0, "0 %"),
        (1, "100 %"),
        (0.999, "99.9 %"),
        (0.9999, "99.99 %"),
        (0.9999999, "99.9999 %"),
        (0.0000083, "0.00083 %"),
        (0.12345, "12.3 %"),
    ],
)
def test_shares_are_written_with_digits_that_mean_something(share: float, said: str) -> None:
    """Neither rounded to certainty, nor in powers of ten."""
    assert percent(share) == said
