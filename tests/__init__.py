"""The tests of shadow-pleg."""

import difflib
import os
from pathlib import Path
from typing import Any, Final

import yaml

from exporter.__main__ import OF_GRPC

ROOT: Final = Path(__file__).parents[1]

# In this process gRPC is as in `serve`; it reads that when it is imported.
os.environ.update(OF_GRPC)


def assert_golden(text: str, file: Path) -> None:
    """Fail unless the text is the file's, which a person has read; UPDATE_GOLDEN=1 writes it."""
    if os.environ.get("UPDATE_GOLDEN"):
        file.write_text(text, encoding="utf-8")
    kept, now = file.read_text(encoding="utf-8").splitlines(), text.splitlines()
    said = "\n".join(difflib.unified_diff(kept, now, file.name, "now", lineterm=""))
    assert not said, f"{said}\nUPDATE_GOLDEN=1 writes it: read this difference first"


def table(beside: str, name: str) -> Any:
    """What a YAML file beside that test says."""
    return yaml.load(Path(beside).with_name(name).read_bytes(), yaml.CSafeLoader)
