"""Who controls no access pays nothing for it."""

from __future__ import annotations

import asyncio
import sys

import pytest

PROGRAM = """
import asyncio, sys
import exporter.cli
from exporter.pleg.node import Node
from tests.face.pages import CONFIG, face_of
from dataclasses import replace
from tests.face.commands import fetch

async def main():
    async with face_of(Node(), replace(CONFIG, web_config_file=sys.argv[1])) as url:
        await fetch(url + "metrics")

asyncio.run(main())
print(*sorted({"yaml", "bcrypt"} & set(sys.modules)))
"""


@pytest.mark.parametrize(
    ("text", "loaded"), [(None, ""), ("", "yaml"), ("basic_auth_users: {}", "yaml")], ids=str
)
async def test_libraries_come_with_the_flag(
    tmp_path_factory: pytest.TempPathFactory, text: str | None, loaded: str
) -> None:
    """YAML for a file, bcrypt for a password to check, neither for a plain start."""
    path = ""
    if text is not None:
        file = tmp_path_factory.mktemp("papers") / "web.yml"
        file.write_text(text)
        path = str(file)
    process = await asyncio.create_subprocess_exec(
        *(sys.executable, "-c", PROGRAM, path),
        stdout=asyncio.subprocess.PIPE,
        stderr=asyncio.subprocess.PIPE,
    )
    out, err = await process.communicate()
    assert (out.decode().strip(), err.decode()) == (loaded, "")
