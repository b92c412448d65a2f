"""What the dashboards are made of: `source.yaml`, typed, and the words of its templates."""

from pathlib import Path
from typing import Final, Literal

import msgspec

from alerts.entries import compiled
from alerts.values import Section, Thresholds
from dashboards import queries
from dashboards.queries import ALLOWED, LABELS, LIMITS, VALUES
from exporter import HOME
from exporter.runtimes.kubelets import LAST_TRUSTING
from promql import series, text
from promql.text import TEMPLATES

# By legend, or by title of a column.
Named = dict[str, str]


class Place(msgspec.Struct, frozen=True, array_like=True):
    """A panel, its width of 24, and its height; 0: that of its kind."""

    panel: str
    width: int
    height: int = 0


class Board(Section, frozen=True):
    """A dashboard; `links` beside those that both have."""

    title: str
    about: str
    since: str
    sections: dict[str, list[Place]]
    links: Named = msgspec.field(default_factory=dict)


class Mark(Section, frozen=True):
    """An annotation of these dashboards: whenever a series of `expr` begins."""

    boards: list[str]
    colour: str
    expr: str
    text: str


class Panel(Section, frozen=True):
    """A panel."""

    kind: Literal["number", "state", "lines", "bars", "states", "table"]
    title: str
    about: str
    # Expressions by legend, which makes a number's name its value.
    asked: str | Named
    unit: str = "short"
    # By a name of `panels`.
    steps: str = "fine"
    decimals: int | None = None
    # Of a table, with their titles; those without a name are left out.
    labels: Named = msgspec.field(default_factory=dict)
    # By names of `panels`.
    columns: Named = msgspec.field(default_factory=dict)
    sorted: list[str] = msgspec.field(default_factory=list)
    # The alerts' threshold.
    line: str = ""
    # The axis reaches at least to it.
    top: str = ""
    # Whether it is asked for each window of the budget, the word `window`.
    windows: bool = False
    colours: Named = msgspec.field(default_factory=dict)
    # Said if there is nothing.
    none: str = ""
    # Of the alert that watches the same.
    runbook: str = ""
    # What their numbers mean.
    states: Literal["stream", "moods", "held"] = "stream"


class Source(Section, frozen=True):
    """The whole file."""

    words: Named
    boards: dict[str, Board]
    marks: dict[str, Mark]
    panels: dict[str, Panel]


SOURCE: Final = msgspec.yaml.decode(
    Path(__file__).with_name("source.yaml").read_bytes(), type=Source
)
_WORDS: Final = compiled(SOURCE.words)
_GIVEN: Final = {
    **{name: word for module in (series, text, queries) for name, word in vars(module).items()},
    "labels": LABELS,
    "t": {name: f"{getattr(LIMITS, name):g}" for name in Thresholds.__struct_fields__},
    "allowed": ALLOWED,
    "last_trusting": LAST_TRUSTING,
    "home": HOME,
    # The worse, the later.
    "severities": ("info", "warning", "critical"),
}


class Texts:
    """Renders the templates of one dashboard; `fleet`: of that of all nodes."""

    def __init__(self, *, fleet: bool) -> None:
        given: dict[str, object] = _GIVEN | {
            "of": queries.kept if fleet else queries.scraped,
            "per_cluster": LABELS.cluster if fleet else "",
            "per_node": queries.NODE if fleet else "",
            "on_node": f" on {{{{{LABELS.node}}}}}" if fleet else "",
        }
        self._words = given | vars(_WORDS.make_module(given))

    def text(self, template: str, **more: str) -> str:
        """A template's text."""
        return TEMPLATES.from_string(template).render(self._words | more).strip()

    def named(self, templates: Named, **more: str) -> Named:
        """Templates by names that are templates, too."""
        return {self.text(name, **more): self.text(of, **more) for name, of in templates.items()}

    def asked(self, panel: Panel) -> Named:
        """A panel's expressions by legend."""
        asked = {"": panel.asked} if isinstance(panel.asked, str) else panel.asked
        if not panel.windows:
            return self.named(asked)
        each = (self.named(asked, window=window) for window in VALUES.slo.windows)
        return {name: expr for found in each for name, expr in found.items()}
