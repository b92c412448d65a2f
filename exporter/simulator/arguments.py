"""The embedded runtime's options as flags of `demo` and `simulate`."""

from __future__ import annotations

import argparse
from dataclasses import fields, replace
from enum import Enum
from typing import Any, Final

from exporter.errors import ConfigError
from exporter.settings.flags import duration
from exporter.simulator.options import Options

_DURATIONS: Final = frozenset({"delay", "disconnect_every", "restart_every", "list_latency"})


def add_options(parser: argparse.ArgumentParser, defaults: Options) -> None:
    """Add a flag for each option; the help shows its default."""
    for option in fields(Options):
        default = getattr(defaults, option.name)
        shown, metavar = getattr(default, "value", default), "NUMBER"
        if option.name in _DURATIONS:
            shown, metavar = f"{default * 1000:g}ms" if default else "0", "DURATION"
        elif isinstance(default, Enum):
            metavar = _choices(type(default))
        parser.add_argument(
            "--" + option.name.replace("_", "-"),
            dest=f"option_{option.name}",
            metavar=metavar,
            help=f"{option.metadata['help']} (default: {shown})",
        )


def _choices(kind: type[Enum]) -> str:
    return "|".join(str(member.value) for member in kind)


def options_of(given: argparse.Namespace, defaults: Options) -> Options:
    """The defaults, overridden by the flags given; ConfigError names the flag."""
    values = {}
    for option in fields(Options):
        text = getattr(given, f"option_{option.name}")
        if text is not None:
            flag = "--" + option.name.replace("_", "-")
            values[option.name] = _option(flag, text, getattr(defaults, option.name))
    try:
        return replace(defaults, **values)
    except ValueError as error:
        name, _, problem = str(error).partition(":")
        raise ConfigError(f"--{name.replace('_', '-')}:{problem}") from None


def _option(flag: str, text: str, default: object) -> Any:  # noqa: ANN401 - of the default's type
    kind = type(default)
    try:
        if flag.strip("-").replace("-", "_") in _DURATIONS:
            # The embedded runtime also accepts times as plain seconds.
            return duration(f"{text}s" if text.replace(".", "", 1).isdigit() else text)
        return kind(text)  # type: ignore[call-arg] # int, float or an Enum
    except ConfigError as error:
        raise ConfigError(f"{flag}: {error}") from None
    except ValueError:
        allowed = f"one of {_choices(kind)}" if issubclass(kind, Enum) else "a number"
        raise ConfigError(f"{flag}: {text!r} is not {allowed}") from None
