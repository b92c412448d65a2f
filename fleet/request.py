"""The flags of `report`, and their parsers."""

import math
import re
import time
from dataclasses import dataclass
from datetime import datetime
from enum import Enum
from pathlib import Path
from typing import ClassVar, Final

from exporter.errors import ConfigError
from exporter.runtimes.kubelets import generation_of
from exporter.settings import flags
from exporter.settings.declaring import REQUIRED, flag

_LEAST_WINDOW: Final = 600
_MOST_WINDOW: Final = 366 * 86400
# Maximum number of slices per window; no slice is shorter than Prometheus' look-back.
_SLICES: Final = 336
_LEAST_SLICE: Final = 300
# Longer windows are read from recordings, where there are any, of a sample in five minutes: a slice
# needs three.
LONG: Final = 86400
_LEAST_LONG_SLICE: Final = 900
_NUMBER: Final = flags.whole(1, 10**12)
_LABEL = re.compile(r"[a-zA-Z_][a-zA-Z0-9_]*")


class ReportFormat(Enum):
    """The format of the report; text is Markdown without escapes."""

    TEXT = "text"
    MARKDOWN = "markdown"
    JSON = "json"


class FailOn(Enum):
    """Which verdicts make the exit code 1."""

    NEVER = "never"
    NO_GO = "no-go"
    NOT_GO = "not-go"


def _url(text: str) -> str:
    try:
        parts = flags.http_parts(text)
        good = parts and (parts.hostname or "").encode("idna") and not re.search(r"[?#]", text)
    except UnicodeError:
        good = False
    if text and not good:
        raise ConfigError(f"{text!r} is not a URL: write it like http://prometheus.example:9090")
    return text.rstrip("/")


def _version(text: str) -> str:
    if text and generation_of(text) is None:
        raise ConfigError(f"{text!r} is not the version of a known kubelet: write it like v1.36.0")
    return text


def _seconds(text: str) -> int:
    return int(flags.duration(text))


def _window(text: str) -> int:
    seconds = _seconds(text)
    if not _LEAST_WINDOW <= seconds <= _MOST_WINDOW:
        raise ConfigError(f"{text!r} is out of range: choose a window from 10m to 366d")
    return seconds


def _time(text: str) -> float:
    try:
        if re.fullmatch(r"[0-9]{1,11}", text):
            return float(text)
        moment = datetime.fromisoformat(text)
    except ValueError:
        moment = None
    if moment is None or moment.tzinfo is None or moment.year < 1970:  # noqa: PLR2004 - unix time
        raise ConfigError(
            f"{text!r} is not a time: write it like 2026-11-21T16:00:00Z, or in unix seconds"
        )
    return moment.timestamp()


def _objective(text: str) -> float:
    wanted = flags.positive_share(text)
    if wanted == 1:
        raise ConfigError(f"{text!r} can never be proven: give an objective below 100%, like 99.9%")
    # As the user wrote it: 99.9 % is 0.999, without floating-point noise.
    return round(wanted, 12)


def _matchers(text: str) -> str:
    if not text.isprintable() or "{" in text or "}" in text or text.count('"') % 2:
        raise ConfigError(
            f"{text!r} are no label matchers: write them without braces,"
            """ like job="shadow-pleg",cluster="prod\""""
        )
    return text.strip().rstrip(",")


def _labels(text: str) -> tuple[str, ...]:
    labels = tuple(label.strip() for label in text.split(",")) if text else ()
    if not all(_LABEL.fullmatch(label) for label in labels) or len(set(labels)) < len(labels):
        raise ConfigError(f"{text!r} are no label names: write them like node or cluster,node")
    return labels


@dataclass(frozen=True, slots=True)
class Span:
    """`slices` of `step` seconds, the last one ending at `end`: unix time, a multiple of `step`."""

    step: int
    slices: int
    end: int

    @property
    def seconds(self) -> int:
        """Its length."""
        return self.step * self.slices

    @property
    def start(self) -> int:
        """Unix time at which it begins."""
        return self.end - self.seconds


