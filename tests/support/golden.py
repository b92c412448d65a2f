"""Golden files: whole outputs that were read by a person once, and are compared from then on."""

import os
from pathlib import Path


def assert_golden(text: str, file: Path) -> None:
    """Fail unless the text is the file's; with UPDATE_GOLDEN=1 write the file, for review."""
    if os.environ.get("UPDATE_GOLDEN"):
        file.write_text(text, encoding="utf-8")
    assert text.splitlines() == file.read_text(encoding="utf-8").splitlines()
