"""Commands and their flags: declared once, shown in the help, parsed from a command line.

Flags are fields of a frozen dataclass, whose `GROUPS` maps the first field of each group of flags
to the group's title. Flags of the group `REQUIRED` must be given.
"""

import argparse
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass, field, fields, replace
from enum import Enum
from types import MappingProxyType
from typing import Any, Final, NoReturn, TypeVar

from exporter.errors import ConfigError, say

_T = TypeVar("_T")
_KEY: Final = "flag"
_NOTHING: Final[Mapping[str, str]] = MappingProxyType({})
REQUIRED: Final = "required"
PROGRAM: Final = "shadow-pleg"
_OTHERS: Final = "flags"
_ENDINGS: Final = "Exit codes: 0 done or stopped by a signal, 1 failed, 2 bad usage or settings."


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


@dataclass(frozen=True, slots=True)
class Argument:
    """The positional argument of a command; without `choices`, any text is valid."""

    name: str
    text: str
    choices: tuple[str, ...] | None = None


@dataclass(frozen=True, slots=True)
class Command:
    """One command."""

    run: Callable[[argparse.Namespace], bool]
    # What it does, in at most 66 characters.
    text: str
    flags: tuple[Flag, ...] = ()
    argument: Argument | None = None
    endings: str = _ENDINGS


class Parser(argparse.ArgumentParser):
    """A parser that reports an error in one line, and suggests similar names."""

    def __init__(self, prog: str, *needed: str) -> None:
        usage = " ".join((prog, *needed, "[flags]"))
        super().__init__(prog, usage, allow_abbrev=False, add_help=False)
        self.formatter_class = argparse.RawDescriptionHelpFormatter
        self._groups: dict[str, argparse._ArgumentGroup] = {}
        self._names = ["--help"]

    def add(self, flags: Iterable[Flag]) -> None:
        """Add these flags, with their defaults and variables in the help, and then `--help`."""
        for each in flags:
            default = f"default: {each.default}" if each.default else ""
            notes = "; ".join(filter(None, (default, each.env and f"env: {each.env}")))
            text = (f"{each.help} ({notes})" if notes else each.help).replace("%", "%%")
            group = self.group(each.group)
            if each.metavar:
                group.add_argument(each.flag, dest=each.name, metavar=each.metavar, help=text)
            else:
                group.add_argument(
                    each.flag, dest=each.name, action="store_const", const="yes", help=text
                )
            self._names.append(each.flag)
        self.group().add_argument("-h", "--help", action="help", help="show this, and exit")

    def group(self, title: str = "") -> argparse._ArgumentGroup:
        """The group of that title; groups are shown in the order of their first use."""
        title = title or _OTHERS
        if title not in self._groups:
            self._groups[title] = self.add_argument_group(title)
        return self._groups[title]

    def parse(self, arguments: Sequence[str]) -> argparse.Namespace:
        """Parse the arguments; ConfigError names an unknown one."""
        given, unknown = self.parse_known_args(arguments)
        if unknown:
            word = unknown[0].partition("=")[0]
            kind = "unknown flag" if word.startswith("-") else "unexpected argument"
            self.error(f"{kind} {word}{similar(word, self._names)}")
        return given

    def _print_message(self, message: str, file: object = None) -> None:  # noqa: ARG002 - argparse's
        """Print help or version; argparse itself ignores that it cannot."""
        say(message)

    def error(self, message: str) -> NoReturn:
        """Raise a ConfigError: one line, which names the flag."""
        said = message.removeprefix("argument ")
        said = said.replace("expected one argument", "give a value, after = if it begins with -")
        raise ConfigError(f"{said} (see: {self.prog} --help)")


def parser_of(name: str, command: Command) -> Parser:
    """The parser of that command."""
    argument = command.argument
    needed = [f"{each.flag} {each.metavar}" for each in command.flags if each.group == REQUIRED]
    if argument:
        needed.append(argument.name.upper())
    parser = Parser(f"{PROGRAM} {name}", *needed)
    parser.description = f"{command.text[0].upper()}{command.text[1:]}."
    parser.epilog = command.endings
    if argument:
        parser.group("arguments").add_argument(
            argument.name,
            metavar=argument.name.upper(),
            choices=argument.choices,
            help=argument.text,
        )
    parser.add(command.flags)
    return parser


def overview(
    commands: Mapping[str, Command], about: str, version: str, arguments: Sequence[str]
) -> NoReturn:
    """Print help or version, or raise ConfigError, if no known command comes first."""
    parser = Parser(PROGRAM, "COMMAND")
    listed = "\n".join(f"  {name:<12}{each.text}" for name, each in commands.items())
    parser.description = f"{about}\n\ncommands:\n{listed}"
    parser.epilog = f"`{PROGRAM} COMMAND --help` shows the flags of a command.\n{_ENDINGS}"
    parser.add(())
    parser.group().add_argument(
        "--version", action="version", version=version, help="show the version, and exit"
    )
    parser.parse_known_args(arguments)
    word = arguments[0] if arguments else ""
    if not word or word.startswith("-"):
        parser.error("name a command first, like serve")
    parser.error(f"unknown command {word}{similar(word, commands)}")


def similar(word: str, known: Iterable[str]) -> str:
    """`, did you mean ...?` with the known word most like this one; empty if none is."""
    import difflib  # noqa: PLC0415 - only mistakes need it

    found = difflib.get_close_matches(word, list(known), 1)
    return f", did you mean {found[0]}?" if found else ""
