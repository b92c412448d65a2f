"""The node's verdict now: `account.states_of` applied to what this process knows.

Everything that says how the node is reads it here, so that no two surfaces disagree.
"""

from collections.abc import Callable
from dataclasses import dataclass
from typing import Final

from exporter.account import Account, NodeState, Present, states_of
from exporter.model.findings import Verdict
from exporter.model.labels import StreamKind, StreamState
from exporter.node.history import History
from exporter.node.state import Node

# A relist that is later than this and the jitter hangs.
_SLACK_SECONDS: Final = 10.0
JITTER: Final = 1.1
# Seconds that a kubelet waits for a list.
KUBELETS_TIMEOUT: Final = 120.0
_WANTED: Final = (StreamState.CONNECTING, StreamState.STREAMING, StreamState.BACKOFF)


def longest_pause(period: float) -> float:
    """Seconds after one relist by which the next one must have begun."""
    return JITTER * period + _SLACK_SECONDS


@dataclass(frozen=True, slots=True)
class Judgement:
    """`states`: all that hold, the most urgent first. `account`: of the last 15 minutes."""

    states: tuple[NodeState, ...]
    account: Account
    present: Present

    @property
    def state(self) -> NodeState:
        """The verdict."""
        return self.states[0]


@dataclass(frozen=True, slots=True)
class Judge:
    """Judges a node. `mislisted`: of how many containers lists or kubelet are wrong so."""

    node: Node
    history: History
    mislisted: Callable[[Verdict], int]

    def at(self, now: float) -> Judgement:
        """The judgement at monotonic time `now`."""
        node = self.node
        present = Present(
            answers=_answers(node, now),
            streaming=node.stream is StreamState.STREAMING,
            wanted=node.stream in _WANTED,
            exclusive=node.runtime is not None and node.runtime.stream is StreamKind.EXCLUSIVE,
            ghosts=self.mislisted(Verdict.GHOST),
            strays=self.mislisted(Verdict.STRAY),
            stale=self.mislisted(Verdict.STALE),
            unknown=self.mislisted(Verdict.UNKNOWN_TO_KUBELET),
        )
        account = self.history.account(now)
        return Judgement(states_of(account, present), account, present)


def _answers(node: Node, now: float) -> bool | None:
    """Whether the runtime answers; None before its first answer, if no call has failed."""
    if node.relist_succeeded is None:
        return False if node.relist_note else None
    # One that takes long may take still longer.
    longest = longest_pause(node.relist_period) + 2 * node.relist_seconds
    return not node.relist_note and now - node.relist_succeeded <= longest
