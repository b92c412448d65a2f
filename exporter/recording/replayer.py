"""Replays a recording through a new ledger: same facts, same order, same verdicts.

It compares the result with the findings recorded live. Blind spot: it uses this program's ledger
and profiles; if the recorder's were different, verdicts may differ, and the replay reports that.
"""

from collections import Counter, deque
from collections.abc import Iterator, Sequence
from dataclasses import dataclass, field

from exporter.model.facts import Fact, ProfileChosen
from exporter.model.findings import Cause, Finding, Outcome, Verdict
from exporter.pleg.ledger import Ledger
from exporter.recording.reader import Recording
from exporter.recording.recorder import STOPPED
from exporter.recording.rows import Found, RecordedFinding, recorded
from exporter.runtimes.known import profile_of


@dataclass(slots=True)
class Comparison:
    """Compares live findings with those of the replay. `difference`: the first one, in words."""

    live: int = 0
    same: int = 0
    difference: str = ""
    _expected: deque[RecordedFinding] = field(default_factory=deque)

    @property
    def agrees(self) -> bool:
        """Whether there is no difference."""
        return not self.difference

    def replayed(self, findings: Sequence[Finding]) -> None:
        """Findings of the replay; those still expected from earlier facts were not found live."""
        self.close()
        self._expected.extend(map(recorded, findings))

    def recorded(self, findings: Sequence[RecordedFinding]) -> None:
        """Findings recorded live."""
        for found in findings:
            self.live += 1
            again = self._expected.popleft() if self._expected else None
            if again == found:
                self.same += 1
            elif not self.difference:
                now = _words(again) if again is not None else "nothing"
                self.difference = f"live it was {_words(found)}, replayed it is {now}"

    def close(self) -> None:
        """The live run found nothing more for the last fact."""
        if self._expected and not self.difference:
            self.difference = f"live it was nothing, replayed it is {_words(self._expected[0])}"
        self._expected.clear()


def _words(found: RecordedFinding) -> str:
    cause = f" {found.cause.value}" if found.cause is not None else ""
    return f"{found.container_id} {found.event.label} {found.verdict.value}{cause}"


class Replay:
    """Iterate over it once, for each fact and its outcome. The counts are complete afterwards."""

    def __init__(self, recording: Recording) -> None:
        self.recording = recording
        self.ledger = Ledger(profile_of("", ""), recording.header.grace)
        self.comparison = Comparison()
        self.facts: Counter[str] = Counter()
        self.verdicts: Counter[tuple[Verdict, Cause | None]] = Counter()
        self.runtimes: dict[str, None] = {}

    def __iter__(self) -> Iterator[tuple[Fact, Outcome]]:
        for piece in self.recording:
            if isinstance(piece, Found):
                self.comparison.recorded(piece.findings)
                continue
            self.facts[type(piece).__name__] += 1
            if isinstance(piece, ProfileChosen):
                self.runtimes[f"{piece.name} {piece.version}"] = None
            outcome = self.ledger.take(piece)
            self.comparison.replayed(outcome.findings)
            self.verdicts.update((each.verdict, each.cause) for each in outcome.findings)
            yield piece, outcome
        end = self.recording.end
        # A recording that was cut off may lack the findings of its last fact.
        if end is not None and end.why == STOPPED:
            self.comparison.close()
