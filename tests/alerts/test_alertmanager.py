"""Alertmanager's example: routes judged by amtool, inhibitions by Alertmanager itself."""

import subprocess
from pathlib import Path

import pytest

from alerts.entries import Inhibition, Level
from alerts.inhibitions import INHIBITIONS, MANY
from alerts.render import ALERTS as ENTRIES
from alerts.values import load
from testbed.servers import Command
from testbed.waiting import until
from tests.support.alertmanager import alertmanager, ask
from tests.support.expressions import ALERTS

CONFIG = ALERTS / "alertmanager.yml"
NAMES = {alert.name for alert in ENTRIES}
LEVELS = {alert.name: alert.level for alert in ENTRIES}
VALUES = load()


def severities(name: str) -> tuple[str, ...]:
    """Those that an alert may have, the gravest first."""
    severity = VALUES.alerts[name].severity
    losses = VALUES.losses
    return (losses.relied_on, losses.otherwise) if severity == "losses" else (severity,)


def asked(amtool: Path, *arguments: str | Path) -> str:
    """What amtool answers; it must not complain."""
    done = subprocess.run([amtool, *arguments], capture_output=True, text=True, check=False)
    assert done.returncode == 0, done.stdout + done.stderr
    return done.stdout.strip()


def test_amtool_finds_no_fault_with_the_example(amtool: Path) -> None:
    """And reads all inhibitions."""
    of_nodes = [*(each.same for each in INHIBITIONS), *LEVELS.values()].count(Level.NODE)
    rules = len(INHIBITIONS) + of_nodes
    assert f"{rules} inhibit rules" in asked(amtool, "check-config", CONFIG)


@pytest.mark.parametrize(
    ("name", "severity"), [(name, it) for name in sorted(NAMES - {MANY}) for it in severities(name)]
)
def test_an_alert_goes_to_the_receiver_of_its_severity(
    amtool: Path, name: str, severity: str
) -> None:
    """As graded in the values; nothing falls through to another."""
    labels = (f"alertname={name}", f"severity={severity}", "cluster=blue", "node=a")
    routed = ("config", "routes", "test", f"--config.file={CONFIG}")
    assert asked(amtool, *routed, f"--verify.receivers={severity}", *labels) == severity


def test_inhibitions_name_alerts_that_exist_and_never_each_other() -> None:
    """Two alerts that mute each other, or one that mutes itself, would never be delivered."""
    muted_by = {(muted, by) for each in INHIBITIONS for by in each.by for muted in each.muted}
    assert {name for pair in muted_by for name in pair} <= NAMES
    assert [pair for pair in muted_by if pair[::-1] in muted_by] == []


def test_nothing_of_lesser_weight_mutes_a_page() -> None:
    """A critical alert is held back by critical ones alone."""
    wrong = [
        (by, muted)
        for each in INHIBITIONS
        for by in each.by
        for muted in each.muted
        if "critical" in severities(muted) and {*severities(by)} != {"critical"} and not each.alike
    ]
    assert wrong == []


def labels_of(name: str, node: str, cluster: str) -> dict[str, str]:
    """An alert's labels as Prometheus sends them."""
    mine = {"alertname": name, "severity": severities(name)[0], "cluster": cluster}
    return mine | ({"node": node} if LEVELS[name] is Level.NODE else {})


async def held_by(url: str) -> dict[str, tuple[str, list[str]]]:
    """By labels: the fingerprint of each alert, and those of the alerts that hold it back."""
    return {
        key(each["labels"]): (each["fingerprint"], each["status"]["inhibitedBy"])
        for each in await ask(f"{url}/api/v2/alerts")
    }


def key(labels: dict[str, str]) -> str:
    """Labels as text."""
    return str(sorted(labels.items()))


async def test_what_many_nodes_have_holds_back_that_and_nothing_else(
    alertmanager_command: Command, tmp_path: Path
) -> None:
    """In that cluster, with its symptoms; other alerts, and the same elsewhere, are delivered."""
    many = {"alertname": MANY, "severity": "warning", "cluster": "blue"}
    first = many | {"problem": "ShadowPlegRelistStale"}
    here = [labels_of("ShadowPlegRelistStale", node, "blue") for node in "ab"]
    here.append(many | {"problem": "ShadowPlegStreamDown"})
    elsewhere = labels_of("ShadowPlegRelistStale", "a", "green")
    other = labels_of("ShadowPlegKubeletDiscards", "a", "blue")
    sent = [first, *here, elsewhere, other]
    held: dict[str, tuple[str, list[str]]] = {}

    async def holds_back() -> bool:
        held.update(await held_by(url))
        return len(held) == len(sent) and all(held[key(labels)][1] for labels in here)

    async with alertmanager(alertmanager_command, tmp_path, CONFIG) as url:
        await ask(f"{url}/api/v2/alerts", [{"labels": labels} for labels in sent])
        await until(holds_back, f"{MANY} holds back what it names", seconds=60)
    assert not held[key(elsewhere)][1]
    assert not held[key(other)][1]


@pytest.mark.parametrize(
    ("source", "each"),
    [
        pytest.param(by, each, id=f"{by}-{n}")
        for n, each in enumerate(INHIBITIONS)
        for by in each.by
    ],
)
async def test_an_inhibition_holds_back_what_it_names_in_one_place_only(
    alertmanager_command: Command, tmp_path: Path, source: str, each: Inhibition
) -> None:
    """On the same node or cluster, and if it says so of the same severity. Each source does."""
    node, cluster = ("b", "blue") if each.same is Level.NODE else ("a", "green")
    first = labels_of(source, "a", "blue")
    here = [labels_of(name, "a", "blue") for name in each.muted]
    there = [labels_of(name, node, cluster) for name in each.muted]
    there += [labels | {"severity": "warning"} for labels in here if each.alike]
    sent = [first, *here, *there]
    held: dict[str, tuple[str, list[str]]] = {}

    async def holds_back() -> bool:
        held.update(await held_by(url))
        return len(held) == len(sent) and all(held[key(labels)][1] for labels in here)

    async with alertmanager(alertmanager_command, tmp_path, CONFIG) as url:
        await ask(f"{url}/api/v2/alerts", [{"labels": labels} for labels in sent])
        await until(holds_back, f"{source} holds back {each.muted}", seconds=60)
    by, of_source = held[key(first)]
    assert not of_source
    assert not any(by in held[key(labels)][1] for labels in there)
