"""Both dashboards against Grafana's own types, of each release that they are for.

No registry that the tests reach has a Grafana server. These types are made of the schemas that a
server has; a field or a value that they do not know would be ignored, or break a panel. Blind spot:
a field that is missing.
"""

import copy
import json
import subprocess
from collections.abc import Iterator
from pathlib import Path
from typing import Any, Final

import pytest

from testbed.fixtures import unavailable
from tests import ROOT
from tests.dashboards.pictures import NODE
from tests.support.boards import BOARDS, PANELS, TEXTS

pytestmark = pytest.mark.soak

_RELEASES: Final = ("10", "11", "12", "13")
_CACHE: Final = ROOT / ".cache" / "schema"
_TSC: Final = _CACHE / "node_modules/typescript/bin/tsc"
_RAW: Final = "@grafana/schema/dist/esm/raw/composable"
_QUERY: Final = "prometheus/dataquery/x/PrometheusDataQuery_types.gen"
# As TypeScript has it, a text is no member of an enumeration of texts: take it as one.
_LOOSE: Final = """
type Loose<T> = T extends string ? `${T}` : T extends number | boolean | null | undefined ? T
  : T extends (infer U)[] ? Loose<U>[] : T extends object ? {[K in keyof T]?: Loose<T[K]>} : T;
"""
_OPTIONS: Final = {
    "module": "esnext",
    "moduleResolution": "bundler",
    "target": "es2022",
    "lib": ["es2022"],
    "types": [],
    "strict": True,
    "noEmit": True,
    "skipLibCheck": True,
}


def _known(board: dict[str, Any]) -> dict[str, Any]:
    """A dashboard without what the SDK writes and no release reads, and Prometheus' own."""
    board = copy.deepcopy(board)
    # The theme is the reader's.
    board.pop("style")
    for variable in board["templating"]["list"]:
        # Those of an interval, and an id.
        for field in ("id", "auto", "auto_count", "auto_min"):
            variable.pop(field, None)
    for mark in board["annotations"]["list"]:
        # Those of Prometheus alone: the type has what all data sources share.
        for field in ("expr", "titleFormat", "textFormat"):
            mark.pop(field)
        mark["target"].pop("expr")
    return board


def _options(panel: dict[str, Any]) -> dict[str, Any]:
    options: dict[str, Any] = copy.deepcopy(panel["options"])
    if panel["type"] == "table":
        # Up to Grafana 11: none, which is what later ones have without it.
        assert not options.pop("footer")["show"]
    elif panel["type"] == "heatmap":
        # Grafana's own migration makes a `mode` of it.
        assert options["tooltip"].pop("show")
    return options


def _program(release: str) -> Iterator[str]:
    """TypeScript that compiles if the dashboards are of Grafana's types."""
    yield _LOOSE
    yield 'import type {Dashboard} from "@grafana/schema";'
    shown = [each.json for each in (*PANELS, *TEXTS)]
    kinds = {panel["type"]: panel["type"].title().replace("-", "") for panel in shown}
    # Two names of two words in one.
    names = kinds | {"timeseries": "TimeSeries"}
    for kind, name in names.items():
        path = f"{kind.replace('-', '')}/panelcfg/x/{name}PanelCfg_types.gen"
        yield f'import type * as {kinds[kind]} from "{_RAW}/{path}";'
    # Later ones have it in the data source's own package, whose other half is a page.
    if release == "10":
        yield f'import type {{PrometheusDataQuery}} from "{_RAW}/{_QUERY}";'
        yield "type Query = Loose<PrometheusDataQuery>;"
    for board in BOARDS.values():
        yield f"({json.dumps(_known(board))}) satisfies Loose<Dashboard>;"
    for panel in shown:
        kind = kinds[panel["type"]]
        yield f"({json.dumps(_options(panel))}) satisfies Loose<{kind}.Options>;"
        if custom := panel["fieldConfig"]["defaults"].get("custom"):
            yield f"({json.dumps(custom)}) satisfies Loose<{kind}.FieldConfig>;"
        if release == "10":
            for target in panel.get("targets", ()):
                yield f"({json.dumps(target)}) satisfies Query;"


def _compiled(folder: Path, release: str, program: str) -> list[str]:
    """What the compiler says against it."""
    package = f"{_CACHE}/node_modules/grafana-{release}"
    paths = {"@grafana/schema": [package], "@grafana/schema/*": [f"{package}/*"]}
    config = {"compilerOptions": _OPTIONS | {"paths": paths}, "files": ["boards.ts"]}
    (folder / "tsconfig.json").write_text(json.dumps(config), encoding="utf-8")
    (folder / "boards.ts").write_text(program, encoding="utf-8")
    run = (NODE, _TSC, "--project", folder)
    done = subprocess.run(run, capture_output=True, text=True, check=False)
    return [line[:300] for line in done.stdout.splitlines()]


@pytest.mark.parametrize("release", _RELEASES)
def test_every_field_is_one_that_grafana_knows(tmp_path: Path, release: str) -> None:
    """With a value that it takes: of the dashboard, and of each panel's options."""
    if not _TSC.is_file():
        unavailable("no types to compare with: make schema")
    # One wrong name is all that the compiler finds, so it does look.
    program = "\n".join(_program(release)).replace('({"colorMode"', '({"colourMode"', 1)
    (found,) = _compiled(tmp_path, release, program)
    assert '"colourMode"\' does not exist' in found
