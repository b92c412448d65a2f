"""What the command says: formats, recordings, and mistakes in one line."""

import json
from dataclasses import replace
from pathlib import Path
from xml.etree import ElementTree as ET

import pytest

from conformance.history import write
from conformance.properties import PROPERTIES, Result, expected, junit, shipped, text
from exporter.errors import ConfigError
from exporter.model.events import Announcement, ObjectKind, Pod
from exporter.model.facts import ProfileChosen, StreamDown, StreamUp
from tests.conformance.test_properties import BREAKING, broken
from tests.support.commands import run_here
from tests.support.facts import Given, Whole, facts_of
from tests.traces.replaying import RUNTIMES, recordings, scenarios

pytestmark = [pytest.mark.quick, pytest.mark.usefixtures("borrowed_process")]

# Rows of which tests/traces tell: they hold no statuses.
SHOWN = "--only=order,lifecycle,restart"


def recording(runtime: str, file: Path) -> Path:
    """All scenarios of tests/traces of that runtime, one after the other, as one recording."""
    begin = (ProfileChosen(0.0, *RUNTIMES[runtime]), StreamUp(0.0, 0.0), Whole(0.9, 1.0, ()))
    log, at = list[Given](begin), 1.0
    ours = [each for each in scenarios() if each.runtime == runtime]
    for scenario, raw in zip(ours, recordings(runtime), strict=True):
        if any(step.action.startswith("ctr c rm") for step in scenario.steps):
            # No event is required of what does not go through the CRI.
            continue
        pod = Pod("default", scenario.name, f"{scenario}-SB")
        for step, times in zip(scenario.steps, raw["steps"], strict=True):
            if step.action.startswith("restarted"):
                log += [StreamDown(at), StreamUp(at + 0.1, at + 0.1)]
            for each, time in zip(step.events, times["events"], strict=True):
                at += 0.2
                kind = ObjectKind.SANDBOX if each.subject == "SB" else ObjectKind.CONTAINER
                what = (f"{scenario}-{each.subject}", each.type, at, time["created_at_ns"], kind)
                got = time["received_at_ns"]
                log.append(Announcement(*what, pod.uid, pod, received_wall_ns=got))
            items = [
                item._replace(id=f"{scenario}-{item.id}", sandbox_id=pod.uid)
                for item in step.listed
            ]
            # Within the grace, and after it.
            for pause in (0.5, 5.0):
                at += pause
                log.append(Whole(at - 0.1, at, tuple(items)))
    write(facts_of(log), file)
    return file


@pytest.mark.parametrize(
    ("runtime", "breached"),
    [
        ("crio-1.36.3", {"sandboxes", "pod-removal", "restart-meanwhile"}),
        ("containerd-2.1.9", {"sandboxes", "restart-meanwhile"}),
    ],
)
def test_recordings_of_real_runtimes_show_what_they_breach(
    capsys: pytest.CaptureFixture[str], folder: Path, runtime: str, breached: set[str]
) -> None:
    """By the ledger; what needs to know what was done is not judged."""
    file = recording(runtime, folder / "node.jsonl.gz")
    done = run_here(capsys, "conformance", f"--recording={file}", SHOWN, "--output=json")
    rows = {row["name"]: row for row in json.loads(done.out)["properties"]}
    assert {name for name, row in rows.items() if row["breached"]} == breached
    assert rows["exec"]["said"] == "a recording does not say what was done"
    assert rows["order"]["cases"] > 20
    musts = any(PROPERTIES[name].level == "MUST" for name in breached)
    assert done.code == int(musts)


def results(name: str, *, known: bool = False, strict: bool = False) -> list[Result]:
    """Of the history that breaches that property alone."""
    history = broken(*BREAKING[name][0])
    because = expected("containerd-2.1")["failed-start"] if known else None
    return [
        replace(row.judged(history), known=because if row.name == name else None, strict=strict)
        for row in PROPERTIES.values()
    ]


