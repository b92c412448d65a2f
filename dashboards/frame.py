"""What surrounds the panels of a dashboard: variables, links, annotations, ids."""

from __future__ import annotations

from collections.abc import Iterable
from typing import Final

from grafana_foundation_sdk.builders import dashboard
from grafana_foundation_sdk.models import dashboard as models

from dashboards.limits import LINKS, VALUES
from dashboards.queries import BUILD

SOURCE: Final = models.DataSourceRef(type_val="prometheus", uid="${datasource}")
TAG: Final = "shadow-pleg"
# The schema of Grafana 10.0; later ones bring it up to their own.
_SCHEMA: Final = 38
# A hidden variable, so that one edit in Grafana is enough to set all links.
RUNBOOKS: Final = "${runbooks}"
_ALL: Final = models.VariableOption(selected=True, text="All", value="$__all")


class Annotation(models.AnnotationQuery):
    """A query whose series mark points in time, with the words beside the mark."""

    def __init__(self, name: str, colour: str, expr: str, text: str) -> None:
        super().__init__(name=name, datasource=SOURCE, icon_color=colour, expr=expr)
        self.text = text

    def to_json(self) -> dict[str, object]:
        """The model's fields, and those of the Prometheus data source that it lacks."""
        words = {"titleFormat": self.name, "textFormat": self.text}
        target = {"expr": self.expr, "refId": "Anno", "datasource": self.datasource}
        return super().to_json() | words | {"target": target}


def new(uid: str, title: str, about: str, since: str) -> dashboard.Dashboard:
    """An empty dashboard."""
    return (
        dashboard.Dashboard(title)
        .uid(uid)
        .description(about)
        .tags([TAG, "kubernetes"])
        .time(since, "now")
        .refresh("1m")
        .timezone("browser")
        .tooltip(models.DashboardCursorSync.CROSSHAIR)
        .with_variable(
            dashboard.DatasourceVariable("datasource").label("Source").type("prometheus")
        )
    )


def variable(name: str, label: str, matchers: str = "") -> dashboard.QueryVariable:
    """A choice of one value of a label."""
    query = f"label_values({BUILD}{{{matchers}}}, {label})"
    return (
        dashboard.QueryVariable(name)
        .label(name.capitalize())
        .datasource(SOURCE)
        # Grafana's own form of it, which it takes back to the plain text for its editor.
        .query({"query": query, "refId": name, "qryType": 1})
        .refresh(models.VariableRefresh.ON_TIME_RANGE_CHANGED)
        .sort(models.VariableSort.ALPHABETICAL_ASC)
    )


def several(one: dashboard.QueryVariable) -> dashboard.QueryVariable:
    """The same for several values, or all of them, also where no target has the label."""
    return one.multi(True).include_all(True).all_value(".*").current(_ALL)  # noqa: FBT003 -- the SDK's signature


def runbooks() -> dashboard.ConstantVariable:
    """Where the links to runbooks lead."""
    return dashboard.ConstantVariable("runbooks").label("Runbooks").value(LINKS.runbooks)


def link(title: str, url: str) -> dashboard.DashboardLink:
    """A link to somewhere else."""
    return (
        dashboard.DashboardLink(title)
        .type(models.DashboardLinkType.LINK)
        .url(url)
        .icon("doc")
        .target_blank(True)  # noqa: FBT003 -- the SDK's signature
    )


def sibling(title: str, uid: str) -> dashboard.DashboardLink:
    """A link to the other dashboard, at the same time and place.

    Not for the same nodes: the node's takes no "All" of them, and one is no fleet.
    """
    chosen = "var-datasource=${datasource}&${cluster:queryparam}&${job:queryparam}"
    return (
        dashboard.DashboardLink(title)
        .type(models.DashboardLinkType.LINK)
        .url(f"/d/{uid}?{chosen}")
        .icon("dashboard")
        .keep_time(True)  # noqa: FBT003 -- the SDK's signature
    )


def runbook(alert: str) -> dashboard.DashboardLink:
    """A link of a panel to the runbook of the alert that watches the same."""
    if alert not in VALUES.alerts:
        raise ValueError(f"{alert} is no alert of the values file")
    return link(f"Runbook {alert}", f"{RUNBOOKS}/{alert}.md")


def finished(builder: dashboard.Dashboard, marks: Iterable[Annotation]) -> models.Dashboard:
    """Build it: every panel gets its id, in order; the annotations go in."""
    built = builder.build()
    for number, panel in enumerate(built.panels or [], start=1):
        panel.id_val = number
    built.schema_version = _SCHEMA
    built.version = 1
    built.annotations = models.AnnotationContainer(list_val=list(marks))
    return built
