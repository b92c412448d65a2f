"""The tests of shadow-pleg."""

import os
from pathlib import Path
from typing import Final

from exporter.__main__ import OF_GRPC

ROOT: Final = Path(__file__).parents[1]

# In this process gRPC is as in `serve`; it reads that when it is imported.
os.environ.update(OF_GRPC)


def assert_golden(text: str, file: Path) -> None:
    """Fail unless the text is the file's; with UPDATE_GOLDEN=1 write the file, for review.

    Golden files are whole outputs that were read by a person once.
    """
    if os.environ.get("UPDATE_GOLDEN"):
        file.write_text(text, encoding="utf-8")
    assert text.splitlines() == file.read_text(encoding="utf-8").splitlines()
