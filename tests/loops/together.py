"""Stories that mostly wait run beside each other, and each is still a test of its own."""

from __future__ import annotations

import asyncio
from collections.abc import Awaitable, Callable, Mapping
from typing import Generic, TypeVar

Told = TypeVar("Told")


class Outcomes(Generic[Told]):
    """What each story came to, by its name."""

    def __init__(self, outcomes: Mapping[str, Told | BaseException]) -> None:
        self._outcomes = outcomes

    def of(self, name: str) -> Told:
        """What that one came to; what it raised is raised here."""
        outcome = self._outcomes[name]
        if isinstance(outcome, BaseException):
            raise outcome
        return outcome


def by_name(*stories: Callable[[], Awaitable[Told]]) -> dict[str, Callable[[], Awaitable[Told]]]:
    """Stories by the names of their functions."""
    return {story.__name__: story for story in stories}


def side_by_side(stories: Mapping[str, Callable[[], Awaitable[Told]]]) -> Outcomes[Told]:
    """Tell them all at once."""

    async def tell() -> list[Told | BaseException]:
        return await asyncio.gather(
            *(story() for story in stories.values()), return_exceptions=True
        )

    return Outcomes(dict(zip(stories, asyncio.run(tell()), strict=True)))