@dataclass(frozen=True, slots=True, kw_only=True)
class Request:
    """All of `report`'s settings. Times are unix seconds; raises ConfigError if they conflict."""

    GROUPS: ClassVar = {
        "prometheus_url": REQUIRED,
        "token_file": "Prometheus",
        "window": "what the report is about",
        "objective": "verdict",
        "output_format": "output",
    }

    prometheus_url: str = flag(
        "prometheus-url URL",
        "",
        _url,
        "Prometheus, or a server with its HTTP API",
        env="PROMETHEUS_URL",
    )
    token_file: Path | None = flag(
        "prometheus-token-file FILE",
        "",
        flags.optional(Path),
        "bearer token; a password can be in the URL",
    )
    ca_file: Path | None = flag(
        "prometheus-ca-file FILE",
        "",
        flags.optional(Path),
        "CAs to trust (PEM) instead of the system's",
    )
    query_timeout: float = flag(
        "query-timeout DURATION", "2m", flags.positive_duration, "timeout of each query"
    )
    window: int = flag("window DURATION", "7d", _window, "length of the window, from 10m to 366d")
    end: float | None = flag(
        "end TIME",
        "",
        flags.optional(_time),
        "end of the window, RFC 3339 or unix seconds; if not given, now",
    )
    selector: str = flag(
        "selector MATCHERS", "", _matchers, 'label matchers of the exporters, like cluster="prod"'
    )
    kubelet_selector: str = flag(
        "kubelet-selector MATCHERS", "", _matchers, "label matchers of the kubelets to be watched"
    )
    kubelet_version: str = flag(
        "kubelet-version VERSION",
        "",
        _version,
        "judge for this kubelet version, like v1.37.0; if not given, for those in Prometheus",
    )
    node_labels: tuple[str, ...] = flag(
        "node-labels LABELS",
        "",
        _labels,
        "labels that identify a node, its own last; if not given, cluster,node, or instance"
        " without a node label",
    )
    objective: float = flag(
        "objective PERCENT",
        "99.9%",
        _objective,
        "share of owed announcements that must arrive for a GO",
    )
    min_time: int = flag(
        "min-time DURATION",
        "1d",
        _seconds,
        "time that a verdict needs with --min-nodes subscribed at once",
    )
    min_nodes: int = flag(
        "min-nodes NUMBER", "3", _NUMBER, "nodes that a verdict needs at the same time"
    )
    min_transitions: int = flag(
        "min-transitions NUMBER",
        "1000",
        _NUMBER,
        "judged transitions that a verdict needs, of each runtime version and of all",
    )
    fail_on: FailOn = flag(
        "fail-on",
        "never",
        flags.one_of(FailOn),
        "verdicts that make the exit code 1; not-go: all but GO",
    )
    output_format: ReportFormat | None = flag(
        "output-format FORMAT",
        "",
        flags.optional(flags.one_of(ReportFormat)),
        "text, markdown (the same with escapes) or json; if not given, text on a terminal, else"
        " markdown",
    )

    def __post_init__(self) -> None:
        if not self.prometheus_url:
            raise ConfigError(
                "--prometheus-url: say where Prometheus is, like http://prometheus.example:9090"
            )
        # The clock of Prometheus' machine may be a little ahead of this one's.
        if self.at > time.time() + _LEAST_SLICE:
            raise ConfigError("--end: it has not come yet; without the flag, a window ends now")

    @property
    def allowed(self) -> float:
        """The share of losses that meets the objective."""
        return round(1 - self.objective, 12)

    @property
    def at(self) -> float:
        """When the reported period ends, before it is moved back to a whole slice."""
        return time.time() if self.end is None else self.end

    @property
    def span(self) -> Span:
        """The reported period, in whole slices whose ends are multiples of the step."""
        least = _LEAST_LONG_SLICE if self.window > LONG else _LEAST_SLICE
        step = max(least, math.ceil(self.window / _SLICES / 60) * 60)
        return Span(step, math.ceil(self.window / step), math.floor(self.at / step) * step)
