"""How a measurement speaks with the processes it started: a line in, a line of JSON out."""

from __future__ import annotations

import asyncio
import json
import sys
from collections.abc import Awaitable, Callable
from typing import Any


async def obey(command: Callable[[str, list[float]], Awaitable[dict[str, Any]]]) -> None:
    """Answer each line on stdin, a word and numbers, until it ends."""
    lines = asyncio.StreamReader()
    loop = asyncio.get_running_loop()
    await loop.connect_read_pipe(lambda: asyncio.StreamReaderProtocol(lines), sys.stdin)
    while line := await lines.readline():
        word, *numbers = line.decode().split()
        answer = await command(word, [float(number) for number in numbers])
        print(json.dumps(answer), flush=True)