def test_a_breach_is_told_with_its_history() -> None:
    """Who reads it sees what was done, what was heard, and when."""
    said = text("containerd 2.1.9", results("announced"))
    begin = said.index("announced (MUST): Each creation")
    assert said[begin:].splitlines()[3:7] == [
        "  breach: STOPPED is never heard",
        "       0.000 s  plain-0       CreateContainer returns after 0.001 s",
        "       0.011 s  plain-0       CREATED is heard as CONTAINER_CREATED",
        "       0.021 s  plain-0       after CREATED, it is",
    ]
    assert said.endswith(f"1 FAIL, {len(PROPERTIES) - 1} pass\n")


@pytest.mark.parametrize(
    ("name", "known", "strict", "outcome", "fails"),
    [
        ("announced", False, False, "FAIL", True),
        ("announced", True, True, "known", False),
        ("failed-start", False, False, "warn", False),
        ("failed-start", False, True, "warn", True),
        ("sandboxes", False, True, "differs", False),
    ],
)
def test_what_fails_a_run(
    name: str, *, known: bool, strict: bool, outcome: str, fails: bool
) -> None:
    """A MUST that is not known, and with --expect a SHOULD too; JUnit counts the same."""
    found = results(name, known=known, strict=strict)
    (one,) = (result for result in found if result.of.name == name)
    assert (one.outcome, one.fails) == (outcome, fails)
    suite = ET.fromstring(junit("containerd 2.1.9", found))  # noqa: S314 - our own
    assert suite.get("failures") == str(int(fails))
    assert len(suite.findall("testcase/failure")) == int(fails)
    assert len(suite.findall("testcase")) == len(PROPERTIES)
    (told,) = suite.findall(f"testcase[@name='{name}']/*")
    assert told.text
    assert told.text.startswith("known: " if known else one.of.owed)
    assert "CREATED is heard" in told.text


@pytest.mark.parametrize(
    ("flags", "said"),
    [
        (("--only=ordr",), "--only: 'ordr' is neither a property nor one of the groups"),
        (("--only=,",), "--only: ',' names nothing"),
        (("--expect=nowhere.yaml",), "--expect: 'nowhere.yaml': cannot be read"),
        (("--seconds=1",), "--seconds: '1' is not a whole number from 5 to 3600"),
        (("--recording=x", "--history=y"), "--recording: nothing is done to a runtime"),
        (
            ("--history=/nowhere/file",),
            "--history: '/nowhere/file' cannot be written (No such file",
        ),
        (("--history={folder}/old",), "--history: '{folder}/old' exists: name a new file"),
        (("--recording=nowhere",), "--recording: 'nowhere' cannot be read"),
        (("--runtime-endpoint=unix:///nowhere",), "--runtime-endpoint: "),
    ],
)
def test_a_mistake_is_one_line(
    capsys: pytest.CaptureFixture[str], folder: Path, flags: tuple[str, ...], said: str
) -> None:
    """It names the flag, and no other command's."""
    (folder / "old").touch()
    given = [each.format(folder=folder) for each in flags]
    complaint = run_here(capsys, "conformance", *given).complaint(2)
    assert complaint.startswith(said.format(folder=folder))
    assert "--force" not in complaint


@pytest.mark.parametrize(
    ("content", "said"),
    [
        ("order", "Expected `object`"),
        ("[]", "Expected `object`"),
        ("order: {because: y}", "missing required field `link`"),
        ("ordr: {because: y, link: z}", "'ordr', which is no property"),
    ],
)
def test_a_file_of_expectations_is_checked(folder: Path, content: str, said: str) -> None:
    """Before anything is done; those that come along are right, each with a link."""
    file = folder / "known.yaml"
    file.write_text(content, encoding="utf-8")
    with pytest.raises(ConfigError, match=said):
        expected(str(file))
    assert shipped() == ["containerd-1.7", "containerd-2.1", "cri-o-1.37"]
    assert all(known.link for name in shipped() for known in expected(name).values())
