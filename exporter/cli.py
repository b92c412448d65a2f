"""Parses argv into settings and runs the command.

Subcommands and the text of `--help`; exit codes are in `__main__`.
"""

from __future__ import annotations

import argparse
import asyncio
import os
import socket
from collections.abc import Callable, Mapping, Sequence
from dataclasses import replace
from pathlib import Path
from types import MappingProxyType
from typing import Final, NoReturn

from exporter import __version__
from exporter.commands.check import OutputFormat, check
from exporter.commands.health import healthy
from exporter.daemon import serve
from exporter.errors import ConfigError
from exporter.process.log import set_up_log
from exporter.report.options import choices
from exporter.report.options import from_text as request_from_text
from exporter.settings.config import Config, from_text, settings
from exporter.settings.flags import byte_count, positive_duration, socket_path
from exporter.simulator.arguments import add_options, options_of
from exporter.simulator.options import DEMO, DEMO_SETTINGS, Options

_Command = Callable[[argparse.Namespace], bool]

_KUBELET: Final = tuple(s.name for s in settings() if s.name.startswith("kubelet_"))
# The demo's runtime has no kubelet.
_NOT_IN_DEMO: Final = ("runtime_endpoint", "web_config_file", *_KUBELET)
# `record` serves no pages, and keeps everything, not only misses.
_WEB: Final = ("web_listen_address", "web_telemetry_path", "web_config_file", "web_probe_address")
_NOT_FOR_RECORD: Final = ("evidence_dir", "evidence_max_bytes", *_WEB)
_ENDINGS: Final = (
    "Exit codes: 0 done or stopped by a signal, 1 failed, 2 bad usage or configuration."
)


class _Parser(argparse.ArgumentParser):
    """An ArgumentParser that reports errors in one line."""

    def error(self, message: str) -> NoReturn:
        raise ConfigError(f"{message} (see: {self.prog} --help)")


def run(arguments: Sequence[str]) -> bool:
    """Run the command that the arguments name; returns whether it succeeded."""
    given = _parser().parse_args(arguments)
    command: _Command = given.command
    return command(given)


def _parser() -> argparse.ArgumentParser:
    parser = _Parser(
        prog="shadow-pleg",
        description="Is the CRI event stream of this node complete? A shadow relist beside it,"
        " and the difference as metrics.",
        epilog=_ENDINGS,
        allow_abbrev=False,
    )
    parser.add_argument("--version", action="version", version=f"shadow-pleg {__version__}")
    commands = parser.add_subparsers(title="commands", metavar="COMMAND", required=True)
    for name, command, text, add_flags in (
        ("serve", _serve, "watch this node and export metrics (the DaemonSet)", _add_settings),
        (
            "check",
            _check,
            "say whether this node can be watched, and what to do if not",
            _add_check,
        ),
        ("health", _health, "ask a running serve on this machine whether it lives", _add_health),
        (
            "record",
            _record,
            "watch this node and write all that is learnt into a file, for a report",
            _add_record,
        ),
        ("replay", _replay, "judge a recording again, and say why", _add_replay),
        ("demo", _demo, "serve against an embedded runtime that loses events", _add_demo),
        ("simulate", _simulate, "run the embedded runtime alone, on a socket", _add_simulate),
        (
            "report",
            _report,
            "judge a whole fleet by what Prometheus has recorded: go, no-go, or not known yet",
            _add_report,
        ),
    ):
        sub = commands.add_parser(
            name,
            help=text,
            description=text[0].upper() + text[1:] + ".",
            epilog=_ENDINGS,
            allow_abbrev=False,
        )
        add_flags(sub)
        sub.set_defaults(command=command)
    return parser


def _add_settings(
    parser: argparse.ArgumentParser,
    leave_out: Sequence[str] = (),
    defaults: Mapping[str, str] = MappingProxyType({}),
) -> None:
    for setting in settings():
        if setting.name in leave_out:
            continue
        text = setting.metadata
        shown = defaults.get(setting.name, text["default"])
        notes = f"default: {shown}; env: {text['env']}" if shown else f"env: {text['env']}"
        parser.add_argument(
            text["flag"],
            dest=setting.name,
            metavar=text["metavar"],
            help=f"{text['help']} ({notes})".replace("%", "%%"),
        )


def _add_check(parser: argparse.ArgumentParser) -> None:
    wanted = ("runtime_endpoint", "relist_timeout", "event_stream", *_KUBELET)
    unused = [setting.name for setting in settings() if setting.name not in wanted]
    _add_settings(parser, leave_out=unused)
    parser.add_argument(
        "--output",
        choices=[form.value for form in OutputFormat],
        default=OutputFormat.TEXT.value,
        help="form of the answer (default: text)",
    )


def _add_health(parser: argparse.ArgumentParser) -> None:
    wanted = ("web_listen_address", "web_probe_address", "web_config_file")
    _add_settings(parser, [setting.name for setting in settings() if setting.name not in wanted])


