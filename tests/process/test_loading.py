"""What is not configured is not loaded, and what is configured works."""

import asyncio
import json
import re
import subprocess
import sys
from collections.abc import AsyncIterator, Iterable
from contextlib import asynccontextmanager
from dataclasses import dataclass, field
from importlib import import_module
from pathlib import Path

import pytest

from exporter.process.loading import load_later
from tests.support.commands import ANYWHERE, Running, fetch, running
from tests.support.kubelets import kubelet
from tests.support.runtimes import simulated
from tests.support.secured import ALICE, TLS, WebFiles, users

OPENMETRICS = "application/openmetrics-text"
CLIENT = {"aiohttp.client", "aiohttp.connector", "exporter.kubelet.client"}
KUBELET = {"exporter.kubelet.page", "exporter.kubelet.poller"}
OPENSSL = {"_ssl", "_hashlib"}
SERVERS = {"http.server", "prometheus_client.exposition", "wsgiref.simple_server"}
ACCESS = {"exporter.web.access.web_config", "msgspec", "yaml.loader"} | {
    "yaml.dumper",
    "yaml.cyaml",
}
NEVER = {
    *(
        "exporter.commands.record",
        "exporter.recording",
        "fleet.queries",
        "msgspec",
    ),
    *("simulator.server", "google.protobuf.text_format", "yaml.dumper", "yaml.cyaml"),
}
UNCONFIGURED = CLIENT | KUBELET | OPENSSL | SERVERS | ACCESS | NEVER | {"bcrypt", "jinja2"}


@dataclass(slots=True)
class Serving:
    """A `serve` of its own, and what it had loaded by its end."""

    process: Running
    url: str
    loaded: set[str] = field(default_factory=set)

    def maps(self) -> set[str]:
        """Which of OpenSSL's libraries it has mapped."""
        maps = Path(f"/proc/{self.process.process.pid}/maps").read_text(encoding="utf-8")
        return set(re.findall(r"/(lib(?:ssl|crypto))\.so", maps))


@asynccontextmanager
async def serving(*flags: str) -> AsyncIterator[Serving]:
    """`serve` as a process, without what measures the coverage: it loads a lot."""
    apart = {"COVERAGE_PROCESS_START": "", "COVERAGE_PROCESS_CONFIG": ""}
    async with simulated() as runtime:
        flags = (ANYWHERE, "--log.format=json", f"--runtime-endpoint={runtime.endpoint}", *flags)
        async with running("serve", *flags, module="tests.support.loaded", **apart) as process:
            it = Serving(process, (await process.logged("serving"))["url"])
            yield it
            outcome = await process.stop()
    it.loaded |= set(json.loads(outcome.out))


async def test_what_is_not_configured_is_not_loaded() -> None:
    """A node by default: Prometheus scrapes, the kubelet probes."""
    async with serving() as it:
        page = await fetch(f"{it.url}metrics", Accept=OPENMETRICS)
        assert page.headers["Content-Type"].startswith(OPENMETRICS)
        assert (await fetch(f"{it.url}livez")).status == 200
        assert it.maps() == set()
    assert it.loaded & UNCONFIGURED == set()


async def test_the_text_format_brings_the_rest_of_its_library() -> None:
    """Both formats hold the same values; TLS is there for code that imports it later."""
    async with serving() as it:
        (text, rich) = [await fetch(f"{it.url}metrics", Accept=each) for each in ("", OPENMETRICS)]
    assert text.headers["Content-Type"].startswith("text/plain")
    series = "shadow_pleg_relist_period_seconds "
    assert series in text.text
    assert series in rich.text
    assert it.loaded & UNCONFIGURED == SERVERS | {"_ssl"}


async def test_pages_bring_templates() -> None:
    """The status page."""
    async with serving() as it:
        assert (await fetch(it.url)).status == 200
    assert it.loaded & UNCONFIGURED == {"jinja2"}


