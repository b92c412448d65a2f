"""Parses argv into settings and runs the command.

Subcommands and the text of `--help`; exit codes are in `__main__`. Each command imports its own
code, asyncio included: `health` runs again and again, `filter` must not load what talks to the
network, and `serve` decides by its flags what the libraries load.
"""

import argparse
import os
import socket
from collections.abc import Coroutine, Mapping, Sequence
from dataclasses import replace
from pathlib import Path
from types import MappingProxyType
from typing import Any, Final, TypeVar

from exporter import __version__
from exporter.commands.options import (
    CheckOptions,
    FilterOptions,
    RecordOptions,
    ReplayOptions,
    SimulateOptions,
)
from exporter.errors import UnknownError
from exporter.report.options import Request
from exporter.settings.conditions import MOST_CHARACTERS, Condition
from exporter.settings.config import Config
from exporter.settings.declaring import Flag, flags_of, from_text
from exporter.settings.parsing import PROGRAM, Argument, Command, overview, parser_of
from exporter.simulator.options import DEMO_DEFAULTS, Options

_Result = TypeVar("_Result")

_SETTINGS: Final = flags_of(Config)
_HELP: Final = "help"
# Where the runtime is.
_PLACE: Final = ("runtime_endpoint", "host_root", "pod_uid")
_PAGES: Final = ("web_listen_address", "web_probe_address", "web_config_file")
_CONDITIONS: Final = tuple(each.value for each in Condition)
_NONE: Final[Mapping[str, str]] = MappingProxyType({})
ABOUT: Final = """\
Is the CRI event stream of this node complete? A shadow relist beside it, and
the difference as metrics."""


def run(arguments: Sequence[str]) -> bool:
    """Run the command that the arguments name; returns whether it succeeded."""
    given = _given(arguments)
    return COMMANDS[given.command].run(given)


def _given(arguments: Sequence[str]) -> argparse.Namespace:
    """What was given, and the `command`; the parser does not outlive this."""
    name, *rest = arguments or [""]
    if name == _HELP and rest:
        arguments, name, rest = rest[:1], rest[0], ["--help"]
    if name not in COMMANDS:
        overview(COMMANDS, ABOUT, _version(), arguments)
    given = parser_of(name, COMMANDS[name]).parse(rest)
    given.command = name
    return given


def _version() -> str:
    import platform

    built = Path(__file__).with_name("commit.txt")
    commit = built.read_text(encoding="ascii").strip() if built.exists() else "unknown"
    where = f"Python {platform.python_version()}, {platform.platform()}"
    return f"{PROGRAM} {__version__} (commit {commit}, {where})"


def _only(*names: str) -> tuple[Flag, ...]:
    """The settings whose names begin with one of these."""
    return tuple(flag for flag in _SETTINGS if flag.name.startswith(names))


def _not_in_demo() -> tuple[Flag, ...]:
    # The demo's runtime has no kubelet, and cgroups of its own.
    return _only(*_PLACE, "web_config_file", "kubelet_", "cgroup_")


def _without(left_out: Sequence[Flag], defaults: Mapping[str, str] = _NONE) -> tuple[Flag, ...]:
    names = {flag.name for flag in left_out}
    return tuple(flag for flag in flags_of(Config, defaults) if flag.name not in names)


def _config(given: argparse.Namespace, defaults: Mapping[str, str] = _NONE) -> Config:
    # Only the command's own flags configure how the embedded runtime is watched: ignore the rest.
    ignored = {flag.env for flag in _not_in_demo()} if defaults else frozenset[str]()
    environ = {name: text for name, text in os.environ.items() if name not in ignored}
    config = from_text(Config, vars(given), environ, defaults)
    return config if config.node_name else replace(config, node_name=socket.gethostname())


def _set_up_log(config: Config, *, slowly: bool = False) -> None:
    from exporter.process.log import set_up_log

    set_up_log(config.log_level, config.log_format, slowly=slowly)


def _finish(command: Coroutine[Any, Any, _Result]) -> _Result:
    import asyncio

    return asyncio.run(command)


def _serve(given: argparse.Namespace) -> bool:
    config = _config(given)
    from exporter.process.loading import load_little

    load_little(tls=bool(config.web_config_file or config.kubelet_metrics_url))
    _set_up_log(config)
    from exporter.daemon import serve

    _finish(serve(config))
    return True