def _add_record(parser: argparse.ArgumentParser) -> None:
    _add_settings(parser, _NOT_FOR_RECORD)
    for flag, default, text in (
        ("--output", "", "new file to write, gzip of JSON lines, like node.jsonl.gz; needed"),
        ("--duration", "", "time to record; if not given, until a signal comes"),
        ("--max-bytes", "64MiB", "size of the file at which the recording ends"),
    ):
        shown = f" (default: {default})" if default else ""
        parser.add_argument(
            flag, default=default, metavar=flag.rsplit("-", 1)[-1].upper(), help=text + shown
        )
    parser.add_argument(
        "--redact",
        action="store_true",
        help="write pseudonyms for ids, names, namespaces and uids, which cannot be traced back",
    )
    parser.add_argument(
        "--with-node-name", action="store_true", help="write the node's name into the file"
    )


def _add_replay(parser: argparse.ArgumentParser) -> None:
    parser.add_argument("file", metavar="FILE", help="a file that `shadow-pleg record` wrote")
    parser.add_argument(
        "--explain",
        default="",
        metavar="CONTAINER",
        help="tell the story of this container or sandbox, with the reasons: its id, the"
        " beginning of one, or a container's name",
    )
    parser.add_argument(
        "--output-format",
        choices=[form.value for form in OutputFormat],
        default=OutputFormat.TEXT.value,
        help="form of the answer (default: text)",
    )


def _add_demo(parser: argparse.ArgumentParser) -> None:
    _add_settings(parser, _NOT_IN_DEMO, DEMO_SETTINGS)
    add_options(parser, DEMO)


def _add_simulate(parser: argparse.ArgumentParser) -> None:
    parser.add_argument(
        "--socket",
        default="unix:///tmp/shadow-pleg.sock",
        help="socket to serve the runtime on (default: unix:///tmp/shadow-pleg.sock)",
    )
    add_options(parser, Options())


def _add_report(parser: argparse.ArgumentParser) -> None:
    for choice in choices():
        text = choice.metadata
        default = f" (default: {text['default']})" if text["default"] else ""
        parser.add_argument(
            text["flag"],
            dest=choice.name,
            metavar=text["metavar"],
            help=f"{text['help']}{default}".replace("%", "%%"),
        )


def _config(
    given: argparse.Namespace, defaults: Mapping[str, str] = MappingProxyType({})
) -> Config:
    texts = {s.name: text for s in settings() if (text := getattr(given, s.name, None)) is not None}
    environ = {s.metadata["env"]: defaults[s.name] for s in settings() if s.name in defaults}
    # Only the command's own flags configure how the embedded runtime is watched: ignore the rest.
    ignored = {s.metadata["env"] for s in settings() if defaults and s.name in _NOT_IN_DEMO}
    environ |= {name: text for name, text in os.environ.items() if text and name not in ignored}
    config = from_text(texts, environ)
    return config if config.node_name else replace(config, node_name=socket.gethostname())


def _serve(given: argparse.Namespace) -> bool:
    config = _config(given)
    set_up_log(config.log_level, config.log_format)
    asyncio.run(serve(config))
    return True


def _check(given: argparse.Namespace) -> bool:
    config = _config(given)
    return asyncio.run(check(config, OutputFormat(given.output)))


def _health(given: argparse.Namespace) -> bool:
    return healthy(_config(given))


def _record(given: argparse.Namespace) -> bool:
    config = _config(given)
    if not given.output:
        raise ConfigError("--output: name the file to write, like --output node.jsonl.gz")
    if given.redact and given.with_node_name:
        raise ConfigError("--with-node-name: --redact hides names, leave one of the two out")
    from exporter.commands.record import Span, record  # noqa: PLC0415 - as above
    from exporter.recording.recorder import RecordOptions  # noqa: PLC0415 - `serve` writes no recording

    flag = "--max-bytes"
    try:
        wish = RecordOptions(Path(given.output), byte_count(given.max_bytes), given.redact)
        flag = "--duration"
        seconds = positive_duration(given.duration) if given.duration else 0.0
    except ConfigError as error:
        raise ConfigError(f"{flag}: {error}") from None
    set_up_log(config.log_level, config.log_format)
    asyncio.run(record(config, wish, Span(seconds, given.with_node_name)))
    return True


def _replay(given: argparse.Namespace) -> bool:
    from exporter.commands.replay import replay  # noqa: PLC0415 - as above

    as_json = OutputFormat(given.output_format) is OutputFormat.JSON
    return replay(Path(given.file), given.explain, as_json=as_json)


def _demo(given: argparse.Namespace) -> bool:
    config = _config(given, DEMO_SETTINGS)
    options = options_of(given, DEMO)
    set_up_log(config.log_level, config.log_format)
    from exporter.commands.demo import demo  # noqa: PLC0415 - `serve` has no use for a runtime

    asyncio.run(demo(config, options))
    return True


def _simulate(given: argparse.Namespace) -> bool:
    options = options_of(given, Options())
    try:
        path = socket_path(given.socket)
    except ConfigError as error:
        raise ConfigError(f"--socket: {error}") from None
    config = _config(given, DEMO_SETTINGS)
    set_up_log(config.log_level, config.log_format)
    from exporter.commands.demo import simulate  # noqa: PLC0415 - as above

    asyncio.run(simulate(path, options))
    return True


def _report(given: argparse.Namespace) -> bool:
    texts = {c.name: text for c in choices() if (text := getattr(given, c.name)) is not None}
    request = request_from_text(texts)
    from exporter.commands.report import report  # noqa: PLC0415 - as above

    return asyncio.run(report(request))
