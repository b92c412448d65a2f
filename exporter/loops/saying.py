"""Logs the node's verdict whenever it changes."""

import asyncio
import time
from typing import Final

import structlog

from exporter.account import NodeState
from exporter.node.judgement import Judge

_log = structlog.get_logger()

_LOOK_SECONDS: Final = 5.0
_FINE: Final = (NodeState.STARTING, NodeState.IDLE, NodeState.COMPLETE, NodeState.NOT_WATCHED)


async def say_verdicts(judge: Judge) -> None:
    """Look at the verdict until cancelled; log each new one."""
    said: NodeState | None = NodeState.STARTING
    while True:
        state = judge.at(time.monotonic()).state
        if state is not said:
            write = _log.info if state in _FINE else _log.warning
            write("node verdict", verdict=state.name.lower(), text=state.value)
            said = state
        await asyncio.sleep(_LOOK_SECONDS)
