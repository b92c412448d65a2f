"""The configuration: every flag of `serve`, its variable, default and help text.

The parsers in `flags` check each text; the constructor checks how the values combine.
"""

from dataclasses import dataclass
from enum import Enum
from pathlib import Path
from typing import ClassVar

from exporter import RUNBOOKS
from exporter.errors import ConfigError
from exporter.runtimes.kubelets import PODS_API
from exporter.runtimes.permission import EventStream
from exporter.settings import flags
from exporter.settings.declaring import setting


class Watch(Enum):
    """When to observe the containers' cgroups, or the kubelet's pods."""

    AUTO = "auto"
    NEVER = "never"


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


@dataclass(frozen=True, slots=True, kw_only=True)
class Config:
    """All of `serve`'s settings. Durations are seconds; raises ConfigError if they conflict."""

    GROUPS: ClassVar = {
        "runtime_endpoint": "most used",
        "stream_lease": "event stream",
        "relist_max_duty": "relist",
        "kernel_witness": "kernel witness",
        "web_telemetry_path": "HTTP",
        "kubelet_pods": "kubelet",
        "watchdog_timeout": "process",
    }

    runtime_endpoint: Path | None = setting(
        "runtime-endpoint ENDPOINT",
        "",
        flags.optional(flags.socket_path),
        "CRI socket of the runtime; if not given, the only usual one that exists",
        env="CONTAINER_RUNTIME_ENDPOINT",
    )
    event_stream: EventStream = setting(
        "event-stream",
        "auto",
        flags.one_of(EventStream),
        "auto: subscribe if a second subscriber is safe; always: subscribe regardless, which may"
        " take events from the kubelet; never: relist only",
    )
    relist_period: float = setting(
        "relist-period DURATION",
        "10s",
        flags.positive_duration,
        "pause between two relists, with 10 % jitter",
    )
    missed_grace: float = setting(
        "missed-grace DURATION",
        "5s",
        flags.duration,
        "how long after its proof an event may be announced",
    )
    web_listen_address: flags.ListenAddress = setting(
        "web.listen-address ADDRESS", ":13386", flags.listen_address, "address to serve HTTP on"
    )
    web_config_file: str = setting(
        "web.config.file FILE",
        "",
        str,
        "TLS, client certificates, headers and users, in the format of Prometheus'"
        " exporter-toolkit; reloaded when it changes",
    )
    log_level: LogLevel = setting(
        "log.level", "info", flags.one_of(LogLevel), "lowest severity to log"
    )
    stream_lease: float = setting(
        "stream-lease DURATION",
        "60s",
        flags.duration,
        "deadline of a subscription, renewed before; the runtime enforces it even if the exporter"
        " is frozen (0: none)",
    )
    event_queue_capacity: int = setting(
        "event-queue-capacity NUMBER",
        "1000",
        flags.whole(1, 1_000_000),
        "length of the event queue; other events are dropped and counted",
    )
    relist_max_duty: float = setting(
        "relist-max-duty PERCENT",
        "1%",
        flags.positive_share,
        "largest share of time spent relisting; slow runtimes are relisted less often, but never"
        " so rarely that /readyz fails",
    )
    relist_timeout: float = setting(
        "relist-timeout DURATION", "30s", flags.positive_duration, "timeout of a relist"
    )
    relist_threshold: float = setting(
        "relist-threshold DURATION",
        "3m",
        flags.positive_duration,
        "age of the last successful relist at which /readyz fails",
    )
    kernel_witness: Watch = setting(
        "kernel-witness",
        "auto",
        flags.one_of(Watch),
        "auto: watch which containers have processes, if --cgroup-root shows the listed ones",
    )
    cgroup_root: Path = setting(
        "cgroup-root DIR",
        "/sys/fs/cgroup",
        flags.absolute_path("/sys/fs/cgroup"),
        "the node's cgroups, v1 or v2",
    )
    web_telemetry_path: str = setting(
        "web.telemetry-path PATH", "/metrics", flags.url_path, "path of the metrics"
    )
    web_probe_address: flags.ListenAddress | None = setting(
        "web.probe-address ADDRESS",
        "",
        flags.optional(flags.listen_address),
        "separate address for /livez, /readyz and /condition, without TLS and users",
    )
    web_debug_pages: bool = setting(
        "web.debug-pages true|false",
        "true",
        flags.truth,
        "serve pages and exemplars that name pods",
    )
    web_runbooks_url: str = setting(
        "web.runbooks-url URL",
        RUNBOOKS,
        flags.folder_url,
        "where the status page links to runbooks",
    )
    kubelet_pods: Watch = setting(
        "kubelet-pods",
        "auto",
        flags.one_of(Watch),
        "auto: watch the kubelet's pods, if it serves them and this process may connect (uid 0)",
    )
    kubelet_pods_endpoint: Path = setting(
        "kubelet-pods-endpoint ENDPOINT",
        "unix:///var/lib/kubelet/pods-api/pods-api.sock",
        flags.socket_path,
        f"socket of the kubelet's pods API: {PODS_API}",
    )
    watchdog_timeout: float = setting(
        "watchdog-timeout DURATION",
        "10s",
        flags.duration,
        "how long the event loop may hang before the process dumps its stacks and exits (0: no"
        " limit)",
    )
    node_name: str = setting(
        "node-name NAME",
        "",
        str,
        "name of this node in logs and pages; if not given, the host name",
        env="NODE_NAME",
    )
    log_format: LogFormat = setting("log.format", "logfmt", flags.one_of(LogFormat), "log format")

    def __post_init__(self) -> None:
        if 0 < self.watchdog_timeout < 1:
            raise ConfigError(
                f"--watchdog-timeout: {self.watchdog_timeout:g}s is shorter than a second, so a"
                " busy node would end the process for nothing: give at least 1s, or 0 for never"
            )
        if 0 < self.stream_lease < 1:
            raise ConfigError(
                f"--stream-lease: {self.stream_lease:g}s is shorter than a second:"
                " give at least 1s, or 0 for no deadline"
            )
        for name, seconds in (("period", self.relist_period), ("timeout", self.relist_timeout)):
            if self.relist_threshold <= seconds:
                raise ConfigError(
                    f"--relist-threshold: {self.relist_threshold:g}s is not longer than"
                    f" --relist-{name} ({seconds:g}s), /readyz would fail while relists work: raise"
                    " it"
                )
