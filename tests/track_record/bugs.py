"""The known bugs of bugs.yaml, which docs/track-record.md shows."""

import io
import sys
from collections.abc import Iterator
from contextlib import redirect_stdout
from dataclasses import dataclass
from pathlib import Path
from typing import Final

import yaml

from testbed.containerd import why_not
from tests.track_record import happening
from tests.track_record.story import Story

_BY_DESIGN: Final = "compatibility.md#what-is-never-announced"


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

    async def reproduce(self) -> None:
        """Make it happen, and show that; AssertionError if the exporter does not say it."""
        show = sys.stdout.write
        show(f"{self.name}: {self.what}\n  {self.link or self.title}, on {self.part}\n")
        story, log = Story(self.says, show), io.StringIO()
        happens = getattr(happening, self.name.replace("-", "_"))
        try:
            # The exporter's whole log, which is written when it ends.
            with redirect_stdout(log):
                await happens(story)
        except BaseException:
            show(log.getvalue())
            raise
        show("\n")


_SOURCE: Final = Path(__file__).with_name("bugs.yaml").read_text(encoding="utf-8")
BUGS: Final = [Bug(name, **row) for name, row in yaml.safe_load(_SOURCE).items()]


def rows() -> Iterator[tuple[str, ...]]:
    yield "`BUG=`", "what goes wrong", "on", "shadow-pleg says"
    for bug in BUGS:
        source = f"[{bug.title}]({bug.link or _BY_DESIGN})"
        says = "<br>".join(f"`{each}`" for each in bug.says)
        yield f"`{bug.name}`", f"{source}: {bug.what}", bug.part, says
