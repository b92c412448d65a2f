"""The families of worlds that are searched, and how deep: each from somewhere interesting.

`families.yaml` has them. A family begins after its prelude, so that what takes many steps to come
about is near.
"""

import random
from collections.abc import Iterator, Mapping
from functools import cache
from operator import itemgetter
from pathlib import Path
from typing import Any, Final

import yaml

from exporter.model.facts import Fact
from tests.worlds.scene import GRACE, LASTS, PATIENCE, SETTLES, TICK, WAIT, Rules, steps
from tests.worlds.search import OFTEN, STEPS, Family

RUNTIMES: Final = {
    "containerd 2": ("containerd", "2.1.9"),
    "containerd 1.7": ("containerd", "1.7.24"),
    "cri-o": ("cri-o", "1.36.3"),
}
# A tick less, so that what comes after a pause is exactly so much later than what came before it.
PAUSES: Final = {
    "usual": Rules.pauses,
    "to the second": (1.0, 30.0 - TICK),
    "edges": (GRACE - TICK, PATIENCE * GRACE - TICK),
    "far behind": (WAIT, 31.0),
    "unsettled": (89.0, 31.0),
    "overdue": (WAIT, 31.0 - TICK),
    "long overdue": (WAIT, 32.0),
    "settled": (SETTLES - TICK, WAIT),
    "lasting": (LASTS - TICK, GRACE - TICK),
    "until clear": (WAIT, 41.0),
    "two seconds": (LASTS - 2 * TICK, WAIT),
}
FLAGS: Final = {name for name, kind in Rules.__annotations__.items() if kind is bool}


def _families() -> Iterator[Family]:
    path = Path(__file__).with_name("families.yaml")
    source = yaml.load(path.read_text(encoding="utf-8"), yaml.CSafeLoader)
    preludes: dict[str, tuple[str, ...]] = {}
    for name, text in source["preludes"].items():
        preludes[name] = _steps(text, preludes)
    for name, row in source["families"].items():
        words = row.pop("with", "").split()
        runtime = RUNTIMES[row.pop("runtime", "containerd 2")]
        # A kubelet, and delays, multiply the states.
        most = (2, 4) if "kubelet" in words else (3, 4) if "delays" in words else (3, 5)
        quick, long = row.pop("steps", most)
        flags: dict[str, Any] = {word: True for word in words if word in FLAGS}
        rules = Rules(
            containers=("c1", "c2") if "two" in words else ("c1",),
            others="alone" not in words,
            troubles=tuple(word for word in words if word not in {*FLAGS, "two", "alone"}),
            pauses=PAUSES[row.pop("pauses", "usual")],
            prelude=_steps(row.pop("after", ""), preludes),
            clock=tuple(row.pop("clock", ())),
            **flags,
        )
        assert not row, f"{name}: {row}"
        yield Family(name, rules, runtime, quick, long)


def _steps(text: str, preludes: Mapping[str, tuple[str, ...]]) -> tuple[str, ...]:
    each = text.split("; ") if text else ()
    return tuple(step for name in each for step in preludes.get(name, (name,)))


FAMILIES: Final = tuple(_families())


@cache
def histories() -> tuple[list[Fact], ...]:
    """One of each family of small worlds, as an exporter learns it; the same ones each time."""
    return tuple(history(family) for family in FAMILIES)


def history(family: Family, number: int = 0) -> list[Fact]:
    """One of that family: for each number another one."""
    chance = random.Random(f"{family.name}{number or ''}")
    scene, log, *_ = family.begun()
    scene = scene._replace(waits=OFTEN)
    for _ in range(STEPS):
        following = sorted(steps(scene, family.rules), key=itemgetter(0))
        _, scene, new = chance.choice(following)
        log += map(scene.read, new)
    return log