def _check(given: argparse.Namespace) -> bool:
    config, options = _config(given), from_text(CheckOptions, vars(given))
    from exporter.commands.check import check

    return _finish(check(config, options.output_format))


def _health(given: argparse.Namespace) -> bool:
    config = _config(given)
    from exporter.commands.health import healthy

    return healthy(config)


def _condition(given: argparse.Namespace) -> bool:
    # A problem of this process must not be taken for one of the node.
    try:
        config = _config(given)
        from exporter.commands.condition import holds

        return not holds(config, Condition(given.condition))
    except UnknownError:
        raise
    except Exception as error:
        raise UnknownError(f"not known: {error}"[:MOST_CHARACTERS]) from error


def _filter(given: argparse.Namespace) -> bool:
    config, options = _config(given), from_text(FilterOptions, vars(given))
    _set_up_log(config)
    from exporter.commands.filter import run_filter

    _finish(run_filter(config, options))
    return True


def _record(given: argparse.Namespace) -> bool:
    config, options = _config(given), from_text(RecordOptions, vars(given))
    _set_up_log(config)
    from exporter.commands.record import record

    _finish(record(config, options))
    return True


def _replay(given: argparse.Namespace) -> bool:
    options = from_text(ReplayOptions, vars(given))
    from exporter.commands.replay import replay

    return replay(Path(given.file), options)


def _demo(given: argparse.Namespace) -> bool:
    config = _config(given, DEMO_DEFAULTS)
    options = from_text(Options, vars(given), defaults=DEMO_DEFAULTS)
    _set_up_log(config, slowly=True)
    from exporter.commands.demo import demo

    _finish(demo(config, options))
    return True


def _simulate(given: argparse.Namespace) -> bool:
    options = from_text(Options, vars(given))
    where = from_text(SimulateOptions, vars(given))
    config = _config(given, DEMO_DEFAULTS)
    _set_up_log(config)
    from exporter.commands.demo import simulate

    _finish(simulate(where.socket, options, where.cgroup_root))
    return True


def _report(given: argparse.Namespace) -> bool:
    request = from_text(Request, vars(given), os.environ)
    from exporter.commands.report import report

    return _finish(report(request))


COMMANDS: Final[Mapping[str, Command]] = {
    "serve": Command(
        _serve, "watch this node and export metrics (what the DaemonSet runs)", _SETTINGS
    ),
    "check": Command(
        _check,
        "say whether this node can be watched, and what to do if not",
        flags_of(CheckOptions)
        + _only(*_PLACE, "event_stream", "relist_timeout", "kernel_", "cgroup_", "kubelet_"),
    ),
    "health": Command(
        _health, "ask a running serve on this machine whether it is alive", _only(*_PAGES)
    ),
    "condition": Command(
        _condition,
        "ask a running serve on this machine whether a node condition holds",
        _only(*_PAGES),
        Argument("condition", " or ".join(_CONDITIONS), _CONDITIONS),
        "Exit codes: 0 the condition does not hold, 1 it does, 2 that is not known.",
    ),
    "filter": Command(
        _filter,
        "offer the calls that serve needs on a socket, and deny all others",
        flags_of(FilterOptions) + _only(*_PLACE, "watchdog_timeout", "log_"),
    ),
    "record": Command(
        _record,
        "watch this node and write all facts into a file, for a bug report",
        flags_of(RecordOptions) + _without(_only("evidence_", "web_")),
    ),
    "replay": Command(
        _replay,
        "judge a recording again, and say why",
        flags_of(ReplayOptions),
        Argument("file", "a file that `shadow-pleg record` wrote"),
    ),
    "report": Command(
        _report,
        "judge a fleet by what Prometheus has recorded: go or no-go",
        flags_of(Request),
    ),
    "demo": Command(
        _demo,
        "serve against an embedded runtime that loses events",
        flags_of(Options, DEMO_DEFAULTS) + _without(_not_in_demo(), DEMO_DEFAULTS),
    ),
    "simulate": Command(
        _simulate,
        "run the embedded runtime alone, on a socket",
        flags_of(SimulateOptions) + flags_of(Options),
    ),
}
