"""The known bugs of bugs.yaml, which docs/track-record.md shows, and how each is reproduced.

Shown is what is done, and what the exporter says of it after how long: `serve` as a process of its
own, with the defaults that users have.
"""

import re
import time
from collections.abc import AsyncIterator, Callable, Iterator, Sequence
from contextlib import asynccontextmanager
from dataclasses import dataclass
from html import unescape
from pathlib import Path
from typing import Final

import yaml

from exporter.settings.config import Config
from exporter.settings.declaring import flags_of
from testbed.containerd import why_not
from testbed.waiting import until
from tests.support.commands import Exporter
from tests.support.observer import LAST_SEEN

_BY_DESIGN: Final = "compatibility.md#what-is-never-announced"
# What the harness hurries.
_SLOWER: Final = ("--relist-period", "--relist-max-duty", "--relist-timeout")
_BEGINS: Final = ("streaming", "refused")
# 30 s until something is stalled, a few relists, and a machine that is busy.
_PATIENCE: Final = 180.0
_SAMPLE: Final = re.compile(r"(\w+)(?:\{(.*)\})? ([=>]) (\d+)")
_LABEL: Final = re.compile(r'(\w+)="([^"]*)"')
_HEADLINE: Final = re.compile(r'<div class="headline .*?<h1>(.*?)</h1>', re.DOTALL)


@dataclass(frozen=True, slots=True)
class Bug:
    """One row of bugs.yaml."""

    name: str
    what: str
    says: list[str]
    source: str = ""
    containerd: str = ""

    @property
    def title(self) -> str:
        return "#".join(self.source.split("/")[1::2]) or "by design"

    @property
    def link(self) -> str:
        return self.source and f"https://github.com/{self.source}"

    @property
    def part(self) -> str:
        return f"containerd {self.containerd}" if self.containerd else "simulated CRI-O 1.36"

    @property
    def why_not(self) -> str:
        return self.containerd and why_not(self.containerd)


_SOURCE: Final = Path(__file__).with_name("bugs.yaml").read_text(encoding="utf-8")
BUGS: Final = [Bug(name, **row) for name, row in yaml.safe_load(_SOURCE).items()]


def rows() -> Iterator[tuple[str, ...]]:
    yield "`BUG=`", "what goes wrong", "on", "shadow-pleg says"
    for bug in BUGS:
        source = f"[{bug.title}]({bug.link or _BY_DESIGN})"
        says = "<br>".join(f"`{each}`" for each in bug.says)
        yield f"`{bug.name}`", f"{source}: {bug.what}", bug.part, says


class Story:
    """Takes what happens; `statements`: what the `exporter` (since `watching`) has to say of it."""

    def __init__(self, statements: Sequence[str], show: Callable[[str], object]) -> None:
        self._statements = statements
        self._show = show
        self._began = self._wrong = time.monotonic()
        self.exporter: Exporter

    def does(self, what: str) -> None:
        self._show(f"  {time.monotonic() - self._began:5.1f} s  {what}\n")

    def goes_wrong(self, what: str) -> None:
        """Show the step from which the seconds count."""
        self.does(f"{what}   <- the bug")
        self._wrong = time.monotonic()

    @asynccontextmanager
    async def watching(self, socket: Path, *flags: str) -> AsyncIterator[None]:
        """Meanwhile there is an exporter, which has subscribed, or said why not."""
        shipped = [f"{each.flag}={each.default}" for each in flags_of(Config)]
        slower = [each for each in shipped if each.startswith(_SLOWER)]
        async with Exporter(socket, *slower, *flags, grace=Config().missed_grace) as self.exporter:
            seen = await self.exporter.shows(
                lambda now: now.stream in _BEGINS and now.value(LAST_SEEN) > 0, "it watches"
            )
            runtime = seen.labels("shadow_pleg_runtime_info")
            watched = f"watches {runtime['name']} {runtime['version']}, stream {seen.stream}"
            self.does(f"{' '.join(('shadow-pleg serve', *flags))}: {watched}")
            yield

    async def listed(self, running: int) -> None:
        what = f"shadow-pleg lists {running} running container{'s' * (running > 1)}"
        await self.exporter.shows(
            lambda now: now.value("shadow_pleg_containers", state="running") == running, what
        )
        self.does(what)

    async def says(self) -> None:
        """Wait until the exporter says all of it at once, and show that."""
        answers: list[tuple[bool, str]] = []

        async def said() -> bool:
            answers[:] = [await self._answer(each) for each in self._statements]
            return all(held for held, _ in answers)

        try:
            await until(said, "all is said", seconds=_PATIENCE, every=0.2)
        except TimeoutError:
            self._fail(answers, f"not said within {_PATIENCE:g} s")
        seconds = time.monotonic() - self._wrong
        self.does(f"shadow-pleg says, {seconds:.1f} s after the bug:")
        for _, answer in answers:
            self._show(f"{'':11}{answer}\n")

    async def still_says(self) -> None:
        await self.exporter.settled()
        self._fail([await self._answer(each) for each in self._statements], "taken back")
        self.does("all of it is judged now, and shadow-pleg still says so")

    def _fail(self, answers: list[tuple[bool, str]], how: str) -> None:
        pairs = zip(self._statements, answers, strict=True)
        wrong = [f"{each!r}, but {answer!r}" for each, (held, answer) in pairs if not held]
        assert not wrong, f"{how}: {'; '.join(wrong)}"

    async def _answer(self, statement: str) -> tuple[bool, str]:
        """Whether the exporter says that, and its own words.

        `log: TEXT` is in a line of the log, `headline: TEXT` is that of the status page; all else
        is a sample, or the sum of several, that equals (=) or exceeds (>) a number.
        """
        kind, _, text = statement.partition(": ")
        if kind == "log":
            lines = self.exporter.log.splitlines()
            line = next((each for each in lines if text in each), "")
            return bool(line), f"log: {line}"
        if kind == "headline":
            found = _HEADLINE.search(await self.exporter.page(""))
            headline = unescape(found[1]) if found else ""
            return headline == text, f"headline: {headline}"
        sample = _SAMPLE.fullmatch(statement)
        assert sample, f"neither log, headline nor sample: {statement}"
        name, labels, relation, number = sample.groups()
        value = (await self.exporter.metrics()).value(name, **dict(_LABEL.findall(labels or "")))
        held = value > int(number) if relation == ">" else value == int(number)
        return held, f"{statement[: sample.start(3)]}= {value:g}"
