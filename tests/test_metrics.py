"""The catalogue of metrics, and whole scrapes against files: a contract with dashboards."""

import ast
from itertools import chain
from math import prod
from pathlib import Path

import pytest
import structlog
from hypothesis import given
from hypothesis import strategies as st
from prometheus_client.core import Metric

import exporter
from exporter.metrics import families
from exporter.metrics.collector import exemplar_of
from exporter.metrics.specs import CounterSpec, GaugeSpec, HistogramSpec, InfoSpec
from exporter.model.events import Pod
from exporter.model.findings import Cause, Finding, Verdict
from exporter.node.state import Node
from tests import assert_golden
from tests.support.exposition import Measured, measured, openmetrics, openmetrics_of, ours, text_of
from tests.support.facts import found
from tests.support.fixtures import examples
from tests.support.node_life import EPOCH, spend_day

pytestmark = pytest.mark.quick

# No label may depend on which pods run on the node.
FORBIDDEN_LABELS = {"pod", "namespace", "container", "container_id", "endpoint", "error", "node"}
PREFIXES = ("shadow_pleg_", "kube_pod_")
SOURCES = sorted(Path(exporter.__file__).parent.rglob("*.py"))


def scraped() -> list[Metric]:
    return ours(measured().registry)


def values_of(family: Metric) -> dict[str, set[str]]:
    """Each label's values; those of buckets left out."""
    values: dict[str, set[str]] = {}
    for sample in family.samples:
        for label, value in sample.labels.items():
            if label != "le":
                values.setdefault(label, set()).add(value)
    return values


def test_every_combination_of_label_values_exists_once_from_the_start() -> None:
    """At 0: the first miss is an increase."""
    for family in scraped():
        if family.type in {"counter", "gauge"}:
            combinations = {tuple(sorted(sample.labels.items())) for sample in family.samples}
            expected = prod(map(len, values_of(family).values()))
            assert len(family.samples) == len(combinations), family.name
            assert len(combinations) == expected or family.name == "shadow_pleg_verdicts"


def test_no_label_names_a_pod_or_an_error() -> None:
    """Those go to logs, exemplars and the page: a label for each pod is a series for each pod."""
    labels = {label for family in scraped() for label in values_of(family)}
    assert "event" in labels
    assert not labels & FORBIDDEN_LABELS


def test_every_metric_of_the_catalogue_is_exported_and_explained() -> None:
    kinds = (CounterSpec, GaugeSpec, HistogramSpec, InfoSpec)
    declared = [spec for spec in vars(families).values() if isinstance(spec, kinds)]
    exported = {family.name: family.documentation for family in scraped()}
    assert {spec.name: spec.help for spec in declared} == exported
    assert len(declared) == len(exported)
    assert all(text.endswith(".") for text in exported.values())


def test_only_the_catalogue_names_and_makes_metrics() -> None:
    makers = {"Counter", "Gauge", "Histogram", "Summary", "Info", "Enum"}
    naming, making = set(), set()
    for source in SOURCES:
        for node in ast.walk(ast.parse(source.read_text(encoding="utf-8"))):
            if isinstance(node, ast.Constant) and any(each in str(node.value) for each in PREFIXES):
                naming.add(source.name)
            if isinstance(node, ast.ImportFrom) and "prometheus_client" in str(node.module):
                made = {each.name for each in node.names if each.name.endswith("MetricFamily")}
                if made | makers.intersection(each.name for each in node.names):
                    making.add(source.name)
    assert naming == {"families.py"}
    assert making == {"specs.py"}


GOLDEN = Path(__file__).parent / "golden"
ID = "1049c2922b0c6f9655302e61f371d365f4549d0987e3a9068ac82c9a4b5dea3d"
TEXTS = st.text(st.characters(exclude_categories=["Cs"]), max_size=300)
NAMES = st.one_of(TEXTS, st.integers(0, 300).map(lambda length: "é" * length))


@pytest.fixture
def lived() -> Measured:
    node = measured(queued=7)
    with structlog.testing.capture_logs():
        spend_day(node)
    return node


def test_a_fresh_process_shows_every_series_at_its_start() -> None:
    assert_golden(text_of(measured().registry), GOLDEN / "fresh.prom")


