"""Flags as fields of a frozen dataclass: declared once, and parsed from text.

`GROUPS` of the class says at which fields the groups of its flags begin, and their titles; a flag
of the group `REQUIRED` must be given.
"""

from collections.abc import Callable, Mapping
from dataclasses import dataclass, field, fields, replace
from enum import Enum
from types import MappingProxyType
from typing import Any, Final, TypeVar

from exporter.errors import ConfigError

_T = TypeVar("_T")
_KEY: Final = "flag"
_NOTHING: Final[Mapping[str, str]] = MappingProxyType({})
# The title of a group.
REQUIRED: Final = "required"


@dataclass(frozen=True, slots=True)
class Flag:
    """One flag. `name`: its field; `env`: "" if no variable sets it; no `metavar`: a switch.

    `group`: "" if its class has no groups.
    """

    name: str
    flag: str
    env: str
    default: str
    metavar: str
    help: str
    parse: Callable[[str], Any]
    group: str = ""


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
    group, groups, found = "", getattr(cls, "GROUPS", _NOTHING), []
    for each in fields(cls):
        declared: Flag = each.metadata[_KEY]
        group = groups.get(each.name, group)
        default = defaults.get(each.name, declared.default)
        found.append(replace(declared, name=each.name, default=default, group=group))
    return tuple(found)


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
