"""Loads less of the libraries: a sixth of this process's memory was code that it never runs.

Two ways, both part of Python's import system. What `_LATER` names is loaded when something uses it,
so nothing changes but when that is. And without TLS, asyncio and aiohttp are loaded as on a Python
that was built without OpenSSL, which both support. Blind spot: a library that begins to use what is
named here as it is imported loads it; a test of the modules that are loaded notices.
"""

import gc
import re
import sys
import threading
from collections.abc import Iterator, Sequence
from contextlib import contextmanager, suppress
from importlib import import_module
from importlib.abc import Loader, MetaPathFinder
from importlib.machinery import ModuleSpec, PathFinder
from importlib.util import find_spec
from types import ModuleType
from typing import Final

_LATER: Final = (
    # Imports its client, which the kubelet's metrics need and the server does not: 3 MiB.
    "aiohttp",
    # Imports web servers of its own, and with them TLS.
    "prometheus_client",
    # What protobuf does where it has no C library: 1 MiB.
    "google.protobuf.internal.python_message",
    # Imports its writer, and libyaml.
    "yaml",
)
_WITHOUT_TLS: Final = ("asyncio", "aiohttp.web")
# Python's own code for hashes. Where a distribution leaves it out, hashes need OpenSSL.
_OWN_HASHES: Final = ("_md5", "_sha1", "_sha3", "_blake2")
_VERSION: Final = re.compile(r'^__version__ = "([^"]+)"$', re.MULTILINE)


def load_little(*, tls: bool) -> None:
    """Call this before any of those libraries is imported. `tls`: whether it is configured.

    Python's garbage collector starts with `keep_small`, after all imports: they leave little.
    """
    gc.disable()
    load_later(*_LATER)
    if not tls:
        _leave_out_openssl()


def load_later(*names: str) -> None:
    """Load these modules when an attribute of theirs is used; submodules are none."""
    sys.meta_path.insert(0, _Finder(names))


def _leave_out_openssl() -> None:
    """5 MiB. Later uses of `ssl` get it; asyncio's and aiohttp's streams do not."""
    load_later("ssl")
    if all(find_spec(name) for name in _OWN_HASHES):
        # Python takes this for a module that does not exist.
        sys.modules["_hashlib"] = None  # type: ignore[assignment] # typeshed does not know
    # It decides as it is loaded whether it knows HTTPS, and aiohttp loads it.
    import_module("urllib.request")
    # One that cannot do without by now gets TLS where it is imported again.
    with suppress(ImportError), _absent("ssl"):
        for name in _WITHOUT_TLS:
            import_module(name)


@contextmanager
def _absent(name: str) -> Iterator[None]:
    """Meanwhile, importing that module fails."""
    known = sys.modules.pop(name, None)
    sys.modules[name] = None  # type: ignore[assignment] # as above
    try:
        yield
    finally:
        del sys.modules[name]
        if known:
            sys.modules[name] = known


class _Finder(MetaPathFinder):
    """Finds some modules as Python does, and has them loaded later."""

    def __init__(self, names: Sequence[str]) -> None:
        self._names = names

    def find_spec(
        self, fullname: str, path: Sequence[str] | None, target: ModuleType | None = None
    ) -> ModuleSpec | None:
        """None for any other module."""
        spec = PathFinder.find_spec(fullname, path, target) if fullname in self._names else None
        if spec and spec.loader:
            spec.loader = _LaterLoader(spec.loader)
        return spec


class _LaterLoader(Loader):
    """Makes a module that loads itself."""

    def __init__(self, loader: Loader) -> None:
        self._loader = loader

    def create_module(self, spec: ModuleSpec) -> ModuleType | None:
        """As the real loader does."""
        return self._loader.create_module(spec)

    def exec_module(self, module: ModuleType) -> None:
        """Python calls `__getattr__` of a module for what the module does not have."""
        vars(module).update(__loader__=self._loader, __getattr__=_Missing(module, self._loader))


class _Missing:
    """`__getattr__` of a module that is not loaded yet."""

    def __init__(self, module: ModuleType, loader: Loader) -> None:
        self._module = module
        self._loader = loader
        self._lock = threading.RLock()
        self._loading = False

    def __call__(self, name: str) -> object:
        """A submodule, the version, or what the module has once it is loaded."""
        module = self._module
        with self._lock:
            if self._loading:
                raise AttributeError(f"{module.__name__!r} has no {name!r} yet", name=name)
            if vars(module).get("__getattr__") is self:
                if name == "__version__" and (version := self._version()):
                    return version
                if "__path__" in vars(module) and find_spec(f"{module.__name__}.{name}"):
                    return import_module(f"{module.__name__}.{name}")
                self._load()
        return getattr(module, name)

    def _load(self) -> None:
        self._loading = True
        try:
            self._loader.exec_module(self._module)
        finally:
            self._loading = False
        # Some modules bring one of their own.
        if vars(self._module).get("__getattr__") is self:
            del vars(self._module)["__getattr__"]

    def _version(self) -> str:
        """What aiohttp's server asks its package for; empty if the source does not say."""
        source = getattr(self._loader, "get_source", lambda _: "")(self._module.__name__)
        found = _VERSION.search(source or "")
        return found[1] if found else ""
