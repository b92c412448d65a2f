"""Alertmanager's example: routes judged by amtool, inhibitions by Alertmanager itself."""

import asyncio
import os
import subprocess
from collections.abc import AsyncIterator
from pathlib import Path

import aiohttp
import pytest
import pytest_asyncio
from aiohttp.test_utils import unused_port

from alerts.entries import ALERTS as ENTRIES
from alerts.entries import INHIBITIONS, MANY, Inhibition, Level
from alerts.render import graded
from alerts.values import load
from testbed.fixtures import part, unavailable
from testbed.servers import LOOPBACK, started
from testbed.waiting import until
from tests.support.expressions import ALERTS

# Debian's Alertmanager reads its templates from /usr/share and from nowhere else: it is shown a
# /usr/share to which those of the package are added, in a mount namespace of its own.
_MOUNT = 'mount -t overlay overlay -o "lowerdir=$0:/usr/share" /usr/share && exec "$@"'
CONFIG = ALERTS / "alertmanager.yml"
ALERT = {alert.name: alert for alert in ENTRIES}
NAMES = {*ALERT}
LEVELS = {alert.name: alert.level for alert in ENTRIES}
VALUES = load()
Labels = dict[str, str]


def severities(name: str) -> tuple[str, ...]:
    return tuple(graded(ALERT[name], VALUES).split(" or "))


@pytest_asyncio.fixture
async def alertmanager(tmp_path: Path) -> AsyncIterator[str]:
    binary = part("alertmanager").resolve()
    user = () if os.geteuid() == 0 else ("--map-root-user",)
    share = binary.parents[1] / "share"
    command = ("unshare", "--mount", *user, "sh", "-c", _MOUNT, share, binary)
    asks = [*command, "--version"]
    tried = await asyncio.to_thread(subprocess.run, asks, capture_output=True, text=True)
    if tried.returncode:
        unavailable(f"no mount namespace for Alertmanager's templates: {tried.stderr.strip()}")
    url = f"http://{LOOPBACK}:{unused_port()}"
    flags = (
        f"--config.file={CONFIG}",
        f"--storage.path={tmp_path / 'alertmanager'}",
        f"--web.listen-address={url.removeprefix('http://')}",
        "--cluster.listen-address=",
    )
    async with started(tmp_path / "alertmanager.log", f"{url}/api/v2/status", *command, *flags):
        yield f"{url}/api/v2/alerts"


def asked(*arguments: str | Path) -> str:
    done = subprocess.run([part("amtool"), *arguments], capture_output=True, text=True, check=False)
    assert done.returncode == 0, done.stdout + done.stderr
    return done.stdout.strip()


def test_amtool_finds_no_fault_with_the_example() -> None:
    of_nodes = [*(each.same for each in INHIBITIONS), *LEVELS.values()].count(Level.NODE)
    rules = len(INHIBITIONS) + of_nodes
    assert f"{rules} inhibit rules" in asked("check-config", CONFIG)


@pytest.mark.parametrize(
    ("name", "severity"), [(name, it) for name in sorted(NAMES - {MANY}) for it in severities(name)]
)
def test_an_alert_goes_to_the_receiver_of_its_severity(name: str, severity: str) -> None:
    labels = (f"alertname={name}", f"severity={severity}", "cluster=blue", "node=a")
    routed = ("config", "routes", "test", f"--config.file={CONFIG}")
    assert asked(*routed, f"--verify.receivers={severity}", *labels) == severity


def test_inhibitions_name_alerts_that_exist_and_never_each_other() -> None:
    """Two alerts that mute each other, or one that mutes itself, would never be delivered."""
    muted_by = {(muted, by) for each in INHIBITIONS for by in each.by for muted in each.muted}
    assert {name for pair in muted_by for name in pair} <= NAMES
    assert [pair for pair in muted_by if pair[::-1] in muted_by] == []


def test_nothing_of_lesser_weight_mutes_a_page() -> None:
    wrong = [
        (by, muted)
        for each in INHIBITIONS
        for by in each.by
        for muted in each.muted
        if "critical" in severities(muted) and {*severities(by)} != {"critical"} and not each.alike
    ]
    assert wrong == []


def labels_of(name: str, node: str, cluster: str) -> Labels:
    mine = {"alertname": name, "severity": severities(name)[0], "cluster": cluster}
    return mine | ({"node": node} if LEVELS[name] is Level.NODE else {})


def held_back(n: int, each: Inhibition, source: str) -> tuple[list[Labels], list[Labels]]:
    """In clusters of its own: `source` and what it holds back, and what not: the same elsewhere."""
    home = f"{source}-{n}"
    node, cluster = ("b", home) if each.same is Level.NODE else ("a", f"not {home}")
    mine = labels_of(source, "a", home)
    alike = {"severity": mine["severity"]} if each.alike else {}
    here = [labels_of(name, "a", home) | alike for name in each.muted]
    there = [labels_of(name, node, cluster) | alike for name in each.muted]
    there += [labels | {"severity": "another"} for labels in here if each.alike]
    return here, [mine, *there]


def many_have_it() -> tuple[list[Labels], list[Labels]]:
    """What many nodes have holds back that in its cluster, its symptoms, and nothing else."""
    many = {"alertname": MANY, "severity": "warning", "cluster": "blue"}
    here = [labels_of("ShadowPlegRelistStale", node, "blue") for node in "ab"]
    here.append(many | {"problem": "ShadowPlegStreamDown"})
    elsewhere = labels_of("ShadowPlegRelistStale", "a", "green")
    other = labels_of("ShadowPlegKubeletDiscards", "a", "blue")
    return here, [many | {"problem": "ShadowPlegRelistStale"}, elsewhere, other]


async def test_what_fires_holds_back_what_it_names_in_one_place_only(alertmanager: str) -> None:
    stories = [held_back(n, it, by) for n, it in enumerate(INHIBITIONS) for by in it.by]
    stories.append(many_have_it())
    held: dict[str, bool] = {}

    async def holds_back() -> bool:
        async with session.get(alertmanager) as answer:
            for each in await answer.json():
                held[key(each["labels"])] = bool(each["status"]["inhibitedBy"])
        return len(held) == len(sent) and all(held[key(it)] for here, _ in stories for it in here)

    sent = [labels for both in stories for part in both for labels in part]
    async with aiohttp.ClientSession(raise_for_status=True) as session:
        await session.post(alertmanager, json=[{"labels": labels} for labels in sent])
        await until(holds_back, "all is held back that is to be", seconds=60)
    assert [labels for _, there in stories for labels in there if held[key(labels)]] == []


def key(labels: Labels) -> str:
    return str(sorted(labels.items()))
