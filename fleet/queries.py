"""The queries of a report; templates/queries.promql has them."""

from dataclasses import dataclass, fields
from typing import Final

import jinja2

from fleet.request import Span
from promql import series, text

UNKNOWN: Final = "unknown"
SEVERAL: Final = "several"
_TEMPLATE: Final = text.TEMPLATES.overlay(
    loader=jinja2.PackageLoader("fleet"), trim_blocks=True, lstrip_blocks=True
).get_template("queries.promql")
_OF_EXPORTERS: Final = (
    *("coverage", "nodes", "judged_exits", "judged_others"),
    *("counts", "conditions", "named"),
)
_OF_KUBELETS: Final = ("versions", "statuses")
_GIVEN: Final = vars(series) | vars(text) | {"UNKNOWN": UNKNOWN, "SEVERAL": SEVERAL}


@dataclass(frozen=True, slots=True)
class Queries:
    """The queries about one span."""

    span: Span
    # What identifies nodes; the node's own label is the last.
    labels: tuple[str, ...]
    selector: str = ""
    kubelet_selector: str = ""
    # So many nodes must be streaming at once for their time to count.
    together: int = 1
    # False if the labels differ on kubelets.
    with_kubelets: bool = True
    # Whether to read what the recording rules keep.
    recorded: bool = False

    def asked(self) -> dict[str, str]:
        """What a report is made of, by name; each at the end of the span."""
        kept = (series.LIFECYCLE, series.MISSED, series.LATE)
        delays = (series.EXIT_TO_EVENT, series.EXIT_TO_LIST)
        names = (*_OF_EXPORTERS, *(_OF_KUBELETS if self.with_kubelets else ()))
        increases = {each.name: self.query("increases", each) for each in (*kept, *delays)}
        return {name: self.query(name) for name in names} | increases

    def query(self, name: str, *of: series.Kept) -> str:
        """One of them; `both` and `processes` are asked before the others."""
        given = {each.name: getattr(self, each.name) for each in fields(self)}
        made = getattr(_TEMPLATE.make_module(_GIVEN | given), name)(*of)
        return "\n".join(filter(str.strip, str(made).splitlines()))
