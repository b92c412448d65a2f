"""The web configuration file: what is accepted, and how everything else is refused."""

import asyncio
import os
from pathlib import Path

import msgspec
import pytest
import trustme

from exporter.errors import ConfigError
from exporter.node.state import Node
from exporter.web.access.policy import Policy, WebPolicy
from exporter.web.access.web_config import TlsSettings
from tests import ROOT
from tests.support.web_pages import MTLS, TLS, WebFiles

# The same in each run, as tests are named after it: of "open".
HASH = "$2b$04$abcdefghijklmnopqrstuu5cldSTjqTa.nw4QeJC5.F6G/ueChgIa"
BAD = (
    ("a: [", "is not YAML: "),
    ("a: &x [*x", "is not YAML: "),
    ("a\0b", "is not YAML: "),
    ("a: 1\n---\nb: 2\n", "is not YAML: "),
    ("[" * 5000, ""),
    ("# " + "x" * 131072, "is larger than 128 KiB"),
    ("[]", "Expected `object`, got `array`"),
    # What an editor, a script or an emptied Secret leaves behind.
    ("", "Expected `object`, got `null`"),
    ("# nothing\n", "Expected `object`, got `null`"),
    ("---\n", "Expected `object`, got `null`"),
    ("{}", "sets nothing: add a section"),
    ("tls_server_config:\n", "Expected `object`, got `null` - at `$.tls_server_config`"),
    ("http_server_config:\n", "Expected `object`, got `null` - at `$.http_server_config`"),
    ("basic_auth_users:\n", "basic_auth_users: expected a name and its bcrypt"),
    ("basic_auth_users: {}", "basic_auth_users: expected a name and its bcrypt"),
    (f"basic_auth_users: {{a: {HASH}}}\nbasic_auth_users: {{}}", "names 'basic_auth_users' twice"),
    (f"basic_auth_users: {{a: {HASH}, a: {HASH}}}", "names 'a' twice"),
    ("tls: {}", "unknown field `tls`"),
    ("tls_server_config: nothing", "Expected `object`, got `str` - at `$.tls_server_config`"),
    ("tls_server_config: {ciphers: 2}", "unknown field `ciphers` - at `$.tls_server_config`"),
    ("tls_server_config: {key_file: server.key}", ".cert, key: expected a certificate and its key"),
    ("http_server_config: {headers: {Server: mine}}", "unknown field `Server`"),
    ("http_server_config: {headers: {X-Frame-Options: allow}}", "Invalid enum value 'allow'"),
    (
        'http_server_config: {headers: {X-XSS-Protection: "0\\r\\nX: x"}}',
        "Expected `str` of printable characters, with an end to each quote - at `$.http_server",
    ),
    (
        "http_server_config: {headers: {Content-Security-Policy: default-src '}}",
        "with an end to each quote - at `$.http_server_config.headers.Content-Security-Policy`",
    ),
    # A block of YAML ends with a line break.
    (
        "http_server_config: {headers: {Content-Security-Policy: \"default-src 'self'\\n\"}}",
        "Expected `str` of printable characters",
    ),
    (f'basic_auth_users: {{alice: "{HASH}\\n"}}', "basic_auth_users: expected a name"),
    *(
        (f"basic_auth_users: {{alice: {word}}}", "basic_auth_users: expected a name and its bcrypt")
        for word in ("secret", "", HASH.replace("$04$", "$15$"), HASH.replace("$04$", "$03$"))
    ),
    (TLS.replace("server.crt", "none.crt"), "tls_server_config.cert_file: "),
    (TLS.replace("server.crt", "."), "cannot be read: Is a directory"),
    (TLS.replace("server.key", "pipe"), "is not a file"),
    (TLS.replace("server.crt", "ca.crt"), "(key values mismatch)"),
    (TLS.replace("server.key", "server.crt"), "expected a certificate and its key, in PEM"),
    (TLS.replace("server.key", "locked.key"), "expected a certificate and its key, in PEM"),
    (TLS + "  key: x\n", "tls_server_config.key: set key or key_file, not both"),
    (TLS + "  min_version: TLS11\n", "Invalid enum value 'TLS11'"),
    (
        TLS + "  min_version: TLS13\n  max_version: TLS12\n",
        ".max_version: is lower than min_version",
    ),
    (TLS + "  cipher_suites: []\n", "unknown field `cipher_suites` - at `$.tls_server_config`"),
    (TLS + "  curve_preferences: [CurveP256]\n", "unknown field `curve_preferences`"),
    (TLS + "  client_ca_file: ca.crt\n", ".client_auth_type: set it and client_ca_file"),
    (TLS + "  client_auth_type: RequireAndVerifyClientCert\n", ".client_auth_type: set it and"),
    (TLS + "  client_auth_type: RequireAnyClientCert\n", "Invalid enum value"),
    (TLS + "  client_allowed_sans: [x]\n", "requires client_auth_type RequireAndVerifyClientCert"),
    (MTLS.replace("ca.crt", "server.key"), ".client_ca: holds no certificate"),
    (MTLS.replace("ca.crt", "empty"), ".client_auth_type: set it and client_ca_file"),
)
GOOD = (
    "http_server_config: {http2: yes, headers: {X-Frame-Options: sameorigin}}",
    f"basic_auth_users: {{'12345': {HASH}, 'ä b': {HASH.replace('$2b$', '$2y$')}}}",
    TLS,
    MTLS,
    TLS + "  min_version: TLS12\n  max_version: TLS13\n",
    TLS + "  client_auth_type:\n  client_ca_file: ''\n",
    TLS + "  client_auth_type: NoClientCert\n",
)


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


@pytest.mark.parametrize(("text", "said"), BAD, ids=lambda text: text[:30].replace("\0", "0"))
def test_a_bad_file_is_refused_in_one_line(odd_files: WebFiles, text: str, said: str) -> None:
    odd_files.write(text)
    with pytest.raises(ConfigError) as caught:
        load(odd_files)
    message = str(caught.value)
    assert message.startswith(f"--web.config.file: '{odd_files.config}': ")
    assert said in message
    assert "\n" not in message
    assert HASH not in message


EXAMPLE = (ROOT / "docs" / "web-config.example.yml").read_text(encoding="utf-8")


@pytest.mark.parametrize("text", [EXAMPLE, *GOOD], ids=lambda text: text[:30])
async def test_a_good_file_is_accepted_as_by_prometheus(
    web_files: WebFiles, promtool: Path, text: str
) -> None:
    """One format, not a dialect: the documented example, too. Sections may be empty."""
    if text is EXAMPLE:
        web_files.name_as_in_the_example()
    web_files.write(text)
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
