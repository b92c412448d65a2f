"""`--fail-on` of `record` and `replay`: a verdict on one node, with an exit code."""

from collections import Counter

import pytest

from exporter.commands.options import Fault, failures, faults
from exporter.errors import ConfigError
from exporter.model.findings import Cause, Verdict, Why
from exporter.model.labels import Flaw, OomKill

pytestmark = pytest.mark.quick

HERE = ("containerd 2.1.9",)
ALL = tuple(Fault)
# Of which kind the reasons of a verdict are, if not causes.
WHY: dict[str, type[Flaw | OomKill]] = {"flawed": Flaw, "oom": OomKill}
Numbers = Counter[tuple[Verdict, Why | None]]


def found(**numbers: int) -> Numbers:
    """So many, of a node on which something happened; `missed__silent`: a verdict and its cause."""
    counts: Numbers = Counter({(Verdict.WITNESSED, None): 9})
    for name, number in numbers.items():
        verdict, _, why = name.partition("__")
        cause: Why | None = None
        if why:
            cause = WHY.get(verdict, Cause)(why)
        counts[Verdict(verdict), cause] = number
    return counts


@pytest.mark.parametrize(
    ("numbers", "failed"),
    [
        ({}, []),
        ({"missed__silent": 2}, ["2 silent"]),
        ({"missed__silent": 2, "late__silent": 2}, []),
        ({"missed__stalled": 3, "late__stalled": 1}, ["2 undelivered"]),
        ({"missed__stream_down": 4, "missed__by_design": 4, "gap": 1}, []),
        ({"ghost": 1, "stray": 2, "twin": 3}, ["1 ghosts", "2 strays", "3 twins"]),
        ({"flawed__wrong_state": 1, "flawed__no_pod": 2}, ["3 flaws"]),
        ({"oom__announced_as_error": 2, "oom__announced": 9, "oom__survived": 4}, ["2 oom"]),
        ({"oom__unannounced": 1, "oom__unattributed": 1, "oom__reason_only": 1}, []),
    ],
)
def test_each_kind_fails_by_itself(numbers: dict[str, int], failed: list[str]) -> None:
    assert failures(ALL, found(**numbers), HERE) == failed
    assert failures((), found(**numbers), HERE) == []


def test_what_a_runtime_is_known_for_is_no_failure() -> None:
    """A pipeline turns red on news."""
    numbers = found(flawed__out_of_order=5)
    assert failures(ALL, numbers, ("cri-o 1.36.3",)) == []
    assert failures(ALL, numbers, HERE) == ["5 flaws"]


def test_a_node_on_which_nothing_happened_has_not_passed() -> None:
    assert failures((Fault.SILENT,), Counter(), ()) == ["nothing happened, so nothing was judged"]


def test_kinds_have_commas_between_them() -> None:
    assert faults("silent, flaws,silent") == (Fault.SILENT, Fault.FLAWS)
    assert faults("never") == ()
    with pytest.raises(ConfigError, match="'lost' is unknown: give never, or silent,"):
        faults("silent,lost")
