"""A redacted recording contains no names and gives the same verdicts."""

import gzip
import json
from pathlib import Path

import pytest

from tests.support.tape import SECRETS, recording_of, replayed, secret_story

pytestmark = pytest.mark.quick


def test_a_redacted_recording_has_no_names_and_comes_to_the_same_verdicts(tmp_path: Path) -> None:
    """Neither plain nor escaped; equal names get equal pseudonyms."""
    data, deck = recording_of(tmp_path / "r.gz", *secret_story(), redact=True)
    text = gzip.decompress(data).decode()
    assert text.count("\n") > 10
    for secret in SECRETS:
        assert secret not in text
        assert json.dumps(secret)[1:-1] not in text
    open_text = gzip.decompress(recording_of(tmp_path / "o.gz", *secret_story())[0]).decode()
    assert all(json.dumps(secret)[1:-1] in open_text for secret in SECRETS)
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
    """The key is discarded, so recordings cannot be compared and names cannot be guessed."""
    texts = [
        gzip.decompress(recording_of(tmp_path / name, *secret_story(), redact=True)[0]).decode()
        for name in ("a.gz", "b.gz")
    ]
    pseudonyms = [{word for word in text.split('"') if word.startswith("id-")} for text in texts]
    assert len(pseudonyms[0]) == len(pseudonyms[1]) == 3
    assert not pseudonyms[0] & pseudonyms[1]
