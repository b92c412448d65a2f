"""Answers of an HTTP server that is not what was expected there."""

import asyncio
from collections.abc import Awaitable, Callable
from typing import Any, Final

from aiohttp import web

MIB: Final = 1 << 20

Answer = Callable[[web.Request], Awaitable[web.StreamResponse]]


def answering(**response: Any) -> Answer:
    async def answer(_request: web.Request) -> web.StreamResponse:
        return web.Response(**response)

    return answer


def status(number: int, **headers: str) -> Answer:
    return answering(status=number, text="no\n", headers=headers)


def slowly(seconds: float) -> Answer:
    """Nothing of use, so much later."""

    async def answer(_request: web.Request) -> web.StreamResponse:
        await asyncio.sleep(seconds)
        return web.Response(text="no\n")

    return answer


async def endless(request: web.Request) -> web.StreamResponse:
    response = web.StreamResponse()
    await response.prepare(request)
    while True:
        await response.write(b'some_metric{some="label"} 1\n' * (MIB // 40))
        # Writing to a closed connection never waits: without this the loop would not notice.
        await asyncio.sleep(0)


async def breaks_off(request: web.Request) -> web.StreamResponse:
    response = web.StreamResponse()
    response.content_length = MIB
    await response.prepare(request)
    await response.write(b'{"status":')
    assert request.transport is not None
    request.transport.abort()
    return response
