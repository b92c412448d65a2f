"""Flags as fields of a frozen dataclass: declared once, shown by `--help`, and parsed from text."""

import argparse
from collections.abc import Callable, Iterable, Mapping
from dataclasses import dataclass, field, fields, replace
from enum import Enum
from types import MappingProxyType
from typing import Any, Final, TypeVar

from exporter.errors import ConfigError

_T = TypeVar("_T")
_KEY: Final = "flag"
_NOTHING: Final[Mapping[str, str]] = MappingProxyType({})


@dataclass(frozen=True, slots=True)
class Flag:
    """One flag. `name`: its field; `env`: "" if no variable sets it; no `metavar`: a switch."""

    name: str
    flag: str
    env: str
    default: str
    metavar: str
    help: str
    parse: Callable[[str], Any]


def flag(usage: str, default: str, parse: Callable[[str], _T], meaning: str, env: str = "") -> _T:
    """A field for a flag with that usage, like `relist-period DURATION`, and default text.

    The words of an Enum need not be listed in `usage`.
    """
    value = parse(default)
    name, _, metavar = usage.partition(" ")
    if isinstance(value, Enum):
        metavar = "|".join(str(choice.value) for choice in type(value))
    declared = Flag("", f"--{name}", env, default, metavar, meaning, parse)
    return field(default=value, metadata={_KEY: declared})


def setting(
    usage: str, default: str, parse: Callable[[str], _T], meaning: str, env: str = ""
) -> _T:
    """A field for a flag that an environment variable can set, too."""
    name = usage.partition(" ")[0].upper().replace("-", "_").replace(".", "_")
    return flag(usage, default, parse, meaning, env or f"SHADOW_PLEG_{name}")


def switch(name: str, meaning: str) -> bool:
    """A field for a flag without a value: False if it is not given."""
    return flag(name, "", bool, meaning)


def flags_of(cls: type, defaults: Mapping[str, str] = _NOTHING) -> tuple[Flag, ...]:
    """The flags of a dataclass in order, with other defaults for some fields."""
    declared = [(each.name, each.metadata[_KEY]) for each in fields(cls)]
    return tuple(
        replace(flag, name=name, default=defaults.get(name, flag.default))
        for name, flag in declared
    )


def add_flags(parser: argparse.ArgumentParser, flags: Iterable[Flag]) -> None:
    """Let the parser take these flags, with their defaults and variables in its `--help`."""
    for each in flags:
        default = f"default: {each.default}" if each.default else ""
        notes = "; ".join(filter(None, (default, each.env and f"env: {each.env}")))
        text = (f"{each.help} ({notes})" if notes else each.help).replace("%", "%%")
        if each.metavar:
            parser.add_argument(each.flag, dest=each.name, metavar=each.metavar, help=text)
        else:
            parser.add_argument(
                each.flag, dest=each.name, action="store_const", const="yes", help=text
            )


def from_text(
    cls: type[_T],
    given: Mapping[str, str | None],
    environ: Mapping[str, str] = _NOTHING,
    defaults: Mapping[str, str] = _NOTHING,
) -> _T:
    """An instance from texts by field name, else from variables; ConfigError names the source.

    An empty variable is unset. `defaults` replace those of the fields.
    """
    values: dict[str, Any] = {}
    for each in flags_of(cls):
        source, text = each.flag, given.get(each.name)
        if text is None:
            source, text = each.env, environ.get(each.env) or defaults.get(each.name)
        if text is None:
            continue
        try:
            values[each.name] = each.parse(text)
        except ConfigError as error:
            raise ConfigError(f"{source}: {error}") from None
    return cls(**values)