async def test_a_web_configuration_brings_tls_and_passwords(tmp_path: Path) -> None:
    """And only what was used of it: bcrypt comes with the first password."""
    files = WebFiles(tmp_path)
    files.write(TLS + users(ALICE))
    tls = files.client()
    async with serving(f"--web.config.file={files.config}") as it:
        assert it.url.startswith("https:")
        assert (await fetch(it.url, tls=tls)).status == 401
        metrics = f"{it.url}metrics"
        assert (await fetch(metrics, tls=tls, login=ALICE, Accept=OPENMETRICS)).status == 200
        assert it.maps() == {"libssl", "libcrypto"}
    assert it.loaded & UNCONFIGURED == ACCESS | OPENSSL | {"bcrypt"}


async def test_a_kubelet_brings_a_client() -> None:
    """It reads a page over HTTP."""
    async with kubelet() as fake, serving(f"--kubelet-metrics-url={fake.url}") as it:
        await it.process.logged("the kubelet answers")
    assert it.loaded & UNCONFIGURED == CLIENT | KUBELET | OPENSSL


# --- how ------------------------------------------------------------------------


@pytest.fixture
def package(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    """A package that can be imported as `dear`, and is loaded later."""
    monkeypatch.syspath_prepend(tmp_path)
    monkeypatch.setattr(sys, "meta_path", sys.meta_path.copy())
    monkeypatch.setattr(sys, "modules", sys.modules.copy())
    load_later("dear")
    folder = tmp_path / "dear"
    folder.mkdir()
    (folder / "part.py").write_text("from . import __version__, other\n")
    (folder / "other.py").write_text("")
    return folder


def put(folder: Path, *lines: str) -> None:
    """The package's own code."""
    (folder / "__init__.py").write_text("\n".join(('__version__ = "1.2"', *lines)))


def test_a_package_is_loaded_when_something_of_it_is_used(package: Path) -> None:
    """Once; its modules and its version are not that."""
    put(package, "from . import part", "from .other import __name__ as used", "loads = [1]")
    assert import_module("dear.part").__version__ == "1.2"
    dear = import_module("dear")
    assert dear.part is sys.modules["dear.part"]
    assert "loads" not in vars(dear)
    assert dear.used == "dear.other"
    assert dear.loads is dear.loads
    with pytest.raises(AttributeError, match="'dear' has no attribute 'missing'"):
        _ = dear.missing


def test_a_package_may_answer_for_itself(package: Path) -> None:
    """As aiohttp does for what it loads later itself."""
    put(package, "def __getattr__(name):", "    return name * 2")
    assert import_module("dear").ab == "abab"
    assert import_module("dear").cd == "cdcd"


def test_a_package_that_cannot_be_loaded_says_so_each_time(package: Path) -> None:
    """As an import would."""
    put(package, "import no_such_module")
    for _ in range(2):
        with pytest.raises(ImportError, match="no_such_module"):
            _ = import_module("dear").used


async def said(code: Iterable[str], path: Path) -> str:
    """What a fresh interpreter prints that finds modules there."""
    command = [sys.executable, "-c", "\n".join(code)]
    done = await asyncio.to_thread(
        subprocess.run, command, cwd=path, capture_output=True, text=True, check=True
    )
    return done.stdout.strip()


async def test_a_library_that_needs_tls_by_now_gets_it(tmp_path: Path) -> None:
    """It costs memory, and nothing else."""
    web = tmp_path / "aiohttp" / "web.py"
    web.parent.mkdir()
    web.with_name("__init__.py").write_text("")
    web.write_text("import ssl\nkind = ssl.SSLContext.__name__\n")
    load = "from exporter.process.loading import load_little; load_little(tls=False)"
    assert await said((load, "import aiohttp.web", "print(aiohttp.web.kind)"), tmp_path) == (
        "SSLContext"
    )


async def test_hashes_do_not_need_openssl(tmp_path: Path) -> None:
    """Python's own code makes the same ones."""
    code = "import hashlib; print(hashlib.sha256(b'x').hexdigest(), hashlib.sha1(b'x').hexdigest())"
    load = "from exporter.process.loading import load_little; load_little(tls=False)"
    assert await said((load, code), tmp_path) == await said((code,), tmp_path)
