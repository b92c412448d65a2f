"""Logs of facts by chance: of small worlds; and garbage for hypothesis."""

import random
from collections.abc import Mapping
from enum import Enum
from functools import cache
from operator import itemgetter
from types import NoneType
from typing import Any, get_args, get_origin, get_type_hints

from hypothesis import strategies as st

from exporter.model import facts
from tests.support.facts import Given, Whole, wall_ns
from tests.worlds.families import FAMILIES
from tests.worlds.scene import steps
from tests.worlds.search import Family

LAST = 1000.0
_STEPS = 40
_ids = st.one_of(st.sampled_from(("", "c1", "p1")), st.text(max_size=2))
_times = st.floats(-200, 300)
_walls = st.one_of(st.sampled_from((0, 1)), st.integers(-(2**70), 2**70), _times.map(wall_ns))


def of_type(hint: Any, basic: Mapping[Any, st.SearchStrategy[Any]]) -> st.SearchStrategy[Any]:
    """Any value of that type; texts and numbers in it are `basic`."""
    if hint in basic:
        return basic[hint]
    if hint in (bool, None, NoneType):
        return st.booleans() if hint is bool else st.none()
    parts = get_args(hint)
    if get_origin(hint) is tuple:
        return st.lists(of_type(parts[0], basic), max_size=4).map(tuple)
    if parts:
        return st.one_of(*(of_type(part, basic) for part in parts))
    if issubclass(hint, Enum):
        return st.sampled_from(hint)
    fields = get_type_hints(hint)
    return st.builds(hint, **{name: of_type(each, basic) for name, each in fields.items()})


def garbage() -> st.SearchStrategy[list[Given]]:
    """Facts of the right types and nothing else right about them."""
    kinds = {*get_args(facts.Fact), Whole} - {facts.Relist, facts.ProfileChosen}
    basic = {str: _ids, float: _times, int: _walls}
    ordered = sorted(kinds, key=lambda kind: kind.__name__)
    return st.lists(st.one_of(*(of_type(kind, basic) for kind in ordered)), max_size=30)


@cache
def histories() -> tuple[list[facts.Fact], ...]:
    """One of each family of small worlds, as an exporter learns it; the same ones each time."""
    return tuple(history(family) for family in FAMILIES)


def history(family: Family, number: int = 0) -> list[facts.Fact]:
    """One of that family: for each number another one."""
    chance = random.Random(f"{family.name}{number or ''}")
    scene, log, *_ = family.begun()
    scene = scene._replace(waits=(_STEPS, _STEPS))
    for _ in range(_STEPS):
        following = sorted(steps(scene, family.rules), key=itemgetter(0))
        _, scene, new = chance.choice(following)
        log += map(scene.read, new)
    return log
