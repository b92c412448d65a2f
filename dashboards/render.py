"""Renders the dashboards: `make generate` writes them."""

import json
from pathlib import Path
from typing import Final

from grafana_foundation_sdk.builders import dashboard
from grafana_foundation_sdk.cog.encoder import JSONEncoder
from grafana_foundation_sdk.models import dashboard as models

from dashboards import panels
from dashboards.panels import RUNBOOKS, link
from dashboards.queries import LABELS, LINKS
from dashboards.source import SOURCE, Board, Texts
from promql.series import PRESENT

HERE: Final = Path(__file__).parent
# The schema of Grafana 10.0; later ones bring it up to their own.
_SCHEMA: Final = 38
_ALL: Final = models.VariableOption(selected=True, text="All", value="$__all")


class Annotation(models.AnnotationQuery):
    """A query whose series mark points in time, with the words beside the mark."""

    def __init__(self, name: str, colour: str, expr: str, text: str) -> None:
        super().__init__(name=name, datasource=panels.SOURCE, icon_color=colour, expr=expr)
        self.text = text

    def to_json(self) -> dict[str, object]:
        """The model's fields, and those of the Prometheus data source that it lacks."""
        words = {"titleFormat": self.name, "textFormat": self.text}
        target = {"expr": self.expr, "refId": "Anno", "datasource": self.datasource}
        return super().to_json() | words | {"target": target}


def rendered() -> dict[Path, str]:
    """The text of each file."""
    boards = (_built(name, board) for name, board in SOURCE.boards.items())
    return {
        HERE / f"{board.uid}.json": json.dumps(board, cls=JSONEncoder, indent=2, sort_keys=True)
        + "\n"
        for board in boards
    }


def _built(name: str, board: Board) -> models.Dashboard:
    """Every panel gets its id, in order; the annotations go in."""
    texts, fleet = Texts(fleet=name == "fleet"), name == "fleet"
    drawn = (
        dashboard.Dashboard(board.title)
        .uid(LINKS.fleet_uid if fleet else LINKS.node_uid)
        .description(board.about)
        .tags(["shadow-pleg", "kubernetes"])
        .time(board.since, "now")
        .refresh("1m")
        .timezone("browser")
        .tooltip(models.DashboardCursorSync.CROSSHAIR)
    )
    _chooses(drawn, fleet=fleet)
    for title, url in board.links.items():
        drawn.link(link(title, texts.text(url)))
    for title, places in board.sections.items():
        drawn.with_row(dashboard.Row(title))
        for place in places:
            panel = panels.made(SOURCE.panels[place.panel], texts, fleet=fleet).span(place.width)
            drawn.with_panel(panel.height(place.height) if place.height else panel)
    built = drawn.build()
    for number, each in enumerate(built.panels or [], start=1):
        each.id_val = number
    built.schema_version, built.version = _SCHEMA, 1
    marks = [
        Annotation(title, mark.colour, texts.text(mark.expr), mark.text)
        for title, mark in SOURCE.marks.items()
        if name in mark.boards
    ]
    built.annotations = models.AnnotationContainer(list_val=list(marks))
    return built


def _chooses(board: dashboard.Dashboard, *, fleet: bool) -> None:
    """What is shown: of all nodes, or of one; and where else to look."""
    source = dashboard.DatasourceVariable("datasource").label("Source").type("prometheus")
    cluster = f'{LABELS.cluster}=~"$cluster"'
    node = _variable("node", LABELS.node, f'{cluster}, job=~"$job"')
    board.with_variable(source)
    board.with_variable(_several(_variable("cluster", LABELS.cluster)))
    board.with_variable(_several(_variable("job", "job", cluster)))
    board.with_variable(_several(node) if fleet else node)
    runbooks = dashboard.ConstantVariable("runbooks").label("Runbooks").value(LINKS.runbooks)
    board.with_variable(runbooks)
    title, uid = ("Node", LINKS.node_uid) if fleet else ("Fleet", LINKS.fleet_uid)
    # Not for the same nodes: the node's takes no "All" of them, and one is no fleet.
    chosen = "var-datasource=${datasource}&${cluster:queryparam}&${job:queryparam}"
    sibling = dashboard.DashboardLink(title).type(models.DashboardLinkType.LINK)
    sibling = sibling.url(f"/d/{uid}?{chosen}").icon("dashboard")
    board.link(sibling.keep_time(True))  # noqa: FBT003 -- the SDK's signature
    board.link(link("Runbooks", RUNBOOKS))


def _variable(name: str, label: str, matchers: str = "") -> dashboard.QueryVariable:
    """A choice of one value of a label."""
    query = f"label_values({PRESENT}{{{matchers}}}, {label})"
    return (
        dashboard.QueryVariable(name)
        .label(name.capitalize())
        .datasource(panels.SOURCE)
        # Grafana's own form of it, which it takes back to the plain text for its editor.
        .query({"query": query, "refId": name, "qryType": 1})
        .refresh(models.VariableRefresh.ON_TIME_RANGE_CHANGED)
        .sort(models.VariableSort.ALPHABETICAL_ASC)
    )


def _several(one: dashboard.QueryVariable) -> dashboard.QueryVariable:
    """The same for several values, or all of them, also where no target has the label."""
    return one.multi(True).include_all(True).all_value(".*").current(_ALL)  # noqa: FBT003 -- the SDK's signature
