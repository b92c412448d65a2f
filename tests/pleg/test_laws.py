"""Laws that hold for every log of facts."""

import gc
import tracemalloc
from collections import Counter, defaultdict
from collections.abc import Iterator
from dataclasses import replace

from hypothesis import HealthCheck, example, given, settings
from hypothesis import strategies as st

from exporter.model.events import Announcement, Lifecycle, Listed
from exporter.model.facts import Killed, KillsCounted, Relist
from exporter.model.findings import Cause, Verdict
from exporter.model.labels import OomKill
from exporter.pleg.ledger import Ledger
from exporter.pleg.memory import RETENTION
from exporter.pleg.oom import REASON
from exporter.runtimes.known import PROFILES
from exporter.runtimes.runtime import Profile
from tests.support.facts import (
    CONTAINERD_2,
    CRIO,
    EVENTFUL,
    EXITED,
    GRACE,
    LAST,
    RUNNING,
    Differences,
    Given,
    Play,
    Whole,
    created,
    deleted,
    facts_of,
    garbage,
    relist,
    up,
)
from tests.support.fixtures import examples
from tests.worlds.families import FAMILIES
from tests.worlds.search import Family, explore

PROFILE = st.sampled_from((CONTAINERD_2, CRIO, EVENTFUL, PROFILES[1]))


@settings(examples(1), suppress_health_check=[HealthCheck.too_slow])
@given(log=garbage(), profile=PROFILE)
def test_no_sequence_of_facts_raises_and_none_is_judged_twice(
    log: list[Given], profile: Profile
) -> None:
    """Any ids, any times in any order, ids listed twice; and the books balance."""
    play = Play(profile=profile, quiet=True)
    for fact in log:
        play.then(fact)
    # Long enough for a stream that seems to stand still.
    for n in range(5):
        play.then(relist(LAST + 20.0 * n))
    assert play.ledger.unresolved == 0
    play.then(relist(LAST + 80 + RETENTION))
    assert play.ledger.remembered == 0
    check_books(play, log)


@given(family=st.sampled_from(FAMILIES), seed=st.integers(min_value=1))
def test_in_long_histories_by_chance_ledger_and_oracle_agree(family: Family, seed: int) -> None:
    """Other ones in each `make soak`; those of `tests/worlds` are the same each time."""
    graph = explore(family, 0, 6, seed=seed)
    assert not graph.differences, "\n\n".join(map(str, graph.differences))


def check_books(play: Play, log: list[Given]) -> None:
    """Per identity: what a witness never said cannot have been judged."""
    said = Counter((f.container_id, f.type.announces) for f in log if isinstance(f, Announcement))
    books: dict[tuple[str, Lifecycle], Counter[Verdict]] = defaultdict(Counter)
    for finding in play.findings:
        books[finding.container_id, finding.event][finding.verdict] += 1
    for identity, n in books.items():
        proven = n[Verdict.CONFIRMED] + n[Verdict.MISSED] + n[Verdict.UNDECIDED]
        assert proven <= n[Verdict.WITNESSED]
        assert n[Verdict.LATE] <= n[Verdict.MISSED]
        assert proven + n[Verdict.UNSEEN] <= 1
        assert n[Verdict.MISSED] + n[Verdict.GAP] <= 1
        assert n[Verdict.CONTRADICTED] <= 1
        heard = n[Verdict.CONFIRMED] + n[Verdict.LATE] + n[Verdict.UNSEEN] + n[Verdict.DUPLICATE]
        assert heard <= said[identity]
        assert n[Verdict.BACKLOG] <= said[identity]
    kinds = Counter(each.cause for each in play.findings if each.verdict is Verdict.OOM)
    words = kinds.pop(OomKill.REASON_ONLY, 0)
    assert words <= sum(each.reason == REASON for each in log if isinstance(each, Announcement))
    counted = (each.number for each in log if isinstance(each, KillsCounted) and each.number)
    killed = (each.number for each in log if isinstance(each, Killed) and each.number > 0)
    assert kinds.total() <= sum(map(abs, counted)) + sum(killed)
    for finding in play.findings:
        if finding.verdict is Verdict.GAP:
            assert finding.cause not in {Cause.SILENT, Cause.BY_DESIGN}
        else:
            caused = finding.verdict in {Verdict.MISSED, Verdict.LATE, Verdict.FLAWED, Verdict.OOM}
            assert (finding.cause is not None) is caused


TWICE = replace(relist(1), items=(*relist(1, c1=EXITED).items, *relist(1, c1=RUNNING).items))


@given(log=garbage())
@example(log=[TWICE, replace(TWICE, items=TWICE.items[1:]), relist(9)])
def test_differences_make_up_the_lists(log: list[Given]) -> None:
    """Even if lists have two items of one id, of which the first counts."""
    lists: dict[str, Listed] = {}
    differences = Differences()
    for line in log:
        fact = differences.fact(line)
        if isinstance(line, Whole) and isinstance(fact, Relist):
            assert {item.id for item in fact.changed if item == lists.get(item.id)} == set()
            lists |= {item.id: item for item in fact.changed}
            for gone in fact.gone:
                del lists[gone]
            assert lists == {item.id: item for item in reversed(line.items)}
            assert fact.listed == len(lists)


PERIOD = 60.0
LIVES_IN_A_PERIOD = 20


def busy_node(lives: int) -> Iterator[Given]:
    """Lives of one period each, all without STOPPED, one in twenty without DELETED."""
    yield up()
    yield relist(0.5)
    for period in range(lives // LIVES_IN_A_PERIOD):
        at = 1 + period * PERIOD
        ids = [f"{period}-{n}" for n in range(LIVES_IN_A_PERIOD)]
        yield from (created(i, at) for i in ids)
        yield relist(at + 1, **dict.fromkeys(ids, EXITED))
        yield from (deleted(i, at + 2) for i in ids[1:])
        yield relist(at + 3)


def bytes_left(lives: int) -> int:
    gc.collect()
    tracemalloc.start()
    ledger = Ledger(CONTAINERD_2, GRACE)
    for fact in facts_of(busy_node(lives)):
        ledger.judge(fact)
    gc.collect()
    # Not what other threads, or whatever watches the tests, take meanwhile.
    of_the_core = [tracemalloc.Filter(inclusive=True, filename_pattern="*/exporter/pleg/*")]
    left = tracemalloc.take_snapshot().filter_traces(of_the_core)
    tracemalloc.stop()
    assert ledger.remembered
    return sum(each.size for each in left.statistics("filename"))


def test_four_times_as_many_lives_leave_no_more_bytes() -> None:
    """The ledger's memory does not grow with the number of lives."""
    bytes_left(500)  # so that whatever watches this test has made room for itself
    few = bytes_left(500)
    assert few > 100_000
    assert bytes_left(2_000) < 1.1 * few
