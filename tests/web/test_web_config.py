"""The web configuration file: what is accepted, and how everything else is refused."""

import asyncio
import os
from pathlib import Path

import msgspec
import pytest
import trustme
import yaml

from exporter.errors import ConfigError
from exporter.node.state import Node
from exporter.web.access.policy import Policy, WebPolicy
from exporter.web.access.web_config import TlsSettings
from tests import ROOT, table
from tests.support.web import WebFiles

# The same in each run, as tests are named after it: of "open".
HASH = "$2b$04$abcdefghijklmnopqrstuu5cldSTjqTa.nw4QeJC5.F6G/ueChgIa"
TEXTS = table(__file__, "web_config.yaml")


def tls(changes: dict[str, object]) -> str:
    section = {"cert_file": "server.crt", "key_file": "server.key"} | changes
    return yaml.safe_dump({"tls_server_config": section}, sort_keys=False)


BAD = [
    ("[" * 5000, ""),
    ("# " + "x" * 131072, "is larger than 128 KiB"),
    *((text, said) for said, texts in TEXTS["refused"].items() for text in texts),
    *((tls(changes), said) for said, changes in TEXTS["refused_of_tls"].items()),
]
GOOD = [*TEXTS["accepted"], *map(tls, TEXTS["accepted_of_tls"])]


def load(web_files: WebFiles) -> Policy:
    return WebPolicy(str(web_files.config), Node()).load()


@pytest.fixture(scope="module")
def odd_files(tmp_path_factory: pytest.TempPathFactory) -> WebFiles:
    web_files = WebFiles(tmp_path_factory.mktemp("web_files"))
    (web_files.folder / "empty").touch()
    os.mkfifo(web_files.folder / "pipe")
    locked = trustme.CA().issue_cert("x").private_key_pem.bytes().decode()
    head = "-----BEGIN EC PRIVATE KEY-----\nProc-Type: 4,ENCRYPTED\nDEK-Info: AES-128-CBC,00\n\n"
    body = "\n".join(locked.splitlines()[1:])
    (web_files.folder / "locked.key").write_text(head + body)
    return web_files


@pytest.mark.parametrize(("text", "said"), BAD, ids=lambda text: text[-40:].replace("\0", "0"))
def test_a_bad_file_is_refused_in_one_line(odd_files: WebFiles, text: str, said: str) -> None:
    odd_files.write(text.replace("HASH", HASH))
    with pytest.raises(ConfigError) as caught:
        load(odd_files)
    message = str(caught.value)
    assert message.startswith(f"--web.config.file: '{odd_files.config}': ")
    assert said in message
    assert "\n" not in message
    assert HASH[-20:] not in message


EXAMPLE = (ROOT / "docs" / "web-config.example.yml").read_text(encoding="utf-8")


@pytest.mark.parametrize("text", [EXAMPLE, *GOOD], ids=lambda text: text[:30])
async def test_a_good_file_is_accepted_as_by_prometheus(
    web_files: WebFiles, promtool: Path, text: str
) -> None:
    """One format, not a dialect: the documented example, too. Sections may be empty."""
    if text is EXAMPLE:
        web_files.name_as_in_the_example()
    web_files.write(text.replace("HASH", HASH))
    assert (load(web_files).tls is not None) == ("cert_file" in text)
    process = await asyncio.create_subprocess_exec(
        *(promtool, "check", "web-config", web_files.config),
        stdout=asyncio.subprocess.PIPE,
        stderr=asyncio.subprocess.STDOUT,
    )
    out, _ = await process.communicate()
    assert process.returncode == 0, out.decode()


@pytest.mark.quick
def test_the_documentation_names_every_key() -> None:
    page = (ROOT / "docs" / "access-control.md").read_text()
    keys = {each.encode_name for each in msgspec.structs.fields(TlsSettings)}
    assert {key for key in keys if f"`{key}" not in page} == set()