def test_a_day_sets_each_metric_but_those_that_need_a_process(lived: Measured) -> None:
    zero = {
        family.name.removeprefix("shadow_pleg_")
        for family in ours(lived.registry)
        if not any(sample.value for sample in family.samples)
    }
    assert zero == {
        *("relist_period_seconds", "clock_steps", "evidence_dropped", "log_lines_dropped"),
        *("runtime_calls", "runtime_call_seconds", "list_bytes", "web_refusals"),
    }


def test_a_day_is_counted_to_the_last_event(lived: Measured) -> None:
    assert_golden(text_of(lived.registry), GOLDEN / "life.prom")


def test_the_day_has_everything_in_it(lived: Measured) -> None:
    """A golden file of zeros would prove nothing."""
    tally = lived.node.tally
    unheard = {verdict for verdict in Verdict if not tally.total(verdict)}
    assert unheard == {Verdict.OVERFLOW}
    assert all(tally.total(Verdict.MISSED, cause) for cause in Cause)
    assert lived.ledger.unresolved > 0


def test_life_adds_no_series(lived: Measured) -> None:
    fresh = {line.rsplit(" ", 1)[0] for line in text_of(measured().registry).splitlines()}
    later = {line.rsplit(" ", 1)[0] for line in text_of(lived.registry).splitlines()}
    changed = {line for line in fresh ^ later if "shadow_pleg_runtime_info" not in line}
    assert changed == set()


def test_openmetrics_names_the_newest_loss_of_each_kind(lived: Measured) -> None:
    (missed,) = [
        family
        for family in openmetrics(openmetrics_of(lived.registry))
        if family.name == "kube_pod_missed_events"
    ]
    exemplars = {
        (sample.labels["event"], sample.labels["cause"]): sample.exemplar
        for sample in missed.samples
        if sample.exemplar
    }
    assert {kind: exemplar.labels["container_id"] for kind, exemplar in exemplars.items()} == {
        ("ContainerStarted", "silent"): "lost",
        ("ContainerStarted", "stalled"): "waits",
        ("ContainerStarted", "shared"): "taken",
        ("ContainerStarted", "stream_down"): "unheard",
        ("ContainerStarted", "discarded"): "dropped",
        ("ContainerRemoved", "stream_down"): "old",
        ("ContainerDied", "by_design"): "failed",
    }
    newest = exemplars["ContainerStarted", "silent"]
    assert (newest.labels["namespace"], newest.labels["pod"]) == ("shop", "cart-7d9f8")
    assert newest.value == 1
    assert float(str(newest.timestamp)) > EPOCH


def missed(container_id: str, pod: Pod | None) -> Finding:
    return found(Verdict.MISSED, Cause.SILENT)._replace(container_id=container_id, pod=pod)


@examples(0.4)
@given(namespace=NAMES, pod=NAMES, container_id=NAMES)
def test_an_exemplar_never_exceeds_what_openmetrics_allows(
    namespace: str, pod: str, container_id: str
) -> None:
    """128 runes for names and values; more, or a bare quote, spoils the whole scrape."""
    finding = missed(container_id, Pod(namespace, pod))
    exemplar = exemplar_of(finding, 1.5)
    assert set(exemplar.labels) == {"namespace", "pod", "container_id"}
    assert sum(map(len, chain(*exemplar.labels.items()))) <= 128
    assert namespace.startswith(exemplar.labels["namespace"])
    assert pod.startswith(exemplar.labels["pod"])
    assert container_id.startswith(exemplar.labels["container_id"])
    node = Node()
    node.tally.add(finding, 1.5)
    text = openmetrics_of(measured(node).registry)
    (line,) = [line for line in text.split("\n") if " # {" in line]
    assert line.startswith("kube_pod_missed_events_total{")
    assert line.endswith("} 1.0 1.5")


@pytest.mark.parametrize(
    ("pod", "shown"),
    [
        (Pod("checkout", "cart-vjpxzw6dd-qtljw"), ("checkout", "cart-vjpxzw6dd-qtljw", ID)),
        (Pod("default", "a" * 60), ("default", "a" * 60, ID[:13])),
        (None, ("", "", ID)),
    ],
    ids=["usual", "long", "unknown"],
)
def test_an_exemplar_shortens_the_id_before_the_names(
    pod: Pod | None, shown: tuple[str, str, str]
) -> None:
    """The id is cut as crictl prints it, and still finds the container."""
    exemplar = exemplar_of(missed(ID, pod), 1.5)
    assert exemplar.labels == dict(zip(("namespace", "pod", "container_id"), shown, strict=True))
    assert (exemplar.value, exemplar.timestamp) == (1.0, 1.5)
