"""The catalogue of metrics, and whole scrapes against files: a contract with dashboards."""

import re
from collections.abc import Iterable
from itertools import chain, count, product
from pathlib import Path
from types import SimpleNamespace
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st
from prometheus_client import CollectorRegistry
from prometheus_client.core import Metric
from prometheus_client.openmetrics import parser

from exporter.metrics import families
from exporter.metrics.collector import Histograms, NodeCollector, exemplar_of, new_registry
from exporter.metrics.families import Spec
from exporter.model.events import EventType, Lifecycle, ObjectKind, Pod
from exporter.model.findings import Cause, Finding, Untimed, Verdict
from exporter.model.labels import (
    Call,
    Flaw,
    KernelWitness,
    KubeletPods,
    Malformed,
    OomKill,
    OomWitness,
    PodsEnd,
    Refusal,
    StreamKind,
    StreamState,
)
from exporter.node.history import History
from exporter.node.judgement import Judge
from exporter.node.state import Node, RuntimeInfo
from exporter.web.rendered import as_openmetrics, as_text
from tests import ROOT, assert_golden
from tests.support.facts import CREATED, EXITED, NOTREADY, READY, RUNNING, UNKNOWN, found
from tests.support.fixtures import examples
from tests.support.stage import Stage, ours

pytestmark = pytest.mark.quick


BUILD = re.compile(r'(shadow_pleg_build_info)\{python="[^"]+",version="[^"]+"\}')


def text_of(registry: CollectorRegistry) -> str:
    """Our metrics in the text format, without what differs from build to build."""
    # In the order in which the daemon registers them.
    alone: Any = SimpleNamespace(collect=lambda: ours(registry))
    return BUILD.sub(r'\1{python="...",version="..."}', as_text(alone).decode())


def scraped() -> list[Metric]:
    return ours(Stage().registry)


def test_every_metric_of_the_catalogue_is_exported_and_explained() -> None:
    declared = [spec for spec in vars(families).values() if isinstance(spec, Spec)]
    exported = {family.name: family.documentation for family in scraped()}
    assert {spec.name: spec.help for spec in declared} == exported
    assert len(declared) == len(exported)
    assert all(text.endswith(".") for text in exported.values())


GOLDEN = Path(__file__).parent / "golden"
TEXTS = st.text(st.characters(exclude_categories=["Cs"]), max_size=300)
NAMES = st.one_of(TEXTS, st.integers(0, 300).map(lambda length: "é" * length))


def numbered() -> CollectorRegistry:
    """Of a node where everything that is counted was counted another number of times."""
    node, registry, numbers = Node(), new_registry(), count(1)
    ledger: Any = SimpleNamespace(
        unresolved=next(numbers), stalls=next(numbers), number=list(Verdict).index
    )
    whys = (None, *Cause, *Flaw, *OomKill)
    # Only a container's exit may be undecided.
    findings = (
        key
        for key in product(Verdict, Lifecycle, ObjectKind, whys)
        if key[0] is not Verdict.UNDECIDED or key[1:3] == (Lifecycle.DIED, ObjectKind.CONTAINER)
    )
    counters: tuple[tuple[dict[Any, Any], Iterable[Any]], ...] = (
        (node.tally.counts, findings),
        (node.received, product(EventType, ObjectKind)),
        *((node.untimed, Untimed), (node.malformed, Malformed), (node.refusals, Refusal)),
        *((node.calls, Call), (node.call_seconds, Call)),
        (node.pods.ends, (each.value for each in PodsEnd)),
        (node.stream.ends, ("eof", "overflow", "unavailable")),
        (node.relist_errors, ("deadline_exceeded", "unavailable")),
    )
    for counter, keys in counters:
        counter.update(dict(zip(keys, numbers, strict=False)))
    node.list_bytes = dict(zip(Call, numbers, strict=False))
    for name in (
        *("connections", "discards", "discards_unreconciled", "clock_steps", "evidence_dropped"),
        *("relist_period", "relist_succeeded_wall", "stream_last_seen_wall"),
    ):
        setattr(node, name, next(numbers))
    node.runtime = RuntimeInfo("containerd", "2.1.9", "v1", StreamKind.BROADCAST)
    node.stream.state, node.oom.state = StreamState.STREAMING, OomWitness.COUNTING
    node.kernel.state, node.pods.state = KernelWitness.POLLING, KubeletPods.WATCHING
    states = (READY, NOTREADY, CREATED, RUNNING, EXITED, UNKNOWN)
    shown = [how for number, how in enumerate(states, 1) for _ in range(number)]
    node.listed = {f"c{n}": how.named(f"c{n}") for n, how in enumerate(shown)}
    histograms = Histograms(registry)
    delays = (Verdict.EXIT_ANNOUNCED, Verdict.EXIT_LISTED)
    for number, verdict in enumerate((*delays, Verdict.EXIT_BELIEVED, Verdict.EVENT_BELIEVED), 1):
        histograms.exit_measured(found(verdict)._replace(seconds=number / 8))
    for number, name in enumerate(("relist_duration", "relist_interval", "event_delivery"), 1):
        getattr(histograms, name).observe(number / 1024)
    histograms.loop_lag.observe(1 / 4096)
    judge = Judge(node, History(node), ledger.number)
    unlogged = next(numbers)
    registry.register(
        NodeCollector(node, ledger, lambda: judge.at(0.0), lambda: (7, 1000), lambda: unlogged)
    )
    return registry


