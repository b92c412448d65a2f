"""One container's story from a recording: each moment, each verdict, and the reasons."""

from dataclasses import dataclass, field
from typing import Final

from exporter.errors import ConfigError
from exporter.evidence.reasons import MEASURES, delay, why
from exporter.evidence.timeline import ContainerTimeline, Moment, Witness
from exporter.model.events import Announcement, Pod
from exporter.model.facts import Fact, Relist, learnt
from exporter.model.findings import Finding, Outcome, Verdict
from exporter.pleg.ledger import Ledger

_NO_POD: Final = Pod()
_SHOWN: Final = 5


@dataclass(slots=True)
class Subject:
    """The identity of a container, as far as the recording has it."""

    id: str
    sandbox_id: str = ""
    name: str = ""
    pod: Pod = _NO_POD


@dataclass(slots=True)
class Index:
    """Collects the containers that `wanted` may mean: the beginning of an id, or a name."""

    wanted: str
    meant: dict[str, Subject] = field(default_factory=dict)

    def look(self, fact: Fact) -> None:
        """Note the containers that the fact names; findings have no others."""
        if isinstance(fact, Announcement):
            self._meet(fact.container_id, fact.sandbox_id, "", fact.pod)
        elif isinstance(fact, Relist):
            for item in fact.changed:
                self._meet(item.id, item.sandbox_id, item.name, item.pod)

    def one(self) -> Subject:
        """The one container that matches; ConfigError if there is none or more than one."""
        if self.wanted in self.meant:
            return self.meant[self.wanted]
        if not self.meant:
            raise ConfigError(
                f"--explain: no container of the recording has the name {self.wanted!r}, or an id"
                " that begins with it"
            )
        if len(self.meant) > 1:
            some = ", ".join(list(self.meant)[:_SHOWN])
            raise ConfigError(
                f"--explain: {self.wanted!r} means {len(self.meant)} containers ({some}"
                f"{', ...' if len(self.meant) > _SHOWN else ''}): give more of one's id"
            )
        return next(iter(self.meant.values()))

    def _meet(self, container_id: str, sandbox_id: str, name: str, pod: Pod | None) -> None:
        if not container_id.startswith(self.wanted) and name != self.wanted:
            return
        subject = self.meant.setdefault(container_id, Subject(container_id))
        subject.sandbox_id = sandbox_id or subject.sandbox_id
        subject.name = name or subject.name
        subject.pod = pod or subject.pod


class Explainer:
    """Collects moments of a replay, with the reasons of those that are verdicts."""

    def __init__(self, subject: Subject, ledger: Ledger, grace: float) -> None:
        self._id = subject.id
        self._ledger = ledger
        self._grace = grace
        self._timeline = ContainerTimeline(subject.id, subject.sandbox_id)
        self._now = 0.0
        self._story: list[tuple[Moment, tuple[str, ...]]] = []

    def explain(self, fact: Fact, outcome: Outcome) -> None:
        """Add the fact if it bears on the container, and the findings about it."""
        self._now = learnt(fact)
        self._report(self._timeline.add(fact))
        for finding in outcome.findings:
            if finding.container_id == self._id:
                self._report(self._timeline.rest())
                self._judge(finding)

    def story(self) -> list[tuple[Moment, tuple[str, ...]]]:
        """The whole story by time, up to the last moment that concerns the container itself."""
        while self._story and self._story[-1][0].aside:
            self._story.pop()
        return sorted(self._story, key=lambda line: line[0].at)

    def _report(self, moments: list[Moment]) -> None:
        self._story += ((moment, ()) for moment in moments)

    def _judge(self, finding: Finding) -> None:
        reasons: tuple[str, ...] = ()
        if finding.verdict in MEASURES:
            text = delay(finding)
        elif finding.verdict is Verdict.WITNESSED:
            # The line before it says what was listed.
            text = f"this proves {finding.event.label}"
        else:
            cause = f" ({finding.cause.value})" if finding.cause is not None else ""
            text = f"{finding.event.label} {finding.verdict.value.upper()}{cause}"
            reasons = why(finding, self._ledger.profile, self._grace)
        self._story.append((Moment(self._now, Witness.LEDGER, text), reasons))
