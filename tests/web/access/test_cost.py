"""Who controls no access pays nothing for it."""

from __future__ import annotations

import asyncio
import sys
from pathlib import Path

# What was loaded stays loaded: in the order of what may be loaded.
PROGRAM = """
import asyncio, sys
import exporter.cli
from exporter.node.state import Node
from tests.support.web_pages import CONFIG, face_of
from dataclasses import replace
from tests.support.commands import fetch

async def main(file):
    async with face_of(Node(), replace(CONFIG, web_config_file=file)) as url:
        await fetch(url + "metrics")

for file in sys.argv[1:]:
    asyncio.run(main(file))
    print(*sorted({"yaml", "bcrypt"} & set(sys.modules)))
"""
LOADED = {"no file": "", "an empty file": "yaml", "no users": "yaml"}


async def test_libraries_come_with_the_flag(tmp_path: Path) -> None:
    """YAML for a file, bcrypt for a password to check, neither for a plain start."""
    empty, nobody = tmp_path / "empty.yml", tmp_path / "nobody.yml"
    empty.write_text("")
    nobody.write_text("basic_auth_users: {}")
    process = await asyncio.create_subprocess_exec(
        *(sys.executable, "-c", PROGRAM, "", empty, nobody),
        stdout=asyncio.subprocess.PIPE,
        stderr=asyncio.subprocess.PIPE,
    )
    out, err = await process.communicate()
    assert err.decode() == ""
    assert dict(zip(LOADED, out.decode().splitlines(), strict=True)) == LOADED
