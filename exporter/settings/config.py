"""The configuration: every flag of `serve`, its variable, default and help text.

A single frozen dataclass, always valid once constructed. Parsers are in `flags`.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping
from dataclasses import Field, dataclass, field, fields
from enum import Enum
from pathlib import Path
from typing import Any, Final

from exporter.errors import ConfigError
from exporter.settings import flags

DEFAULT_SOCKETS: Final = (
    Path("/run/containerd/containerd.sock"),
    Path("/run/crio/crio.sock"),
    Path("/var/run/cri-dockerd.sock"),
)


class EventStream(Enum):
    """When to subscribe to the runtime's events."""

    AUTO = "auto"
    ALWAYS = "always"
    NEVER = "never"


class KubeletTls(Enum):
    """Whether the kubelet's certificate must be trusted."""

    VERIFY = "verify"
    INSECURE_SKIP_VERIFY = "insecure-skip-verify"


class LogLevel(Enum):
    """The lowest severity that is logged."""

    DEBUG = "debug"
    INFO = "info"
    WARN = "warn"
    ERROR = "error"


class LogFormat(Enum):
    """The format of a log line."""

    LOGFMT = "logfmt"
    JSON = "json"


def _flag(
    name: str,
    default: str,
    parse: Callable[[str], Any],
    meaning: str,
    *,
    env: str | None = None,
) -> Any:  # noqa: ANN401 - dataclasses.field is typed the same way
    variable = env or "SHADOW_PLEG_" + name.upper().replace("-", "_").replace(".", "_")
    text = {"flag": f"--{name}", "env": variable, "default": default, "help": meaning}
    value = parse(default)
    metavar = "PERCENT" if parse is flags.share else _metavar(value, name)
    return field(default=value, metadata={**text, "parse": parse, "metavar": metavar})


def _metavar(value: object, name: str) -> str:
    """The placeholder for the value in `--help`."""
    if isinstance(value, Enum):
        return "|".join(str(choice.value) for choice in type(value))
    if isinstance(value, float):
        return "DURATION"
    return name.replace(".", "-").rsplit("-", 1)[-1].upper()


def _optional_address(text: str) -> flags.ListenAddress | None:
    return flags.listen_address(text) if text else None


def _optional_socket(text: str) -> Path | None:
    return flags.socket_path(text) if text else None


