"""Laws that hold for every log of facts."""

from collections import Counter, defaultdict

from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st

from exporter.model.events import Announcement, Lifecycle
from exporter.model.facts import Killed, KillsCounted
from exporter.model.findings import Cause, Verdict
from exporter.model.labels import OomKill
from exporter.pleg.memory import RETENTION
from exporter.pleg.oom import REASON
from exporter.runtimes.known import PROFILES
from exporter.runtimes.runtime import Profile
from tests.support.facts import CONTAINERD_2, CRIO, EVENTFUL, Given, Play, relist
from tests.support.fixtures import examples
from tests.support.scenarios import LAST, garbage
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
