"""From numbers to a verdict: each rule, at its edge, with its reason in words."""

import math
import re
from collections import Counter
from dataclasses import replace
from typing import Any

import pytest

from exporter.model.events import Lifecycle
from exporter.pleg.known_issues import KNOWN_ISSUES
from fleet.fleet import Coverage, Fleet, Group, Kubelets
from fleet.notes import notes
from fleet.options import Span, Standard
from fleet.verdict import Decision, Judgement, judge, judge_group, judge_groups
from fleet.words import percent

pytestmark = pytest.mark.quick
STANDARD = Standard(0.999)
EXIT, START = Lifecycle.DIED.label, Lifecycle.STARTED.label
FULL = Coverage(
    nodes=10,
    nodes_now=10,
    lived=240,
    streaming=240,
    together=24,
    first=300.0,
    kubelets=10,
    unwatched=0,
    kubelet_present=240,
    kubelet_streaming=240,
)


TRUSTS, HINT, BOTH = ({"v1.36.1": 9}, {"v1.37.0": 9}, {"v1.36.1": 1, "v1.37.0": 9})


def group(judged: int, silent: int = 0, version: str = "2.1.9", stream: str = "broadcast") -> Group:
    """Ten nodes of containerd with so many exits, whose kubelets trust events."""
    exits, missed = Counter({EXIT: judged}), Counter({("silent", EXIT): silent})
    trusting = Counter({"v1.36.1": 10})
    return Group(
        *("containerd", version, stream, 10, exits, exits, missed), kubelets=trusting, listened=1e6
    )


def with_others(of: Group, judged: int, **lost: int) -> Group:
    """The same with so many starts, too, and those missed by cause."""
    starts = Counter({START: judged})
    missed = Counter({(cause, START): number for cause, number in lost.items()})
    return replace(
        of,
        witnessed=of.witnessed + starts,
        judged=of.judged + starts,
        missed=of.missed + missed,
    )


def beside(of: Group, versions: dict[str, int]) -> Group:
    """The same with other kubelets."""
    return replace(of, kubelets=Counter(versions))


def fleet(*groups: Group, coverage: Coverage = FULL) -> Fleet:
    """Those groups, and their sum."""
    span = Span(300, 24, 7200)
    return Fleet("http://p", span, groups, (), coverage, ())


