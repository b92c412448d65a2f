"""The table of properties.yaml, and what a history says of each row."""

from dataclasses import dataclass
from enum import Enum
from pathlib import Path
from typing import Final

from conformance.history import History
from conformance.judges import Judge, Judged, judge_of
from exporter.settings.files import parsed_yaml

# These have parts, and findings of a ledger show them, too.
_RECORDED: Final = ("announced", "failed-start", "pod-removal", "restart-meanwhile")


class Level(Enum):
    """OBSERVED: nobody owes it; the answer is told."""

    MUST = "MUST"
    SHOULD = "SHOULD"
    OBSERVED = "OBSERVED"


@dataclass(frozen=True, slots=True)
class Property:
    """A row. `parts`: of a run; it needs one of them."""

    name: str
    group: str
    number: int
    level: Level
    source: str
    owed: str
    judge: Judge
    parts: tuple[str, ...]

    def judged(self, history: History) -> Judged:
        """What the history says of it."""
        if history.findings is not None and self.parts and self.name not in _RECORDED:
            return Judged(skipped="a recording does not say what was done")
        missing = [history.skipped[part] for part in self.parts if part in history.skipped]
        if missing and len(missing) == len(self.parts):
            return Judged(skipped=missing[0])
        judged = self.judge(history, self.parts)
        if not judged.cases:
            judged.skipped = "nothing of the kind happened"
        return judged


def _table() -> dict[str, Property]:
    table = parsed_yaml(Path(__file__).with_suffix(".yaml").read_bytes())
    found = {}
    for group, rows in table.items():
        for name, (number, level, source, how, *owed) in rows.items():
            judge, *parts = how.split()
            about = ", ".join(owed)
            found[name] = Property(
                name, group, number, Level(level), source, about, judge_of(judge), tuple(parts)
            )
    return found


PROPERTIES: Final = _table()
