"""The report as data, which `--output-format json` prints, and as Markdown made of that.

docs/report.md describes the schema key by key; a change of meaning gets a new schema number.
"""

import json
import math
import re
from collections.abc import Iterator, Sequence
from dataclasses import asdict
from typing import Any, Final

from exporter import __version__
from exporter.errors import printable
from exporter.evidence.reasons import CAUSE_MEANINGS
from exporter.model.events import Lifecycle
from exporter.model.findings import Cause
from exporter.model.flaws import MEANINGS
from exporter.model.labels import Flaw, OomKill
from exporter.runtimes.known import known_flaw
from fleet.bound import CONFIDENCE
from fleet.fleet import NUMBERS, Counts, Fleet, Group, Losses, Statuses, iso, quantile
from fleet.notes import next_steps, notes
from fleet.request import ReportFormat, Standard
from fleet.verdict import Judgement, judge, judge_groups
from fleet.words import about, templates
from promql.series import COUNTED, REPORTED

SCHEMA: Final = "shadow-pleg.report/v1"
# Of exits by how late they are shown.
_SHARES: Final = {"p50": 0.5, "p90": 0.9, "p99": 0.99}
_COUNTS: Final = (
    *("undecided", "gaps", "received"),
    *("stream_ends", "stream_stalls", "flapping", "kernel_nodes"),
)
_EVENTS: Final = {event.label: place for place, event in enumerate(Lifecycle)}
_CAUSES: Final = {cause.value: place for place, cause in enumerate(Cause)}
_LAST: Final = max(len(_EVENTS), len(_CAUSES))
# What Markdown would treat as markup in foreign names; lists only at the begin.
_MARKUP: Final = re.compile(r"([\\`*_\[\]<>|#~=&$@]|^[-+]|:(?=//)|(?<=www)\.)")
_ITEM: Final = re.compile(r"^(\d{1,9})(?=[.)] )")


def written(fleet: Fleet, standard: Standard, form: ReportFormat) -> str:
    """The whole report, with a line break at its end."""
    data = _document(fleet, standard)
    if form is ReportFormat.JSON:
        return json.dumps(data, indent=2, allow_nan=False) + "\n"
    environment = templates()
    environment.filters["plain"] = _plain if form is ReportFormat.MARKDOWN else _in_line
    return environment.get_template("report.md").render(
        report=data,
        linked=form is ReportFormat.MARKDOWN,
        numbers=NUMBERS,
        causes={cause.value: meaning for cause, meaning in CAUSE_MEANINGS.items()},
    )


def _document(fleet: Fleet, standard: Standard) -> dict[str, Any]:
    """The whole report, in types that JSON has."""
    span, judgement, coverage = fleet.span, judge(fleet, standard), fleet.coverage
    relists, seconds = fleet.polling or (None, None)
    return {
        "schema": SCHEMA,
        "shadow_pleg": __version__,
        "prometheus": fleet.prometheus,
        "window": {
            "from": iso(span.start),
            "to": iso(span.end),
            "seconds": span.seconds,
            "slice_seconds": span.step,
            "recorded": fleet.recorded,
        },
        "objective": {
            "announced": standard.objective,
            "allowed_loss": standard.allowed,
            "confidence": CONFIDENCE,
            "min_seconds": standard.seconds,
            "min_nodes": standard.nodes,
            "min_transitions": standard.transitions,
        },
        **_judged(judgement),
        "next_steps": list(next_steps(fleet, judgement)),
        "notes": list(notes(fleet)),
        "fleet": _group(fleet.all),
        "runtimes": [
            {
                "runtime": group.label,
                "name": group.name,
                "version": group.version,
                "stream": group.stream,
                **_judged(of),
                **_group(group),
            }
            for group, of in judge_groups(fleet, standard)
        ],
        "nodes": [asdict(node) for node in fleet.nodes],
        "kubelets": {
            "versions": [{"version": it, "nodes": n} for it, n in sorted(fleet.kubelets.items())],
            "relists_per_hour": relists and relists * 3600 / span.seconds,
            "relist_time_ratio": seconds and seconds / span.seconds,
            "gate_on": fleet.all.counts["gate_on"],
            "gate_without_events": fleet.all.gated["no_events"],
        },
        "statuses": list(map(_status, fleet.statuses)),
        "gate_gains": list(_gains(fleet.statuses)),
        "flaws": [
            {
                "runtime": group.label,
                "flaw": flaw.value,
                "number": number,
                "meaning": MEANINGS[flaw].what,
                "effect": MEANINGS[flaw].does,
                "known_issue": known.id if known else None,
            }
            for group in fleet.groups
            for flaw in Flaw
            if (number := group.counts[flaw.value])
            for known in [known_flaw(group.name, group.version, flaw)]
        ],
        "known_issues": [
            {key: getattr(row, key) for key in ("id", "link", "affected", "what", "remedy")}
            | {
                "of_the_gate": row.of_gate,
                "nodes": sum(nodes.values()),
                "runtimes": [{"runtime": each, "nodes": n} for each, n in nodes.items()],
            }
            for row, nodes in fleet.issues.items()
        ],
        "coverage": {
            "nodes": coverage.nodes,
            "nodes_now": coverage.nodes_now,
            "first_seen": iso(coverage.first),
            "kubelets": coverage.kubelets,
            "unwatched": coverage.unwatched,
            "watched_ratio": coverage.watched,
            "listening_ratio": coverage.listening,
            "listening_together_hours": round(coverage.together * span.step / 3600, 3),
        },
    }