@pytest.mark.parametrize(
    ("judged", "silent", "verdict", "said"),
    [
        (2995, 0, Decision.NOT_YET, "within the 0.1 % allowed"),
        (2994, 0, Decision.NOT_ENOUGH, "1 more without a loss would show it"),
        (2000, 0, Decision.NOT_ENOUGH, "995 more without a loss would show it"),
        (4742, 1, Decision.NOT_YET, "within the 0.1 % allowed"),
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
    """Good when the bound is within what is allowed, NO-GO when the ratio itself is not."""
    judgement = judge_group(group(judged, silent), STANDARD)
    assert judgement.verdict is verdict
    assert judgement.reasons[0].partition("; 0 of 0")[0].partition(" (")[0].endswith(said)
    good = judge_group(beside(group(judged, silent), HINT), STANDARD).verdict
    assert (good is Decision.GO) == (judged > 2)


@pytest.mark.parametrize(
    ("stream", "version", "verdict", "said"),
    [
        ("none", "1.6.20", Decision.NO_GO, "has no event stream"),
        ("none", "", Decision.NOT_ENOUGH, "is not known"),
        ("exclusive", "1.7.24", Decision.NOT_ENOUGH, "is exclusive: losses cannot be measured"),
        ("fragile", "1.30.0", Decision.NOT_ENOUGH, "is fragile: losses cannot be measured"),
    ],
)
def test_a_stream_that_cannot_be_watched_is_no_go_or_unknown(
    stream: str, version: str, verdict: Decision, said: str
) -> None:
    """No stream is no event to rely on; one that we must not touch is nothing that we know."""
    for judged in (0, 10**6):
        it = beside(group(judged, version=version, stream=stream), HINT)
        judgement = judge_group(it, STANDARD)
        assert judgement.verdict is verdict
        assert said in judgement.reasons[0]


def test_where_nothing_can_be_measured_it_is_not_said_that_nothing_happened() -> None:
    """Two streams of which neither can be judged."""
    taken = replace(group(0, stream="exclusive"), witnessed=Counter({EXIT: 9}))
    judgement = judge(fleet(taken, replace(taken, version="1.7.25")), STANDARD)
    assert judgement.verdict is Decision.NOT_ENOUGH
    assert "no transition was seen" not in judgement.reasons
    assert judgement.reasons[-1].startswith("containerd 1.7.25 (10 nodes): its stream is exclusive")


def test_a_bad_version_is_not_hidden_by_many_good_ones() -> None:
    """The mean of a million would be a go."""
    judgement = judge(fleet(group(10**6), group(5000, 50, "2.1.8")), STANDARD)
    assert judgement.verdict is Decision.NO_GO
    assert judgement.reasons[0].startswith("containerd 2.1.8 (10 nodes): 50 of 5,000 exits")
    assert judgement.reasons[-1] == "by itself not yet a go: containerd 2.1.9"
    known = beside(group(10**6), HINT)
    judgement = judge(fleet(known, group(5000, 50, "2.1.8")), STANDARD)
    assert judgement.reasons[-1] == "by itself a go: containerd 2.1.9"


def test_no_version_at_all_is_no_evidence() -> None:
    """Prometheus knows targets, and nothing of them."""
    judgement = judge(fleet(), STANDARD)
    assert judgement == Judgement(Decision.NOT_ENOUGH, ("no transition was seen",))


def test_a_version_that_is_hardly_seen_leaves_the_fleet_undecided() -> None:
    """What another version does says nothing of it."""
    judgement = judge(fleet(group(10**6), group(50, 0, "2.0.5")), STANDARD)
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
    judgement = judge(fleet(group(10**6), coverage=replace(FULL, **change)), STANDARD)
    assert judgement.verdict is Decision.NOT_ENOUGH
    assert said in judgement.reasons[0]


def test_nine_tenths_are_enough() -> None:
    """Some node is always being replaced."""
    coverage = replace(FULL, unwatched=1, kubelet_streaming=216)
    assert judge(fleet(group(10**6), coverage=coverage), STANDARD).verdict is Decision.NOT_YET


@pytest.mark.parametrize(
    ("standard", "said"),
    [
        (
            Standard(0.999, seconds=7200, nodes=11),
            "10 nodes watched: a verdict needs 11 (--min-nodes)",
        ),
        (
            Standard(0.999, seconds=86400, nodes=3),
            ("listened to 3 nodes or more at once for 2h: a verdict needs 1d (--min-time)"),
        ),
        (
            Standard(0.999, transitions=10**7),
            (
                "0 of 1,000,000 exits were lost silently; 1,000,000 transitions were judged: a"
                " verdict needs 10,000,000 (--min-transitions)"
            ),
        ),
    ],
)
def test_a_verdict_needs_enough_time_nodes_and_transitions(standard: Standard, said: str) -> None:
    """Neither a go nor a no-go comes of less: the reasons say what is lacking."""
    for lost in (0, 10**5):
        judgement = judge(fleet(group(10**6, lost)), standard)
        assert judgement.verdict is Decision.NOT_ENOUGH
        assert judgement.reasons[0].replace(f"{lost:,} of", "0 of") == said
    ((_, version),) = judge_groups(fleet(group(10**6)), standard)
    assert version.verdict is Decision.NOT_ENOUGH


def test_as_much_as_a_verdict_needs_is_enough() -> None:
    """Each at its edge."""
    standard = Standard(0.999, seconds=7200, nodes=10, transitions=10**6)
    assert judge(fleet(group(10**6)), standard).verdict is Decision.NOT_YET
    assert judge(fleet(group(10**6, 10**5)), standard).verdict is Decision.NO_GO


@pytest.mark.parametrize(("flapping", "nodes"), [(1, 99), (2, 199)])
def test_a_stream_that_flaps_is_no_go_however_little_it_loses(flapping: int, nodes: int) -> None:
    """On more than one node in a hundred; it is counted, not estimated, so no minimum applies."""
    standard, good = Standard(0.999, seconds=10**6), group(10**6)
    bad = replace(good, nodes=nodes, counts=Counter(flapping=flapping))
    judgement = judge(fleet(bad), standard)
    assert judgement.verdict is Decision.NO_GO
    assert "the event stream ended 5 times or more on" in judgement.reasons[0]
    assert "(1.26 to 1.37) gives events up until it is restarted" in judgement.reasons[0]


def test_one_sick_node_among_many_is_a_note() -> None:
    """One in a hundred says nothing about the version."""
    sick = replace(group(10**6), nodes=100, counts=Counter(flapping=1))
    assert judge(fleet(sick), STANDARD).verdict is Decision.NOT_YET
    assert notes(fleet(sick))[0].startswith("the event stream ended 5 times or more on 1 node:")


LOSSY, FLAPPING = group(5000, 50), replace(group(10**6), counts=Counter(flapping=1))
HELD = replace(group(5000), missed=Counter({("stalled", EXIT): 50}))


@pytest.mark.parametrize("wrong", [LOSSY, FLAPPING, HELD])
@pytest.mark.parametrize(
    ("versions", "verdict", "why"),
    [
        (TRUSTS, Decision.NO_GO, "kubelet 1.36: events replace relists, .* up to 300 s"),
        (HINT, Decision.GO, "kubelet 1.37: .* within 1 s, so that does not decide"),
        (BOTH, Decision.NO_GO, "kubelet 1.36: events replace relists, .* up to 300 s"),
        ({}, Decision.NO_GO, "of unknown version: judged as up to 1.36, where .* up to 300 s"),
        ({"v1.99.0": 9}, Decision.NO_GO, "kubelet of unknown version"),
        (HINT | {"v1.99.0": 1}, Decision.NO_GO, "kubelet of unknown version"),
    ],
)
def test_what_goes_wrong_decides_by_what_the_kubelets_do_with_events(
    wrong: Group, versions: dict[str, int], verdict: Decision, why: str
) -> None:
    """The same loss or flapping; the kubelet on which most depends counts."""
    judgement = judge_group(beside(wrong, versions), STANDARD)
    assert judgement.verdict is verdict
    assert re.search(why, judgement.reasons[-1])
    assert len(judgement.reasons) == 2 + (verdict is Decision.GO and wrong is FLAPPING)


@pytest.mark.parametrize("versions", [TRUSTS, HINT, {}])
def test_a_stream_that_brings_nothing_is_no_go_for_any_kubelet(versions: dict[str, int]) -> None:
    """However little was seen of it; and never is it too little evidence."""
    strict = Standard(0.999, seconds=10**6, nodes=100, transitions=10**6)
    for number, certain in ((6955, True), (5, True), (4, False)):
        missed = Counter({("stalled", EXIT): number})
        it = beside(replace(group(number), missed=missed, counts=Counter(stalls=1)), versions)
        judgement = judge(fleet(it), strict)
        assert (judgement.verdict is Decision.NO_GO) == certain
        if certain:
            said = f"the stream was open and delivered nothing of {number:,} events"
            assert judgement.reasons == (f"containerd 2.1.9 (10 nodes): {said}",)


@pytest.mark.parametrize(("stalled", "silent"), [(531, 0), (0, 531), (300, 231)])
def test_a_stream_that_brings_less_than_half_is_no_go_once_that_is_certain(
    stalled: int, silent: int
) -> None:
    """With proof of who lost it or without; a few fewer may be chance."""
    few = Standard(0.999, transitions=10**6)
    missed = Counter({("stalled", EXIT): stalled, ("silent", EXIT): silent})
    it = replace(group(1000), missed=missed, counts=Counter(received=469))
    for versions in (TRUSTS, HINT, {}):
        judgement = judge_group(beside(it, versions), few)
        assert judgement.reasons == (
            "the stream was open and 531 of 1,000 events never came over it",
        )
        less = replace(it, missed=missed - Counter({("stalled", EXIT): 5, ("silent", EXIT): 5}))
        assert judge_group(beside(less, versions), few).verdict is Decision.NOT_ENOUGH


def test_exits_are_judged_by_themselves() -> None:
    """68 of 22,000 exits are no go, though of 88,000 events they would be within the objective."""
    lossy = with_others(group(22_000, 68), 66_000)
    judgement = judge_group(lossy, STANDARD)
    assert lossy.every.ratio is not None
    assert lossy.every.ratio < STANDARD.allowed
    assert judgement.verdict is Decision.NO_GO
    assert judgement.reasons[0] == (
        "68 of 22,000 exits were lost silently: 0.309 %, more than the 0.1 % allowed"
    )
    told = judge_group(beside(lossy, HINT), STANDARD)
    assert (told.verdict, told.reasons[0]) == (Decision.GO, judgement.reasons[0])


@pytest.mark.parametrize(
    ("lost", "trusts", "said"),
    [
        ({}, Decision.NOT_YET, "0 of 30,000 other events were lost silently"),
        ({"silent": 30}, Decision.NOT_YET, "30 of 30,000 other events were lost silently"),
        ({"silent": 31}, Decision.NO_GO, "31 of 30,000 other events were lost silently: 0.103 %"),
        (
            {"silent": 1, "stalled": 40},
            Decision.NO_GO,
            "(1 silently, 40 undelivered by a stream that stood still): 0.137 %",
        ),
        ({"stalled": 41}, Decision.NO_GO, "were not delivered by a stream that stood still: 0.1"),
        ({"shared": 900}, Decision.NOT_YET, "0 of 30,000 other events were lost silently"),
    ],
)
def test_other_events_decide_where_kubelets_act_on_them(
    lost: dict[str, int], trusts: Decision, said: str
) -> None:
    """Up to 1.36; they are told to the others."""
    it = with_others(group(10**6), 30_000, **lost)
    judgement, hint = judge_group(it, STANDARD), judge_group(beside(it, HINT), STANDARD)
    assert (judgement.verdict, hint.verdict) == (trusts, Decision.GO)
    assert said in "; ".join(judgement.reasons)
    assert said in "; ".join(hint.reasons)


def test_a_go_names_what_is_known_to_be_broken() -> None:
    """Up to 1.36 it is none before that is mended; a runtime's own bugs are told in any case."""
    trusting = judge_group(group(10**6), STANDARD)
    assert trusting.verdict is Decision.NOT_YET
    assert trusting.reasons[-1].startswith(
        "the gate has known bugs with kubelet 1.36: k/k#123087, k/k#121003"
    )
    bad = judge_group(group(10**6, version="2.0.2"), STANDARD)
    assert bad.reasons[-1].endswith(", containerd#10740")
    assert judge_group(beside(group(10**6), {}), STANDARD).verdict is Decision.NOT_YET
    hanging = beside(group(10**6, version="2.3.2"), HINT)
    assert judge(fleet(hanging), STANDARD).verdict is Decision.GO
    assert [row.id for row in fleet(hanging).issues] == ["containerd#13814", "containerd#13849"]
    assert {*fleet(group(1), hanging).issues} <= {*KNOWN_ISSUES}


def test_what_was_not_subscribed_to_is_told_from_what_has_an_excuse() -> None:
    """Only where no subscription was up it is said that none was."""
    missed = Counter({("stream_down", EXIT): 9, ("shared", EXIT): 2})
    seen = replace(group(0), witnessed=Counter({EXIT: 11}), missed=missed)
    (excused,) = judge_group(seen, STANDARD).reasons
    (deaf,) = judge_group(replace(seen, listened=0), STANDARD).reasons
    assert excused == (
        "nothing could be judged: what was missed has an excuse (9 stream_down, 2 shared)"
    )
    assert deaf == ("nothing was judged: the stream was not subscribed to while things happened")


def test_a_young_installation_is_told_its_age() -> None:
    """In the place of the time that was listened to."""
    young = replace(fleet(group(10**6)), age=780)
    judgement = judge(young, Standard(0.999, seconds=86400))
    assert judgement.verdict is Decision.NOT_ENOUGH
    assert judgement.reasons[0] == ("this installation is 13m old: a verdict needs 1d (--min-time)")


@pytest.mark.parametrize(
    ("judged", "silent", "verdict"),
    [
        (1000, 0, Decision.GO),
        (1000, 400, Decision.GO),
        (1000, 500, Decision.NOT_ENOUGH),
        (1000, 501, Decision.NO_GO),
        (999, 0, Decision.NOT_ENOUGH),
        (999, 501, Decision.NOT_ENOUGH),
    ],
)
def test_a_hint_that_comes_less_than_half_of_the_time_is_no_go(
    judged: int, silent: int, verdict: Decision
) -> None:
    """It would do no harm, and the median exit is not noticed sooner: for no kubelet."""
    standard = replace(STANDARD, transitions=1000)
    for versions in (HINT, {}, TRUSTS)[: 3 if silent > judged / 2 else 1]:
        assert judge_group(beside(group(judged, silent), versions), standard).verdict is verdict


def test_what_costs_nothing_in_one_version_is_no_loss_of_another() -> None:
    """A mean of both would lose 2.5 % to kubelets that trust events."""
    lossy = beside(group(5000, 250, "2.1.8"), HINT)
    judgement = judge(fleet(group(5000), lossy), STANDARD)
    assert judgement.verdict is Decision.NOT_YET
    assert judgement.reasons[-1].startswith("containerd 2.1.8 (10 nodes): 250 of 5,000")
    assert judge(fleet(group(5000), beside(lossy, {})), STANDARD).verdict is Decision.NO_GO


@pytest.mark.parametrize(
    ("versions", "late"),
    [({}, "300 s"), (HINT, "1 s"), (BOTH, "300 s"), (HINT | {"v2.0.0": 1}, "300 s")],
)
def test_risks_are_told_with_what_they_cost_these_kubelets(
    versions: dict[str, int], late: str
) -> None:
    """The longest pause of any of them; of all generations where one is not known."""
    risky = fleet(
        replace(
            group(10**6),
            missed=Counter({("stream_down", EXIT): 7, ("stalled", EXIT): 4, ("shared", EXIT): 2}),
            late=Counter({("stalled", EXIT): 4}),
            counts=Counter(stalls=3),
        )
    )
    told = Kubelets(Counter(versions))
    down, stalls, shared = notes(replace(risky, kubelets=told))
    assert down.startswith("7 were missed while the stream was down")
    assert stalls.startswith(
        "stalls: 3 (the stream was up and stood still), 4 events came after all, late."
    )
    assert shared.startswith("2 events of exclusive streams may have gone to another subscriber")
    for each in (down, stalls):
        assert f"its next relist, up to {late} later" in each


@pytest.mark.parametrize(("edge", "told"), [(1.0, False), (5.0, True)])
def test_events_that_are_later_than_relists_gain_little(edge: float, told: bool) -> None:  # noqa: FBT001 - a row
    """A kubelet without them relists every second."""
    late = Counter({edge / 2: 0, edge: 10, math.inf: 10})
    assert bool(notes(fleet(replace(group(10**6), announced=late)))) is told


def test_ghosts_are_told_and_do_not_decide() -> None:
    """The list is wrong for both kinds of PLEG; the step comes after what the verdict asks for."""
    good = beside(group(10**6), HINT)
    haunted = fleet(replace(good, counts=Counter(ghosts=3, strays=2, kernel=9)))
    assert judge(haunted, STANDARD).verdict is Decision.GO
    assert notes(haunted)[0].startswith(
        "ghosts: 3 (listed as running, without a process), strays: 2"
    )
    assert notes(haunted)[1].startswith("the kernel was a witness on 9 of 10 nodes:")


def test_what_is_undecided_counts_in_the_upper_bound_only() -> None:
    """Not a loss, and no evidence of completeness."""
    doubtful = replace(group(4742), counts=Counter(undecided=2))
    judgement = judge_group(doubtful, STANDARD)
    assert (doubtful.exits.ratio, judgement.verdict) == (0, Decision.NOT_ENOUGH)
    assert judgement.reasons[0].startswith(
        "0 of 4,742 exits were lost silently, and 2 more may have been: at most 0.133 %"
    )
    assert (
        judge_group(replace(group(4742), counts=Counter(undecided=1)), STANDARD).verdict
        is Decision.NOT_YET
    )


def test_a_late_announcement_takes_back_a_miss_of_its_own_cause() -> None:
    """Of the same event, and no other; more late ones than misses in a window are none."""
    missed = Counter({("silent", EXIT): 5, ("stream_down", EXIT): 2, ("stalled", START): 4})
    late = Counter({("stream_down", EXIT): 2, ("silent", START): 9, ("stalled", START): 1})
    it = replace(group(1000), missed=missed, late=late)
    assert (it.exits.silent, it.exits.undelivered) == (5, 0)
    assert (it.others.silent, it.others.undelivered) == (0, 3)
    assert (it.every.lost, it.final_loss) == (8, 8)


def test_an_unknown_kubelet_is_to_be_named() -> None:
    """It is judged as the one that needs most of the stream."""
    for versions in (TRUSTS, {}):
        told = notes(fleet(beside(LOSSY, versions)))
        assert any("--kubelet-version" in each for each in told) == (not versions)


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
