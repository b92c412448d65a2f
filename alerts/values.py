"""What can be chosen without touching a rule: `values.yaml`, typed and checked.

A file that lacks a key, has one too many, or says what cannot be is refused with one line that
names file and key.
"""

from pathlib import Path
from typing import Annotated, Final, Literal

import msgspec
import promql_parser
from msgspec.structs import replace

from exporter import RUNBOOKS
from exporter.conditions.account import LAG_SECONDS, LATE_SECONDS
from exporter.conditions.catalogue import SLOW_SECONDS
from exporter.metrics import families
from exporter.metrics.families import Spec
from exporter.settings.config import Config
from exporter.settings.files import parsed_yaml, read_file

FILE: Final = Path(__file__).with_name("values.yaml")

Duration = Annotated[str, msgspec.Meta(pattern=r"^[1-9][0-9]{0,5}[smhd]\Z")]
# Those of two underscores are Prometheus' own.
LabelName = Annotated[str, msgspec.Meta(pattern=r"^(?!__)[a-zA-Z_][a-zA-Z0-9_]*\Z")]
OptionalUrl = Annotated[str, msgspec.Meta(pattern=r"^(https?://[^\s{}]+)?\Z")]
Matchers = Annotated[str, msgspec.Meta(min_length=1)]
Positive = Annotated[float, msgspec.Meta(gt=0, le=10**12)]
Count = Annotated[int, msgspec.Meta(ge=0, le=10**12)]
Grave = Literal["critical", "warning", "info"]

_LARGEST_BYTES: Final = 1 << 20
_SPECS: Final = [each for each in vars(families).values() if isinstance(each, Spec)]
_OURS: Final = {"le"}.union(*(each.labels for each in _SPECS))
_SECONDS: Final = {"s": 1, "m": 60, "h": 3600, "d": 86400}


class ValuesError(Exception):
    """The values cannot be used: one line that says which, why, and what to do."""


def seconds(duration: str) -> int:
    """Seconds of a Prometheus duration of one unit."""
    return int(duration[:-1]) * _SECONDS[duration[-1]]


class Section(msgspec.Struct, frozen=True, forbid_unknown_fields=True):
    """A mapping with exactly these keys."""


class Labels(Section, frozen=True):
    """Labels of the targets."""

    node: LabelName
    cluster: LabelName


class Selectors(Section, frozen=True):
    """Label matchers, without braces."""

    exporter: Matchers
    kubelet: Matchers
    runtime: Matchers


class Links(Section, frozen=True):
    """Where annotations lead; `dashboards`: "" for no links."""

    runbooks: OptionalUrl
    dashboards: OptionalUrl
    fleet_uid: str
    node_uid: str


class Intervals(Section, frozen=True):
    """How often rules are evaluated."""

    recording: Duration
    alerts: Duration


class Burn(Section, frozen=True):
    """A pair of windows in which the budget burns `factor` times too fast."""

    factor: Positive
    long: Duration
    short: Duration


class Slo(Section, frozen=True):
    """The objective (percent), and when its budget burns too fast."""

    objective: Annotated[float, msgspec.Meta(gt=0, lt=100)]
    period: Duration
    least_losses: Count
    burns: Annotated[list[Burn], msgspec.Meta(min_length=1)]

    @property
    def windows(self) -> list[str]:
        """Every window of every pair, the shortest first."""
        both = {window for pair in self.burns for window in (pair.short, pair.long)}
        return sorted(both, key=seconds)


class Losses(Section, frozen=True):
    """The severity of lost events, where a kubelet relies on them and elsewhere."""

    relied_on: Grave
    otherwise: Grave


class Windows(Section, frozen=True):
    """How far back rules look."""

    losses: Duration
    node: Duration
    steady: Duration
    gate: Duration
    restarts: Duration
    installed: Duration


class Thresholds(Section, frozen=True):
    """Where a number becomes an alert. Those with a default: lines of the dashboards alone."""

    kubelet_gives_up_errors: Annotated[int, msgspec.Meta(ge=1)]
    gave_up_least_events: Count
    exporter_answers: Annotated[float, msgspec.Meta(gt=0, lt=1)]
    exporter_restarts: Count
    many_nodes: Count
    many_nodes_ratio: Annotated[float, msgspec.Meta(gt=0, lt=1)]
    installed_ratio: Annotated[float, msgspec.Meta(ge=0, lt=1)]
    # Where a node's own conditions begin.
    exit_p50_seconds: Positive = LATE_SECONDS
    relist_stale_seconds: Positive = Config().relist_threshold
    relist_slow_seconds: Positive = SLOW_SECONDS
    loop_lag_seconds: Positive = LAG_SECONDS
    # The pause between two relists; --relist-period is 10 s.
    relist_stretched_seconds: Positive = 60
    # From the runtime's created_at to our reception: the stress mark of KEP-3386.
    delivery_p99_seconds: Positive = 1


class Grade(Section, frozen=True, rename={"hold": "for", "keep": "keep_firing_for"}):
    """An alert's severity, for how long its condition must hold, and for how long it fires on.

    None: as it ships.
    """

    severity: Grave | None = None
    hold: Duration | None = None
    keep: Duration | None = None


class Values(Section, frozen=True):
    """The whole file."""

    labels: Labels
    selectors: Selectors
    links: Links
    intervals: Intervals
    slo: Slo
    losses: Losses
    kubelets: Annotated[str, msgspec.Meta(pattern=r"^(replace|hint|ignore)\Z")]
    leave_out: list[str]
    windows: Windows
    thresholds: Thresholds
    alerts: dict[str, Grade]


def load(path: Path = FILE) -> Values:
    """Read and check a values file; ValuesError says in one line what is wrong with it."""
    try:
        content = read_file(path, _LARGEST_BYTES)
    except ValueError as error:
        raise ValuesError(f"{path}: {error}: name a file of values") from None
    try:
        values = msgspec.convert(parsed_yaml(content), Values)
    except (ValueError, msgspec.ValidationError) as error:
        raise ValuesError(f"{path}: {error}: correct it, see alerts/values.yaml") from None
    if problem := _problem(values):
        raise ValuesError(f"{path}: {problem}")
    links = replace(values.links, runbooks=values.links.runbooks or RUNBOOKS)
    return replace(values, links=links)


def _are_matchers(text: str) -> bool:
    """Whether all of the text is matchers, and another one may follow it."""
    try:
        selector = promql_parser.parse(f"up{{{text}, after=''}}")
    except ValueError:
        return False
    # A comment, or a brace, would end them, and an `or` is only VictoriaMetrics'.
    if not isinstance(selector, promql_parser.VectorSelector) or not text.isprintable():
        return False
    return [each.name for each in selector.matchers.matchers][-1:] == ["after"]


def _problem(values: Values) -> str:
    for name in Selectors.__struct_fields__:
        matchers = getattr(values.selectors, name)
        if not _are_matchers(matchers):
            return f'selectors.{name}: {matchers!r} are no label matchers, write job="name"'
    for pair in values.slo.burns:
        if seconds(pair.short) >= seconds(pair.long):
            return f"slo: the short window {pair.short} is not shorter than the long {pair.long}"
    for name in {values.labels.node, values.labels.cluster} & _OURS:
        return f"labels: {name!r} is a label of the metrics themselves: name one of the targets"
    if values.labels.node == values.labels.cluster:
        return f"labels: node and cluster are both {values.labels.node!r}: name two labels"
    return ""
