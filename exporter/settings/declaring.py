"""Flags as fields of a frozen dataclass: declared once, and parsed from text.

The class's `GROUPS` maps the first field of each group of flags to the group's title. Flags of the
group `REQUIRED` must be given.
"""

from collections.abc import Callable, Iterator, Mapping
from dataclasses import dataclass, field, fields, replace
from enum import Enum
from types import MappingProxyType
from typing import Any, Final, TypeVar

from exporter.errors import ConfigError

_T = TypeVar("_T")
_KEY: Final = "flag"
_NOTHING: Final[Mapping[str, str]] = MappingProxyType({})
REQUIRED: Final = "required"


@dataclass(frozen=True, slots=True)
class Flag:
    """One flag, with its default as text."""

    # The name of its field.
    name: str
    flag: str
    # The environment variable that also sets it; may be empty.
    env: str
    default: str
    # Empty for a switch.
    metavar: str
    help: str
    parse: Callable[[str], Any]
    group: str = ""


def flag(usage: str, default: str, parse: Callable[[str], _T], meaning: str, env: str = "") -> _T:
    """A field for a flag with that usage, like `relist-period DURATION`, and default text.

    `usage` need not list the words of an Enum.
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
    """A field for a flag that an environment variable can also set."""
    name = usage.partition(" ")[0].upper().replace("-", "_").replace(".", "_")
    return flag(usage, default, parse, meaning, env or f"SHADOW_PLEG_{name}")


def switch(name: str, meaning: str) -> bool:
    """A field for a flag without a value: False if it is not given."""
    return flag(name, "", bool, meaning)


def flags_of(cls: type, defaults: Mapping[str, str] = _NOTHING) -> tuple[Flag, ...]:
    """The flags of a dataclass in order; `defaults` replaces the defaults of some fields."""
    group, groups, found = "", getattr(cls, "GROUPS", _NOTHING), []
    for each in fields(cls):
        declared: Flag = each.metadata[_KEY]
        group = groups.get(each.name, group)
        default = defaults.get(each.name, declared.default)
        found.append(replace(declared, name=each.name, default=default, group=group))
    return tuple(found)


def resolved(
    cls: type,
    given: Mapping[str, str | None],
    environ: Mapping[str, str] = _NOTHING,
    defaults: Mapping[str, str] = _NOTHING,
) -> Iterator[tuple[Flag, str, str]]:
    """Each flag, its text, and the source of the text: the flag, its variable, or `default`.

    `given`, by field name, comes first, then a variable that is not empty, then the default.
    """
    for each in flags_of(cls, defaults):
        if (text := given.get(each.name)) is not None:
            yield each, text, each.flag
        elif text := environ.get(each.env):
            yield each, text, each.env
        else:
            yield each, each.default, "default"


def from_text(
    cls: type[_T],
    given: Mapping[str, str | None],
    environ: Mapping[str, str] = _NOTHING,
    defaults: Mapping[str, str] = _NOTHING,
) -> _T:
    """An instance from these texts; a ConfigError names the source of a wrong text."""
    values: dict[str, Any] = {}
    for each, text, source in resolved(cls, given, environ, defaults):
        try:
            values[each.name] = each.parse(text)
        except ConfigError as error:
            raise ConfigError(f"{source}: {error}") from None
    return cls(**values)
