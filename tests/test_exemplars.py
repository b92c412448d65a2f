"""Exemplars: who was lost last, within what OpenMetrics allows."""

from __future__ import annotations

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from exporter.collector import exemplar_of
from exporter.node.state import Node
from exporter.pleg.events import Lifecycle, ObjectKind, Pod
from exporter.pleg.findings import Cause, Finding, Verdict
from tests.support.exposition import measured, openmetrics_of

pytestmark = pytest.mark.quick

ID = "1049c2922b0c6f9655302e61f371d365f4549d0987e3a9068ac82c9a4b5dea3d"
TEXTS = st.text(st.characters(exclude_categories=["Cs"]), max_size=300)
NAMES = st.one_of(TEXTS, st.integers(0, 300).map(lambda length: "é" * length))


def missed(container_id: str, pod: Pod | None) -> Finding:
    """A start that was lost in silence."""
    return Finding(
        verdict=Verdict.MISSED,
        event=Lifecycle.STARTED,
        kind=ObjectKind.CONTAINER,
        container_id=container_id,
        pod=pod,
        cause=Cause.SILENT,
    )


def runes(labels: dict[str, str]) -> int:
    """What OpenMetrics counts: names and values."""
    return sum(len(name) + len(value) for name, value in labels.items())


@settings(deadline=None)
@given(namespace=NAMES, pod=NAMES, container_id=NAMES)
def test_an_exemplar_never_exceeds_what_openmetrics_allows(
    namespace: str, pod: str, container_id: str
) -> None:
    """128 runes for names and values together; a longer one spoils the whole scrape."""
    exemplar = exemplar_of(missed(container_id, Pod(namespace, pod)), 1.5)
    assert set(exemplar.labels) == {"namespace", "pod", "container_id"}
    assert runes(exemplar.labels) <= 128
    assert namespace.startswith(exemplar.labels["namespace"])
    assert pod.startswith(exemplar.labels["pod"])
    assert container_id.startswith(exemplar.labels["container_id"])


@settings(deadline=None, max_examples=40)
@given(namespace=NAMES, pod=NAMES, container_id=NAMES)
def test_a_scrape_with_any_names_in_it_can_be_read(
    namespace: str, pod: str, container_id: str
) -> None:
    """Quotes, line breaks and backslashes in an exemplar cost no sample."""
    node = Node()
    finding = missed(container_id, Pod(namespace, pod))
    node.tally.add(finding, 1.5)
    text = openmetrics_of(measured(node).registry)
    assert text.count(" # {") == 1
    line = next(line for line in text.split("\n") if " # {" in line)
    assert line.startswith("kube_pod_missed_events_total{")
    assert line.endswith("} 1.0 1.5")


def test_a_usual_pods_exemplar_says_everything() -> None:
    """Namespace, pod and id as they are, where they fit together."""
    exemplar = exemplar_of(missed(ID, Pod("checkout", "cart-vjpxzw6dd-qtljw")), 1.5)
    assert exemplar.labels == {
        "namespace": "checkout",
        "pod": "cart-vjpxzw6dd-qtljw",
        "container_id": ID,
    }
    assert (exemplar.value, exemplar.timestamp) == (1.0, 1.5)


def test_a_long_pods_name_shortens_the_id_before_itself() -> None:
    """The id is cut as crictl prints it, and still finds the container."""
    pod = "a" * 60
    labels = exemplar_of(missed(ID, Pod("default", pod)), 1.5).labels
    assert labels == {"namespace": "default", "pod": pod, "container_id": ID[:13]}


def test_a_container_of_nobody_knows_which_pod_has_its_id() -> None:
    """Where no list told the pod, the id is what there is."""
    labels = exemplar_of(missed(ID, None), 1.5).labels
    assert labels == {"namespace": "", "pod": "", "container_id": ID}
