"""Parses argv into settings and runs the command.

It has the commands and the text of `--help`; exit codes are in `__main__`. Each command imports its
own code, asyncio included: a probe runs `health` again and again.
"""

import argparse
import os
import re
import socket
from collections.abc import Coroutine, Mapping, Sequence
from dataclasses import replace
from importlib.util import find_spec
from pathlib import Path
from types import MappingProxyType
from typing import Any, Final, TypeVar

from exporter import __version__
from exporter.commands.options import CheckOptions, RecordOptions, ServeOptions
from exporter.conditions.condition import NodeCondition
from exporter.errors import ConfigError, UnknownError, say
from exporter.settings.config import Config
from exporter.settings.declaring import (
    PROGRAM,
    Argument,
    Command,
    Flag,
    flags_of,
    from_text,
    overview,
    parser_of,
    resolved,
    similar,
)
from exporter.settings.routes import MOST_CHARACTERS

_Result = TypeVar("_Result")

_SETTINGS: Final = flags_of(Config)
_VARIABLES: Final = {each.env for each in _SETTINGS}
_OURS: Final = "SHADOW_PLEG_"
# The variables that Kubernetes sets for a Service whose name begins like our own.
_OF_A_SERVICE: Final = re.compile(r"_SERVICE_(HOST|PORT\w*)\Z|_PORT(_\d+_(TCP|UDP|SCTP)\w*)?\Z")
# The column in which `--print-config` says where a value comes from.
_COLUMN: Final = 50
_PAGES: Final = ("web_listen_address", "web_probe_address", "web_config_file")
_CONDITIONS: Final = tuple(each.value for each in NodeCondition)
_NONE: Final[Mapping[str, str]] = MappingProxyType({})
ABOUT: Final = """\
Check whether this node's CRI event stream is complete: compare it with a
shadow relist, and export the difference as metrics."""


def run(arguments: Sequence[str]) -> bool:
    """Run the command that the arguments name; returns whether it succeeded."""
    name, *rest = arguments or [""]
    command = _COMMANDS.get(name)
    if command is None:
        beside = _beside()
        if name not in beside:
            overview(all_commands(), ABOUT, _version(), arguments)
        # Load this command alone: `filter` must not load code that uses the network.
        command = beside[name].load()
    return command.run(parser_of(name, command).parse(rest))


def all_commands() -> dict[str, Command]:
    """The observer's commands, and those of the packages that are installed beside it."""
    return {**_COMMANDS, **{name: each.load() for name, each in _beside().items()}}


def _beside() -> dict[str, Any]:
    """The entry points of packages beside the observer; the image for nodes has only `filter`."""
    from importlib.metadata import entry_points

    beside = entry_points(group="shadow_pleg.commands")
    return {each.name: each for each in beside if find_spec(each.module.partition(".")[0])}


def _version() -> str:
    import platform

    built = Path(__file__).with_name("commit.txt")
    commit = built.read_text(encoding="ascii").strip() if built.exists() else "unknown"
    where = f"Python {platform.python_version()}, {platform.platform()}"
    return f"{PROGRAM} {__version__} (commit {commit}, {where})"


def only(*names: str) -> tuple[Flag, ...]:
    """The settings whose names begin with one of these."""
    return tuple(flag for flag in _SETTINGS if flag.name.startswith(names))


def without(left_out: Sequence[Flag], defaults: Mapping[str, str] = _NONE) -> tuple[Flag, ...]:
    """The settings except those left out, with these defaults."""
    names = {flag.name for flag in left_out}
    return tuple(flag for flag in flags_of(Config, defaults) if flag.name not in names)


def config_of(
    given: argparse.Namespace,
    defaults: Mapping[str, str] = _NONE,
    environ: Mapping[str, str] = os.environ,
) -> Config:
    """The settings of this run. ConfigError for an unknown variable with our own prefix."""
    for name in environ:
        if name.startswith(_OURS) and name not in _VARIABLES and not _OF_A_SERVICE.search(name):
            meant = f"--{name.removeprefix(_OURS).lower().replace('_', '-')}"
            like = similar(meant, (each.flag for each in _SETTINGS))
            raise ConfigError(f"unknown variable {name}{like} (see: {PROGRAM} serve --help)")
    config = from_text(Config, vars(given), environ, defaults)
    return config if config.node_name else replace(config, node_name=socket.gethostname())


def start_log(config: Config) -> None:
    """Set up the log as the settings say."""
    from exporter.process.log import set_up_log

    set_up_log(config.log_level, config.log_format)


def finish(command: Coroutine[Any, Any, _Result]) -> _Result:
    """Run the coroutine in an event loop of its own."""
    import asyncio

    return asyncio.run(command)


def _serve(given: argparse.Namespace) -> bool:
    config = config_of(given)
    if from_text(ServeOptions, vars(given)).print_config:
        _print_config(given, config)
        return True
    start_log(config)
    from exporter.daemon import serve

    finish(serve(config))
    return True


def _print_config(given: argparse.Namespace, config: Config) -> None:
    """Print each setting as a flag that a command line can take, and the source of its value."""
    defaults = {"node_name": config.node_name}
    for each, text, source in resolved(Config, vars(given), os.environ, defaults):
        say(f"{each.flag}={text}".ljust(_COLUMN) + f" # {source}\n")


def _check(given: argparse.Namespace) -> bool:
    config, options = config_of(given), from_text(CheckOptions, vars(given))
    from exporter.commands.check import check

    return finish(check(config, options.output_format))


def _health(given: argparse.Namespace) -> bool:
    config = config_of(given)
    from exporter.commands.health import healthy

    return healthy(config)


def _condition(given: argparse.Namespace) -> bool:
    # A problem of this process must not look like one of the node.
    try:
        config = config_of(given)
        from exporter.commands.health import holds

        return not holds(config, NodeCondition(given.condition))
    except UnknownError:
        raise
    except Exception as error:
        raise UnknownError(f"not known: {error}"[:MOST_CHARACTERS]) from error


def _record(given: argparse.Namespace) -> bool:
    config, options = config_of(given), from_text(RecordOptions, vars(given))
    start_log(config)
    from exporter.commands.record import record

    return finish(record(config, options))


_COMMANDS: Final[Mapping[str, Command]] = {
    "serve": Command(
        _serve,
        "on every node, in the DaemonSet: watch it and export metrics",
        _SETTINGS + flags_of(ServeOptions),
    ),
    "check": Command(
        _check,
        "before you install: say whether this node can be watched",
        flags_of(CheckOptions)
        + only(
            "runtime_endpoint", "event_stream", "relist_timeout", "kernel_", "cgroup_", "kubelet_"
        ),
    ),
    "health": Command(
        _health, "for a probe: ask whether the serve on this machine is alive", only(*_PAGES)
    ),
    "condition": Command(
        _condition,
        "for node-problem-detector: ask whether a node condition holds",
        only(*_PAGES),
        Argument("condition", " or ".join(_CONDITIONS), _CONDITIONS),
        "Exit codes: 0 the condition does not hold, 1 it does, 2 that is not known.",
    ),
    "record": Command(
        _record,
        "to report a bug: watch this node and write all facts to a file",
        flags_of(RecordOptions) + without(only("web_")),
    ),
}
