"""Replays a recording through a new ledger, and compares the verdicts with those reached live.

Blind spot: if the recorder was another version, verdicts may differ, which the replay reports.
"""

from collections import Counter
from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from itertools import zip_longest

from exporter.model.facts import Fact, ProfileChosen
from exporter.model.findings import Outcome, Verdict, Why
from exporter.pleg.ledger import Ledger
from exporter.recording.recorder import STOPPED
from exporter.recording.rows import Found, RecordedFinding, recorded
from exporter.runtimes.known import profile_of
from replay.reader import Recording


@dataclass(slots=True)
class Comparison:
    """Compares live findings with those of the replay."""

    live: int = 0
    same: int = 0
    # The first one, in words.
    difference: str = ""

    @property
    def agrees(self) -> bool:
        """Whether there is no difference."""
        return not self.difference

    def add(self, live: Sequence[RecordedFinding], replayed: Sequence[RecordedFinding]) -> None:
        """Findings of one fact."""
        self.live += len(live)
        for was, now in zip_longest(live, replayed):
            if was == now:
                self.same += 1
            elif not self.difference:
                self.difference = f"live it was {_words(was)}, replayed it is {_words(now)}"


def _words(found: RecordedFinding | None) -> str:
    if found is None:
        return "nothing"
    cause = f" {found.cause}" if found.cause is not None else ""
    return f"{found.container_id} {found.event.label} {found.verdict.value}{cause}"


class Replay:
    """Yields each fact and its outcome, once; the counts are complete afterwards."""

    def __init__(self, recording: Recording) -> None:
        self.recording = recording
        self.ledger = Ledger(profile_of("", ""), recording.header.grace)
        self.comparison = Comparison()
        self.facts: Counter[str] = Counter()
        self.verdicts: Counter[tuple[Verdict, Why | None]] = Counter()
        self.runtimes: dict[str, None] = {}

    def __iter__(self) -> Iterator[tuple[Fact, Outcome]]:
        # The findings of the last fact.
        live: list[RecordedFinding] = []
        replayed: list[RecordedFinding] = []
        for piece in self.recording:
            if isinstance(piece, Found):
                live += piece.findings
                continue
            self.comparison.add(live, replayed)
            outcome = self.ledger.judge(piece)
            live, replayed = [], list(map(recorded, outcome.findings))
            self.facts[type(piece).__name__] += 1
            if isinstance(piece, ProfileChosen):
                self.runtimes[f"{piece.name} {piece.version}"] = None
            self.verdicts.update((each.verdict, each.cause) for each in outcome.findings)
            yield piece, outcome
        end = self.recording.end
        # A recording that was cut off may lack the findings of its last fact.
        whole = end is not None and end.why == STOPPED
        self.comparison.add(live, replayed if whole else replayed[: len(live)])
