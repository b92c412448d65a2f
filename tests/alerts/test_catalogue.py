"""Rules and runbooks against the code: names, labels and flags that are there, pages that exist."""

import re
from pathlib import Path

import promql_parser
import pytest

import exporter
from alerts.entries import ALERTS as ENTRIES
from alerts.entries import RENAMED
from alerts.render import graded
from alerts.values import load
from tests import table
from tests.support.expressions import ALERTS, ASKED, MARKED, metrics_of, promql, rules, selectors_of
from tests.support.stage import Stage

pytestmark = pytest.mark.quick

RUNBOOKS = ALERTS.parent / "docs" / "runbooks"
PAGES = sorted(RUNBOOKS.glob("ShadowPleg*.md"))
README = ALERTS / "README.md"
HEADINGS = ["Meaning", "Diagnosis", "Mitigation"]
FOREIGN: dict[str, str] = table(__file__, "foreign.yaml")
RULES = rules()
VALUES = load()
ALERT = {alert.name: alert for alert in ENTRIES}
RECORDS = {rule["record"] for rule in RULES if "record" in rule}
# Labels that a target has, not a metric.
OF_TARGETS = {"job", "node", "cluster", "instance"}
FENCE = re.compile(r"```(\w*)\n(.*?)```", re.DOTALL)


def test_alerts_and_the_status_page_link_to_the_same_runbooks() -> None:
    """A publisher of the project changes one line, and no link leads nowhere."""
    assert load().links.runbooks == exporter.RUNBOOKS
    assert exporter.RUNBOOKS.startswith(exporter.HOME)
    assert ".invalid" not in str(RULES)


FAMILIES = list(Stage().registry.collect())
SAMPLES = [sample for family in FAMILIES for sample in family.samples]
EXPORTED = {sample.name for sample in SAMPLES}
# What dashboards ask.
SHOWN = [promql(each) for each in (*ASKED, *MARKED)]
KNOWN = EXPORTED | set(FOREIGN) | RECORDS


def expressions_in(page: Path) -> list[str]:
    return [
        code for kind, code in FENCE.findall(page.read_text(encoding="utf-8")) if kind == "promql"
    ]


@pytest.mark.parametrize("rule", RULES, ids=lambda rule: rule.get("alert") or rule["record"])
def test_every_metric_and_label_of_a_rule_exists(rule: dict[str, str]) -> None:
    """A matcher on a label or a value that no series of this exporter has would match nothing."""
    names = metrics_of(rule["expr"])
    assert names
    assert names <= KNOWN
    for selector in selectors_of(rule["expr"]):
        samples = [s for s in SAMPLES if s.name == selector.name]
        for matcher in selector.matchers.matchers if samples else ():
            if matcher.name not in OF_TARGETS:
                regex = matcher.op in (promql_parser.MatchOp.Re, promql_parser.MatchOp.NotRe)
                wanted = matcher.value.split("|") if regex else [matcher.value]
                values = {sample.labels.get(matcher.name) for sample in samples}
                assert set(wanted) <= values, f"{matcher} of {selector.name}"


def test_every_alert_links_to_its_runbook() -> None:
    assert [page.stem for page in PAGES] == sorted(alert.name for alert in ENTRIES)
    links = load().links
    for rule in RULES:
        if "alert" in rule:
            annotations = rule["annotations"]
            assert annotations["runbook_url"] == f"{links.runbooks}/{rule['alert']}.md"
            assert annotations["summary"].endswith(".")


@pytest.mark.parametrize("page", PAGES, ids=lambda page: page.stem)
def test_a_runbook_has_all_that_is_needed_at_night(page: Path) -> None:
    """Severity as it ships, the parts in order, commands, both kinds of kubelets; one screen."""
    text = page.read_text(encoding="utf-8")
    first = f"# {page.stem}\n\nSeverity {graded(ALERT[page.stem], VALUES)}. "
    assert text.startswith(first), f"it begins with: {first!r}"
    assert re.findall(r"^## (.+)$", text, re.MULTILINE) == HEADINGS
    parts = dict(zip(HEADINGS, re.split(r"^## .+$", text, flags=re.MULTILINE)[1:], strict=True))
    meaning = " ".join(parts["Meaning"].split())
    kubelets = re.search(r"[Bb]efore Kubernetes 1\.37|[Bb]efore 1\.37|[Bb]efore and since", meaning)
    blocks = {kind for kind, _ in FENCE.findall(parts["Diagnosis"])}
    lacks = {
        "a part without a text": not all(part.strip() for part in parts.values()),
        "Meaning: before and since Kubernetes 1.37": not (kubelets and "ince" in meaning),
        "at most 250 words": len(text.split()) > 250,
        "Diagnosis: a block of promql and one of sh": not {"promql", "sh"} <= blocks,
    }
    assert not [what for what, is_lacking in lacks.items() if is_lacking]


@pytest.mark.parametrize("page", [*PAGES, README], ids=lambda page: page.stem)
def test_queries_of_a_page_are_promql_about_metrics_that_exist(page: Path) -> None:
    for expression in expressions_in(page):
        assert metrics_of(expression) - KNOWN == set(), expression


def test_every_metric_of_a_dashboard_exists() -> None:
    assert set().union(*map(metrics_of, SHOWN)) - KNOWN == set()


ASKING = [rule["expr"] for rule in RULES]
ASKING += [each for page in (*PAGES, README) for each in expressions_in(page)]
SELECTORS = [str(selector) for each in SHOWN for selector in selectors_of(each)]


def test_every_join_is_within_one_cluster() -> None:
    """Two may have a node of the same name, or an address."""
    joins = [(each, on) for each in ASKING for on in re.findall(r"\bon ?\(([^)]*)\)", each)]
    assert joins
    assert [each for each, on in joins if "cluster" not in on] == []


@pytest.mark.parametrize("asked", [ASKING, SELECTORS], ids=["rules and pages", "dashboards"])
def test_no_expression_names_a_renamed_counter_by_one_name_only(asked: list[str]) -> None:
    """A kubelet, or OpenTelemetry's receiver, has the one or the other."""
    every = [{old, *new} for old, new in RENAMED.items()]
    named = [(each, metrics_of(each)) for each in asked]
    assert [
        each for each, names in named for group in every if names & group and names & group != group
    ] == []
    assert [names for _, names in named if names & {*RENAMED}] != []