def _judged(judgement: Judgement) -> dict[str, Any]:
    return {
        "verdict": judgement.verdict.value,
        "headline": judgement.headline,
        "reasons": [each.said for each in judgement.reasons],
    }


def _group(group: Group) -> dict[str, Any]:
    delays = {"exit_to_event": group.announced, "exit_to_list": group.listed}
    return {
        "nodes": group.nodes,
        **_losses(group.every),
        **{name: group.counts[name] for name in _COUNTS},
        **{
            name: _losses(of)
            | {"loss_ratio": of.ratio, "loss_upper_bound": of.upper, "loss_lower_bound": of.lower}
            for name, of in (("exits", group.exits), ("others", group.others))
        },
        "missed_by_cause": {cause.value: group.of(cause) for cause in Cause},
        "missed": _misses(group.missed),
        "late": _misses(group.late),
        "final_loss": group.final_loss,
        **{name: group.counts[kind] for name, kind in COUNTED.items()},
        "oom_kills": {kind.value: group.counts[kind.value] for kind in OomKill},
        "conditions": [
            {
                "condition": name,
                "headline": row.headline,
                "nodes": nodes,
                "gate_on": group.gated[name],
                "time_ratio": group.share_of(name),
                "step": about(name),
            }
            for name, row in REPORTED.items()
            if (nodes := group.held[name])
        ],
        **{
            name: {"exits": of[math.inf], "p50": quantile(of, 0.5), "p99": quantile(of, 0.99)}
            for name, of in delays.items()
        },
    }


def _status(of: Statuses) -> dict[str, Any]:
    return {
        "kubelet": of.version,
        "gate": of.gate,
        "exits": of.shown[math.inf],
        **{name: quantile(of.shown, share) for name, share in _SHARES.items()},
        "announced_p50": quantile(of.announced, 0.5),
        "after_event_p50": quantile(of.believed, 0.5),
        "after_event_p99": quantile(of.believed, 0.99),
        **{name: of.contradicted[kind] for name, kind in COUNTED.items()},
    }


def _gains(statuses: Sequence[Statuses]) -> Iterator[dict[str, Any]]:
    """By how many seconds the gate is faster, of each version of which some nodes have it on."""
    by_gate = {(of.version, of.gate): of.shown for of in statuses}
    for version in sorted({of.version for of in statuses}):
        off, on = by_gate.get((version, "off")), by_gate.get((version, "on"))
        if off and on:
            gains = {
                name: (quantile(off, share) or 0.0) - (quantile(on, share) or 0.0)
                for name, share in _SHARES.items()
            }
            yield {"kubelet": version, **gains}


def _losses(losses: Losses) -> dict[str, Any]:
    return {
        "transitions": losses.witnessed,
        "judged": losses.trials,
        "lost": losses.lost,
        "lost_silently": losses.silent,
        "undelivered": losses.undelivered,
    }


def _misses(counts: Counts) -> list[dict[str, Any]]:
    """In code order; unknown causes and events, of later versions, at the end."""

    def place(it: tuple[tuple[str, str], int]) -> tuple[int, str, int, str]:
        (cause, event), _ = it
        return _CAUSES.get(cause, _LAST), cause, _EVENTS.get(event, _LAST), event

    return [
        {"event": event, "number": number, "cause": cause}
        for (cause, event), number in sorted(counts.items(), key=place)
        if number
    ]


def _plain(text: object) -> str:
    """In one line, and without a meaning to Markdown."""
    return _ITEM.sub(r"\1\\", _MARKUP.sub(r"\\\1", _in_line(text)))


def _in_line(text: object) -> str:
    return printable(" ".join(str(text).split()))
