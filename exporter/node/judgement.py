"""The node's verdict now: the catalogue of conditions applied to what this process knows.

Page, probes, metrics and log take it from here. Page and probes also ask here whether this process
works.
"""

from collections.abc import Callable
from dataclasses import dataclass
from typing import Final

from exporter.conditions import catalogue
from exporter.conditions.account import Account
from exporter.conditions.condition import Condition, Present
from exporter.conditions.sentences import KUBELETS_TIMEOUT
from exporter.cri.limits import NEARLY_UNSENDABLE_BYTES
from exporter.model.findings import Verdict
from exporter.model.labels import StreamKind
from exporter.node.history import History
from exporter.node.state import Node, some_of
from exporter.settings.config import Config

# The pause between two relists is at most this many times the period.
_JITTER: Final = 1.1
# A relist that is late by more than the jitter plus this hangs.
_SLACK_SECONDS: Final = 10.0
# Contradictions about a state: they stand (`pleg.steps`) until the sources agree again.
STANDING: Final = (
    *(Verdict.GHOST, Verdict.STRAY, Verdict.TWIN, Verdict.STALE, Verdict.UNKNOWN_TO_KUBELET),
    Verdict.FROZEN,
    *(Verdict.OVERDUE_PROCESS, Verdict.OVERDUE_RUNTIME, Verdict.OVERDUE_KUBELET),
)


def longest_pause(period: float) -> float:
    """Seconds after one relist by which the next one must have begun."""
    return _JITTER * period + _SLACK_SECONDS


@dataclass(frozen=True, slots=True)
class Judgement:
    """The conditions that hold at one moment, and what they were judged by."""

    # The most urgent first.
    conditions: tuple[Condition, ...]
    # Of the last 15 minutes.
    account: Account
    present: Present

    @property
    def verdict(self) -> Condition:
        """The most urgent condition."""
        return self.conditions[0]


@dataclass(frozen=True, slots=True)
class Judge:
    """Judges a node."""

    node: Node
    history: History
    # How many contradictions of that kind stand.
    number: Callable[[Verdict], int]
    # How many proven events are neither announced nor counted as missed yet.
    unresolved: Callable[[], int] = lambda: 0

    def at(self, now: float) -> Judgement:
        """The judgement at monotonic time `now`."""
        account, present = self.history.account(now), self._present(now)
        found = catalogue.holding(account, present, self.history.held(now))
        return Judgement(found, account, present)

    def look(self, now: float) -> Judgement:
        """Judge, and remember the conditions; call it every few seconds."""
        judgement = self.at(now)
        self.history.hold(now, catalogue.now(judgement.account, judgement.present))
        self.history.day.look(now, judgement.conditions)
        return judgement

    def _present(self, now: float) -> Present:
        node = self.node
        last, longest = node.relist_succeeded, longest_pause(node.relist_period)
        largest = max(node.list_bytes.values(), default=0)
        return Present(
            answers=_answers(node, now),
            stream=node.stream.state,
            exclusive=node.runtime is not None and node.runtime.stream is StreamKind.EXCLUSIVE,
            standing={verdict: self.number(verdict) for verdict in STANDING},
            unresolved=self.unresolved(),
            relist_reason=node.relist_reason,
            relist_seconds=node.relist_seconds,
            overdue=0.0 if last is None else max(0.0, now - last - longest),
            answered_wall=node.relist_succeeded_wall,
            stream_reason=node.stream.reason,
            retry_wall=node.stream_retry_wall,
            list_bytes=largest,
            nearly_unsendable=largest >= NEARLY_UNSENDABLE_BYTES,
            garbled=some_of(node.garbled.values()),
            kernel=node.kernel.state,
            kernel_note=node.kernel.note,
        )


def _answers(node: Node, now: float) -> bool | None:
    """Whether the runtime answers; None before its first answer, if no call has failed."""
    if node.relist_succeeded is None:
        return False if node.relist_note else None
    # If the last relist was slow, the next one may be slower.
    longest = longest_pause(node.relist_period) + 2 * node.relist_seconds
    return not node.relist_note and now - node.relist_succeeded <= longest


def not_alive(node: Node, config: Config, now: float) -> str:
    """Why this process does not work at monotonic time `now`; empty if it does."""
    rest = max(config.relist_period, node.relist_period)
    patience = max(config.relist_timeout, KUBELETS_TIMEOUT) + longest_pause(rest)
    # Whether relists succeed is not asked: restarting the exporter does not fix a runtime.
    stands_still = node.relist_begun is not None and now - node.relist_begun >= patience
    return f"no relist was begun for {patience:g} s" if stands_still else ""


def not_ready(node: Node, config: Config, now: float) -> str:
    """Why the last successful relist is too old to trust the metrics; empty if it is not."""
    last = node.relist_succeeded
    if last is not None and now - last < config.relist_threshold:
        return ""
    # The runtime's own text may name pods: it is in page and log, as /readyz needs no login.
    why = node.relist_reason
    return f"the last relist failed: {why}" if why else "no relist has succeeded recently"
