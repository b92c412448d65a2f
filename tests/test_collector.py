"""Whole scrapes against files: what dashboards and rules were written for.

`UPDATE_GOLDEN=1` writes the files; read the difference before you commit it.
"""

import asyncio
import subprocess
from pathlib import Path

import pytest
import structlog
from hypothesis import given
from hypothesis import strategies as st

from exporter.collector import exemplar_of
from exporter.model.events import Lifecycle, ObjectKind, Pod
from exporter.model.findings import Cause, Finding, Verdict
from exporter.node.state import Node
from testbed.waiting import until
from tests import assert_golden
from tests.support.commands import ANYWHERE, fetch, running
from tests.support.exposition import Measured, measured, openmetrics, openmetrics_of, text_of
from tests.support.node_life import EPOCH, spend_day
from tests.support.searching import examples

GOLDEN = Path(__file__).parent / "golden"
ID = "1049c2922b0c6f9655302e61f371d365f4549d0987e3a9068ac82c9a4b5dea3d"
TEXTS = st.text(st.characters(exclude_categories=["Cs"]), max_size=300)
NAMES = st.one_of(TEXTS, st.integers(0, 300).map(lambda length: "é" * length))


@pytest.fixture
def lived() -> Measured:
    """A node after the scripted day."""
    node = measured(queued=7)
    with structlog.testing.capture_logs():
        spend_day(node)
    return node


def lint(promtool: Path, text: str) -> str:
    """What Prometheus' own checker has to say of a scrape."""
    found = subprocess.run(
        [promtool, "check", "metrics"],
        input=text.encode(),
        stdout=subprocess.PIPE,
        stderr=subprocess.STDOUT,
        check=False,
    )
    return found.stdout.decode() or f"exit {found.returncode}"


@pytest.mark.quick
def test_a_fresh_process_shows_every_series_at_its_start() -> None:
    """All label combinations exist at 0, so that `increase()` sees the first miss."""
    assert_golden(text_of(measured().registry), GOLDEN / "fresh.prom")


@pytest.mark.quick
def test_a_day_is_counted_to_the_last_event(lived: Measured) -> None:
    """Facts go through ledger and reporter into the scrape."""
    assert_golden(text_of(lived.registry), GOLDEN / "life.prom")


@pytest.mark.quick
def test_the_day_has_everything_in_it(lived: Measured) -> None:
    """A golden file of zeros would prove nothing."""
    tally = lived.node.tally
    unheard = {verdict for verdict in Verdict if not tally.total(verdict)}
    assert unheard == {Verdict.OVERFLOW}
    assert all(tally.total(Verdict.MISSED, cause) for cause in Cause)
    assert lived.ledger.unresolved > 0


@pytest.mark.quick
def test_life_adds_no_series(lived: Measured) -> None:
    """The number of series is that of a fresh process, whatever happens."""
    fresh = {line.rsplit(" ", 1)[0] for line in text_of(measured().registry).splitlines()}
    later = {line.rsplit(" ", 1)[0] for line in text_of(lived.registry).splitlines()}
    changed = {line for line in fresh ^ later if "shadow_pleg_runtime_info" not in line}
    assert changed == set()


@pytest.mark.parametrize("name", ["fresh.prom", "life.prom"])
def test_prometheus_finds_no_fault_with_the_golden_files(promtool: Path, name: str) -> None:
    """Names, types, helps and units as Prometheus wants them."""
    assert lint(promtool, (GOLDEN / name).read_text(encoding="utf-8")) == "exit 0"


async def test_prometheus_finds_no_fault_with_a_live_process(promtool: Path) -> None:
    """The library's own metrics included, while events are lost."""
    flags = ("--pods=2", "--drop=50%", "--churn=50", "--relist-period=100ms", "--missed-grace=0")
    async with running("demo", ANYWHERE, *flags) as process:
        url = (await process.printed()).rsplit(" ", 1)[1].strip()
        await until(lambda: _has_missed(url), "the demo misses an event", seconds=45)
        scrape = await fetch(url + "metrics")
        await process.stop()
    assert await asyncio.to_thread(lint, promtool, scrape.text) == "exit 0"


async def _has_missed(url: str) -> bool:
    lines = (await fetch(url + "metrics")).text.splitlines()
    missed = [each for each in lines if each.startswith("kube_pod_missed_events_total")]
    return any(not line.endswith(" 0.0") for line in missed)


@pytest.mark.quick
def test_openmetrics_names_the_newest_loss_of_each_kind(lived: Measured) -> None:
    """From a counter to the container that it counted last."""
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


@pytest.mark.quick
def test_openmetrics_has_what_the_text_has(lived: Measured) -> None:
    """Both formats are read from one state; neither has `_created` series."""
    text = {line.split("{")[0].split()[0] for line in text_of(lived.registry).splitlines()} - {"#"}
    families = openmetrics(openmetrics_of(lived.registry))
    names = {sample.name for family in families for sample in family.samples}
    assert text <= names
    assert not [name for name in names if name.endswith("_created")]


# --- exemplars ----------------------------------------------------------------


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


@pytest.mark.quick
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


@pytest.mark.quick
@examples(0.4)
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


@pytest.mark.quick
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
