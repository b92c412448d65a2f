"""Whether this process works, for probes and the page."""

from exporter.conditions.sentences import KUBELETS_TIMEOUT
from exporter.node.judgement import longest_pause
from exporter.node.state import Node
from exporter.settings.config import Config


def not_alive(node: Node, config: Config, now: float) -> str:
    """Why this process does not work at monotonic time `now`; empty if it does."""
    rest = max(config.relist_period, node.relist_period)
    patience = max(config.relist_timeout, KUBELETS_TIMEOUT) + longest_pause(rest)
    # Failing relists do not count: restarting the exporter does not fix a runtime.
    stands_still = node.relist_turned is not None and now - node.relist_turned >= patience
    return f"no relist was begun for {patience:g} s" if stands_still else ""


def not_ready(node: Node, config: Config, now: float) -> str:
    """Why the last successful relist is too old to trust the metrics; empty if it is not."""
    last = node.relist_succeeded
    if last is not None and now - last < config.relist_threshold:
        return ""
    # Not the runtime's own words: they may name pods, and probes need no login.
    why = node.relist_reason
    return f"the last relist failed: {why}" if why else "no relist has succeeded recently"
