"""Draw the pictures of `docs/dashboards`: `python -m tests.dashboards.pictures [MINUTES]`."""

import asyncio
import sys
import tempfile
from dataclasses import dataclass
from pathlib import Path
from typing import Any, Final
from urllib.parse import urlsplit

from playwright.async_api import ConsoleMessage, Page, Route

from testbed import debian
from tests import ROOT
from tests.dashboards.conftest import LOSSY, SCRAPE, ScrapedFleet, asking, chosen, lived
from tests.support.browser import RENDERED, browsing, slimmed
from tests.support.expressions import BOARDS, filled, panels
from tests.support.prometheus import Asker

PICTURES: Final = ROOT / "docs" / "dashboards"
WIDTH: Final = 1440
_POINTS: Final = 120
# What each panel says, and the number of colours on each of its canvases; two frames later, as
# React and uPlot put some of it off until after the first has been painted.
_SHOWN: Final = """async () => {
  await new Promise((done) => requestAnimationFrame(() => requestAnimationFrame(done)));
  const colours = (canvas) => {
    const { data } = canvas.getContext('2d').getImageData(0, 0, canvas.width, canvas.height);
    const pixels = new Uint32Array(data.buffer);
    return new Set(pixels.filter((pixel) => pixel >>> 24 > 200)).size;
  };
  const panels = [...document.querySelectorAll('[data-panel]')];
  const of = (what) => Object.fromEntries(panels.map((it) => [it.dataset.panel, what(it)]));
  const canvases = (it) => [...it.querySelectorAll('canvas')];
  return [of((it) => it.innerText), of((it) => canvases(it).map(colours))];
}"""


@dataclass(frozen=True, slots=True)
class Shot:
    """Which dashboard, of which node, and where the picture goes."""

    board: str
    picture: Path
    node: str = ".*"


@dataclass(frozen=True, slots=True)
class Drawn:
    """Each panel's text, and the colours on its canvases; what went wrong."""

    texts: dict[str, str]
    colours: dict[str, list[int]]
    errors: list[str]


def why_not() -> str:
    """Say what is missing for drawing; nothing if all is there."""
    parts = (RENDERED / "page.js", debian.find("chromium"))
    missing = not all(part and part.is_file() for part in parts)
    return "nothing to draw with: make render" if missing else ""


async def scene(fleet: Asker, shot: Shot) -> dict[str, Any]:
    """A dashboard with the answers to all that it asks."""
    board, start, end = BOARDS[shot.board], fleet.began, fleet.ended
    step = max(round((end - start) / _POINTS), 1)
    # As Grafana has it: four scrapes, or a step and a scrape.
    rate = max(4 * SCRAPE, step + SCRAPE)
    values = chosen(step, end - start, rate) | {"node": shot.node}

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
        "theme": "light",
        "width": WIDTH,
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
    """Draw scenes, one after another, on one page: its script takes longer to load than a scene."""
    errors: list[str] = []

    async def serve(route: Route) -> None:
        path = urlsplit(route.request.url).path
        file = RENDERED / (path.strip("/") or "index.html")
        if file.is_file():
            await route.fulfill(path=file)
            return
        # The font of code: the browser's own is as good.
        if "/roboto/" not in path:
            errors.append(f"not there: {path}")
        await route.fulfill(status=404)

    def complained(message: ConsoleMessage) -> None:
        if message.type == "error" and not message.text.startswith("Failed to load resource"):
            errors.append(message.text)

    async with browsing() as browser:
        page = await browser.new_page()
        # For a machine that is busy with other tests; nothing here waits for what does not happen.
        page.set_default_timeout(120_000)
        page.on("pageerror", lambda error: errors.append(str(error)))
        page.on("console", complained)
        await page.route("**/*", serve)
        await page.goto("http://dashboards.invalid/")
        return [await _shot(page, each, errors) for each in scenes]


async def _shot(page: Page, scene: dict[str, Any], errors: list[str]) -> Drawn:
    await page.set_viewport_size({"width": WIDTH, "height": 900})
    await page.evaluate("scene => window.draw(scene)", scene)
    await page.wait_for_selector("[data-panel]")
    await page.wait_for_load_state("networkidle")
    texts, colours = await page.evaluate(_SHOWN)
    await page.screenshot(path=scene["picture"], full_page=True)
    found = Drawn(texts, colours, errors.copy())
    errors.clear()
    return found


def shots(folder: Path, fleet: str) -> list[Shot]:
    return [
        Shot(f"shadow-pleg-{name}", folder / f"{name}-{fleet}-light.png", node)
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