@dataclass(frozen=True, slots=True, kw_only=True)
class Config:
    """All of `serve`'s settings. Durations are seconds; raises ConfigError if they conflict."""

    runtime_endpoint: Path | None = _flag(
        "runtime-endpoint",
        "",
        _optional_socket,
        "CRI socket of the runtime; if not given, the first that exists of "
        + ", ".join(f"unix://{path}" for path in DEFAULT_SOCKETS),
        env="CONTAINER_RUNTIME_ENDPOINT",
    )
    event_stream: EventStream = _flag(
        "event-stream",
        "auto",
        flags.one_of(EventStream),
        "when to subscribe to the runtime's events: auto subscribes only where a second subscriber"
        " is known to be safe, with --kubelet-metrics-url also while the kubelet is known not to"
        " use them; always subscribes regardless, and may take the kubelet's events; never only"
        " relists",
    )
    relist_period: float = _flag(
        "relist-period",
        "10s",
        flags.positive_duration,
        "pause between two relists, 10 % more or less",
    )
    relist_max_duty: float = _flag(
        "relist-max-duty",
        "1%",
        flags.share,
        "share of the time that relists may take; where the runtime is slower than that, the"
        " period is stretched, though never so far that /readyz would fail",
    )
    relist_timeout: float = _flag(
        "relist-timeout", "30s", flags.positive_duration, "time within which a relist must answer"
    )
    relist_threshold: float = _flag(
        "relist-threshold",
        "3m",
        flags.positive_duration,
        "age of the last successful relist at which /readyz turns to not ready",
    )
    missed_grace: float = _flag(
        "missed-grace",
        "5s",
        flags.duration,
        "time an announcement may lag behind the relist before it counts as missed",
    )
    stream_lease: float = _flag(
        "stream-lease",
        "60s",
        flags.duration,
        "deadline of each event subscription, renewed before it ends; the runtime enforces it even"
        " if the exporter freezes (0: no deadline)",
    )
    event_queue_capacity: int = _flag(
        "event-queue-capacity",
        "1000",
        flags.count,
        "events held before they are discarded, and counted as such",
    )
    watchdog_timeout: float = _flag(
        "watchdog-timeout",
        "10s",
        flags.duration,
        "time for which the event loop may stand still before the process dumps its stacks and"
        " ends itself, so that it cannot press back on the runtime (0: never)",
    )
    evidence_dir: Path | None = _flag(
        "evidence-dir",
        "",
        flags.folder,
        "folder in which evidence of missed events is kept as JSON lines; if not given, it is kept"
        " in memory only, for /debug/misses",
    )
    evidence_max_bytes: int = _flag(
        "evidence-max-bytes",
        "16MiB",
        flags.byte_count,
        "size up to which the files in --evidence-dir grow; the oldest evidence goes first",
    )
    web_listen_address: flags.ListenAddress = _flag(
        "web.listen-address", ":13386", flags.listen_address, "address to serve HTTP on"
    )
    web_telemetry_path: str = _flag(
        "web.telemetry-path", "/metrics", flags.url_path, "path of the metrics"
    )
    web_config_file: str = _flag(
        "web.config.file",
        "",
        str,
        "file with TLS, client certificates, headers and users of the HTTP face, in the format of"
        " Prometheus' exporter-toolkit; read again when it changes",
    )
    web_probe_address: flags.ListenAddress | None = _flag(
        "web.probe-address",
        "",
        _optional_address,
        "address to serve /livez and /readyz on, without TLS and users; if not given, they are"
        " served on --web.listen-address",
    )
    kubelet_metrics_url: str = _flag(
        "kubelet-metrics-url",
        "",
        flags.metrics_url,
        "metrics of this node's kubelet, like https://127.0.0.1:10250/metrics, to tell whether its"
        " gate EventedPLEG and the runtime fit together; if not given, the kubelet is not asked",
    )
    kubelet_metrics_period: float = _flag(
        "kubelet-metrics-period",
        "30s",
        flags.positive_duration,
        "pause between two readings of them; 2s or less while a stream that only one may have is"
        " taken because the kubelet leaves it",
    )
    kubelet_token_file: Path | None = _flag(
        "kubelet-token-file",
        "",
        flags.file,
        "file with the bearer token for them, read again for each request",
    )
    kubelet_ca_file: Path | None = _flag(
        "kubelet-ca-file",
        "",
        flags.file,
        "file with the CA of the kubelet's certificate, in PEM, read again when it changes; if"
        " not given, the system's CAs",
    )
    kubelet_tls: KubeletTls = _flag(
        "kubelet-tls",
        "verify",
        flags.one_of(KubeletTls),
        "insecure-skip-verify accepts any certificate, since many kubelets sign their own; a"
        " process that takes over the kubelet's address then gets the token",
    )
    node_name: str = _flag(
        "node-name",
        "",
        str,
        "name of this node, for logs and the landing page; if not given, the host's name",
        env="NODE_NAME",
    )
    log_level: LogLevel = _flag(
        "log.level", "info", flags.one_of(LogLevel), "least severe line logged"
    )
    log_format: LogFormat = _flag("log.format", "logfmt", flags.one_of(LogFormat), "log format")

    def __post_init__(self) -> None:
        if self.event_queue_capacity < 1:
            raise ConfigError("--event-queue-capacity: a queue holds at least 1 event")
        if min(self.relist_period, self.relist_timeout) <= 0 or self.missed_grace < 0:
            raise ConfigError("--relist-period, --relist-timeout: give a duration above zero")
        if not 0 < self.relist_max_duty <= 1:
            raise ConfigError("--relist-max-duty: give a share above 0% and up to 100%")
        if 0 < self.watchdog_timeout < 1:
            raise ConfigError(
                f"--watchdog-timeout: {self.watchdog_timeout:g}s is shorter than a second, a busy"
                " node would end the process for nothing: give at least 1s, or 0 for never"
            )
        if "\0" in self.web_config_file:
            raise ConfigError(f"--web.config.file: {self.web_config_file!r} is not a path")
        if self.web_probe_address == self.web_listen_address and self.web_listen_address.port:
            raise ConfigError(
                f"--web.probe-address: {self.web_probe_address} is also --web.listen-address:"
                " choose another port, or leave the flag out"
            )
        if 0 < self.stream_lease < 1:
            raise ConfigError(
                f"--stream-lease: {self.stream_lease:g}s is shorter than a second:"
                " give at least 1s, or 0 for no deadline"
            )
        flags.require_kubelet(
            self.kubelet_metrics_url,
            token=self.kubelet_token_file is not None,
            ca=self.kubelet_ca_file is not None,
            verify=self.kubelet_tls is KubeletTls.VERIFY,
        )
        if self.relist_threshold <= self.relist_period:
            raise ConfigError(
                f"--relist-threshold: {self.relist_threshold:g}s is not longer than --relist-period"
                f" ({self.relist_period:g}s), /readyz would fail between two relists: raise it"
            )


def settings() -> tuple[Field[Any], ...]:
    """The fields of `Config`, each with its flag, env, default, help and parse as metadata."""
    return fields(Config)


def from_text(given: Mapping[str, str], environ: Mapping[str, str]) -> Config:
    """Config from flags by field name, else from the environment; an empty variable is unset."""
    values: dict[str, Any] = {}
    for setting in settings():
        source, text = setting.metadata["flag"], given.get(setting.name)
        if text is None:
            source = setting.metadata["env"]
            text = environ.get(source) or None
        if text is None:
            continue
        try:
            values[setting.name] = setting.metadata["parse"](text)
        except ConfigError as error:
            raise ConfigError(f"{source}: {error}") from None
    return Config(**values)
