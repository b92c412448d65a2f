"""Pseudonyms: a recording that names nobody, and comes to the same verdicts."""

from __future__ import annotations

import gzip
import json
from pathlib import Path

import pytest

from exporter.pleg.events import (
    Announcement,
    EventType,
    Inquiry,
    Listed,
    ListedState,
    ObjectKind,
    Pod,
    Relist,
)
from exporter.pleg.facts import (
    Fact,
    Inquired,
    ProfileChosen,
)
from tests.recording.test_recorder import recorded
from tests.support.facts import relist, up
from tests.support.tape import replayed

pytestmark = pytest.mark.quick

IDS = ("0a1b2c3d4e5f", "9f8e7d6c5b4a", "77aa88bb99cc")
SECRETS = (*IDS, "payroll", "salaries-7d9f8", "uid-4711", "exporter-of-secrets", "Zürich")


def secret_story() -> list[Fact]:
    """A life in which every name is a secret."""
    pod = Pod("payroll", "salaries-7d9f8", "uid-4711")
    box = Listed(IDS[0], ObjectKind.SANDBOX, ListedState.RUNNING, IDS[0], "", pod)
    app = Listed(
        IDS[1], ObjectKind.CONTAINER, ListedState.RUNNING, IDS[0], "exporter-of-secrets", pod
    )
    city = app._replace(id=IDS[2], name="Zürich", state=ListedState.EXITED)
    kind = ObjectKind.CONTAINER
    return [
        ProfileChosen(0.0, "containerd", "2.1.9"),
        up(0.5),
        relist(1),
        Announcement(IDS[1], EventType.CREATED, 1.5, 10**18, kind, IDS[0], pod),
        Relist(2, 2.1, 2 * 10**9, (box, app, city)),
        Inquired(2.5, IDS[2], Inquiry.NEVER_STARTED),
        Relist(20, 20.1, 20 * 10**9, (box, app, city)),
        Relist(21, 21.1, 21 * 10**9, ()),
        Relist(40, 40.1, 40 * 10**9, ()),
    ]


def test_a_redacted_recording_has_none_of_the_names_in_it(tmp_path: Path) -> None:
    """Not one id, namespace, pod, uid or container name; in no place, and in no spelling."""
    data, _ = recorded(tmp_path / "r.gz", *secret_story(), redact=True)
    text = gzip.decompress(data).decode()
    assert text.count("\n") > 10
    for secret in SECRETS:
        assert secret not in text
        assert json.dumps(secret)[1:-1] not in text
    open_text = gzip.decompress(recorded(tmp_path / "o.gz", *secret_story())[0]).decode()
    assert all(json.dumps(secret)[1:-1] in open_text for secret in SECRETS)


def test_a_redacted_recording_comes_to_the_same_verdicts(tmp_path: Path) -> None:
    """Who is who stays comparable, and a sandbox's own id stays its own."""
    data, deck = recorded(tmp_path / "r.gz", *secret_story(), redact=True)
    done, findings = replayed(data)
    assert done.comparison.agrees
    assert done.comparison.same == len(findings) == len(deck.tape.findings) > 5
    assert [(f.verdict, f.event, f.kind, f.cause) for f in findings] == [
        (f.verdict, f.event, f.kind, f.cause) for f in deck.tape.findings
    ]
    ids = [[finding.container_id for finding in row] for row in (deck.tape.findings, findings)]
    names = dict(zip(*ids, strict=True))
    assert len(set(names.values())) == len(names) > 1


def test_the_same_name_has_another_pseudonym_in_another_recording(tmp_path: Path) -> None:
    """The key is thrown away: two recordings cannot be laid side by side, nor names tried out."""
    texts = [
        gzip.decompress(recorded(tmp_path / name, *secret_story(), redact=True)[0]).decode()
        for name in ("a.gz", "b.gz")
    ]
    pseudonyms = [{word for word in text.split('"') if word.startswith("id-")} for text in texts]
    assert len(pseudonyms[0]) == len(pseudonyms[1]) == 3
    assert not pseudonyms[0] & pseudonyms[1]
