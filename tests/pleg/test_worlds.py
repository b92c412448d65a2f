"""All that can happen in a few steps: the ledger finds what the oracle finds, as it always did."""

import pytest

from tests.worlds.__main__ import QUICK, kept, line
from tests.worlds.families import FAMILIES
from tests.worlds.search import Family, explore


@pytest.mark.parametrize(
    "family",
    # Not all in one process, as the tests of a file are.
    [
        pytest.param(each, id=each.name, marks=pytest.mark.xdist_group(each.name))
        for each in FAMILIES
    ],
)
def test_in_all_small_worlds_ledger_and_oracle_agree(family: Family) -> None:
    """`make worlds` searches deeper; `python -m tests.worlds --quick --write` keeps new digests."""
    graph = explore(family, family.quick, QUICK, ends=False)
    assert not graph.differences, "\n\n".join(map(str, graph.differences))
    assert line(family, family.quick, graph) in kept()