def test_each_count_is_exported_under_its_own_name() -> None:
    assert_golden(text_of(numbered()), GOLDEN / "counts.prom")


def test_a_fresh_process_has_each_series_at_zero_but_for_what_it_is() -> None:
    at_start = [line for line in text_of(Stage().registry).splitlines() if line[0] != "#"]
    names, later = (
        {line.rpartition(" ")[0] for line in text_of(registry).splitlines()}
        for registry in (Stage().registry, numbered())
    )
    assert {name for name in names ^ later if "shadow_pleg_runtime_info" not in name} == set()
    assert [line for line in at_start if not line.endswith(" 0.0")] == [
        "shadow_pleg_event_queue_capacity 1000.0",
        "shadow_pleg_relist_period_seconds 0.1",
        "shadow_pleg_web_config_last_reload_successful 1.0",
        'shadow_pleg_stream_state{state="connecting"} 1.0',
        'shadow_pleg_kernel_witness{state="off"} 1.0',
        'shadow_pleg_oom_witness{state="off"} 1.0',
        'shadow_pleg_kubelet_pods{state="off"} 1.0',
        'shadow_pleg_node_condition{condition="starting"} 1.0',
        'shadow_pleg_runtime_info{api_version="",name="",stream="none",version=""} 1.0',
        'shadow_pleg_build_info{python="...",version="..."} 1.0',
    ]


def test_the_docs_say_how_many_series_a_node_has() -> None:
    lines = as_text(Stage().registry).decode().splitlines()
    number = sum(not line.startswith("#") for line in lines)
    said = re.search(r"about (\d+) series", (ROOT / "docs/deploy.md").read_text(encoding="utf-8"))
    assert said
    assert abs(number - int(said[1])) < 20


def test_openmetrics_names_the_newest_loss_of_each_kind() -> None:
    stage = Stage()
    for number, cause in enumerate([*Cause, *Cause]):
        lost = missed(f"c{number}", Pod("shop", "cart"))._replace(cause=cause)
        stage.node.tally.add(lost, 1000.0 + number)
    text = as_openmetrics(stage.registry).decode()
    families: Iterable[Metric] = parser.text_string_to_metric_families(text)  # type: ignore[no-untyped-call] # the library's own gap
    (family,) = [each for each in families if each.name == "kube_pod_missed_events"]
    exemplars = {each.labels["cause"]: each.exemplar for each in family.samples if each.exemplar}
    assert {
        cause: (of.labels, of.value, float(str(of.timestamp))) for cause, of in exemplars.items()
    } == {
        cause.value: (
            {"namespace": "shop", "pod": "cart", "container_id": f"c{number}"},
            1.0,
            1000.0 + number,
        )
        for number, cause in enumerate(Cause, len(Cause))
    }


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
    # As crictl prints it, which still finds the container.
    assert exemplar.labels["container_id"] == container_id[:13]
    stage = Stage()
    stage.node.tally.add(finding, 1.5)
    text = as_openmetrics(stage.registry).decode()
    (line,) = [line for line in text.split("\n") if " # {" in line]
    assert line.startswith("kube_pod_missed_events_total{")
    assert line.endswith("} 1.0 1.5")
