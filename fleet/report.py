"""The `report` command: prints it as data (`--output-format json`), or as Markdown made of that.

docs/report.md describes the schema key by key; a change of meaning gets a new schema number.
"""

import argparse
import json
import math
import os
import re
import sys
from collections import Counter
from collections.abc import Iterator, Mapping
from dataclasses import asdict
from typing import Any, Final

from exporter import __version__
from exporter.cli import finish
from exporter.conditions.catalogue import BY_NAME
from exporter.conditions.condition import Weighs
from exporter.errors import printable, say
from exporter.evidence.reasons import CAUSE_MEANINGS
from exporter.model.findings import Cause
from exporter.model.labels import MEANINGS, Flaw, OomKill
from exporter.runtimes.known import known_flaw
from exporter.settings.declaring import Command, flags_of, from_text
from fleet.bound import CONFIDENCE
from fleet.fleet import NUMBERS, Counts, Fleet, Group, Statuses, is_unknown, iso, pause, quantile
from fleet.gather import gather
from fleet.prometheus import connected
from fleet.request import FailOn, ReportFormat, Request
from fleet.verdict import ENOUGH, Decision, Judgement, flaps, found, judge
from fleet.words import about, in_nodes, templates
from promql.series import (
    CONTRADICTED,
    COUNTED,
    EVENT_TO_STATUS,
    EXIT_TO_EVENT,
    EXIT_TO_STATUS,
    FLAPS,
    REPORTED,
)

SCHEMA: Final = "shadow-pleg.report/v1"
# Of exits by how late they are shown.
_SHARES: Final = {"p50": 0.5, "p90": 0.9, "p99": 0.99}
_LOSSES: Final = ("transitions", "judged", "lost", "lost_silently", "undelivered")
_OF_LOSSES: Final = ("loss_ratio", "loss_upper_bound", "loss_lower_bound")
_COUNTS: Final = (
    *("undecided", "gaps", "received"),
    *("stream_ends", "stream_stalls", "flapping", "kernel_nodes"),
)
# What Markdown would treat as markup in foreign names; lists only at the begin.
_MARKUP: Final = re.compile(r"([\\`*_\[\]<>|#~=&$@]|^[-+]|:(?=//)|(?<=www)\.)")
_ITEM: Final = re.compile(r"^(\d{1,9})(?=[.)] )")

_DRAIN: Final = BY_NAME["losing"].relied
_BEGIN: Final = (
    "Turn Evented PLEG on for one node, then for a percent of them, and repeat this report after"
    " each step: docs/rollout.md"
)
# What to do with the gate where it is off, and where it is on already.
_STEPS: Final = {
    Decision.GO: (_BEGIN, "take the next step of docs/rollout.md, and repeat this report after it"),
    Decision.NO_GO: (
        "Leave Evented PLEG off on the nodes of each version that is a NO-GO",
        f"where the version is a NO-GO, {_DRAIN}: docs/rollout.md#3-roll-back",
    ),
    Decision.NOT_YET: (
        "Leave the gate off until the known issues below have their remedies",
        "switch it off until the known issues below have their remedies",
    ),
    Decision.NOT_ENOUGH: ("", "turn it on nowhere else until there is a verdict"),
}
_EVERYWHERE: Final = "keep the alerts, and repeat this report after each upgrade: docs/rollout.md"
_GAINS_LITTLE: Final = "Leave the gate as it is: it does no harm, and gains little"


async def report(request: Request) -> bool:
    """Print the report; returns whether its verdict passes `--fail-on`."""
    async with connected(request) as prometheus:
        fleet = await gather(prometheus, request)
    judgement = judge(fleet, request)
    usual = ReportFormat.TEXT if sys.stdout.isatty() else ReportFormat.MARKDOWN
    say(_written(fleet, request, judgement, request.output_format or usual))
    no_go, good = (judgement.verdict is each for each in (Decision.NO_GO, Decision.GO))
    failing = {FailOn.NEVER: False, FailOn.NO_GO: no_go, FailOn.NOT_GO: not good}
    return not failing[request.fail_on]


def _written(fleet: Fleet, request: Request, judgement: Judgement, form: ReportFormat) -> str:
    """The whole report, with a line break at its end."""
    data = _document(fleet, request, judgement)
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


def _document(fleet: Fleet, request: Request, judgement: Judgement) -> dict[str, Any]:
    """The whole report, in types that JSON has."""
    span, coverage = fleet.span, fleet.coverage
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
            "announced": request.objective,
            "allowed_loss": request.allowed,
            "confidence": CONFIDENCE,
            "min_seconds": request.min_time,
            "min_nodes": request.min_nodes,
            "min_transitions": request.min_transitions,
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
            for group, of in zip(fleet.groups, judgement.versions, strict=True)
        ],
        "nodes": [asdict(node) for node in fleet.nodes],
        "kubelets": {
            "versions": [{"version": it, "nodes": n} for it, n in sorted(fleet.kubelets.items())],
            "relists_per_hour": relists and relists * 3600 / span.seconds,
            "relist_time_ratio": seconds and seconds / span.seconds,
            "gate_on": fleet.all.counts["gate_on"],
            "gate_without_events": fleet.all.gated["no_events"],
        },
        "statuses": [_status(*of, each) for of, each in fleet.statuses.items()],
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


def next_steps(fleet: Fleet, judgement: Judgement) -> tuple[str, ...]:
    """What to do next: with the gate, by the verdict, and about each reason."""
    every, good = fleet.all, judgement.verdict is Decision.GO
    first, then = _STEPS[judgement.verdict]
    if on := every.counts["gate_on"]:
        then = _EVERYWHERE if good and on >= every.nodes else then
        first = f"The gate is already on on {on:,} of {in_nodes(every.nodes)}: {then}"
    if good and judgement.but:
        first = _GAINS_LITTLE
    return tuple(filter(None, (first, *judgement.steps)))


def notes(fleet: Fleet) -> tuple[str, ...]:
    """What must not be overlooked, in words."""
    every = fleet.all
    text = templates().get_template("notes.txt")
    said = text.render(
        fleet=fleet,
        span=fleet.span,
        every=every,
        counts=every.counts,
        missed={cause.value: every.of(cause) for cause in Cause},
        came=every.of(Cause.STALLED) - every.lost(Cause.STALLED),
        kills={kind.value: every.counts[kind.value] for kind in OomKill},
        pause=pause(fleet.kubelets),
        flaps=flaps(every),
        most_errors=FLAPS,
        enough=ENOUGH,
        strangers=any(is_unknown(each.kubelets) for each in fleet.groups if each.version),
        undecided=[
            f"{row.stops}: {found(every, name)}"
            for name, row in REPORTED.items()
            if row.weighs is Weighs.GATED and every.held[name] > every.gated[name]
        ],
        no_events=BY_NAME["no_events"],
    )
    return (*said.splitlines(), *fleet.notes)


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
        **{name: getattr(group.every, name) for name in _LOSSES},
        **{name: group.counts[name] for name in _COUNTS},
        **{
            name: {key: getattr(of, key) for key in (*_LOSSES, *_OF_LOSSES)}
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


def _status(version: str, gate: str, of: Mapping[str, Counter[Any]]) -> dict[str, Any]:
    shown, after = of[EXIT_TO_STATUS.name], of[EVENT_TO_STATUS.name]
    return {
        "kubelet": version,
        "gate": gate,
        "exits": shown[math.inf],
        **{name: quantile(shown, share) for name, share in _SHARES.items()},
        "announced_p50": quantile(of[EXIT_TO_EVENT.name], 0.5),
        "after_event_p50": quantile(after, 0.5),
        "after_event_p99": quantile(after, 0.99),
        **{name: of[CONTRADICTED.name][kind] for name, kind in COUNTED.items()},
    }


def _gains(statuses: Statuses) -> Iterator[dict[str, Any]]:
    """By how many seconds the gate is faster, of each version of which some nodes have it on."""
    shown = {kubelet: of[EXIT_TO_STATUS.name] for kubelet, of in statuses.items()}
    for version in sorted({version for version, _ in statuses}):
        off, on = shown.get((version, "off")), shown.get((version, "on"))
        if off and on:
            gains = {
                name: (quantile(off, share) or 0.0) - (quantile(on, share) or 0.0)
                for name, share in _SHARES.items()
            }
            yield {"kubelet": version, **gains}


def _misses(counts: Counts) -> list[dict[str, Any]]:
    return [
        {"event": event, "number": number, "cause": cause}
        for (cause, event), number in sorted(counts.items())
        if number
    ]


def _plain(text: object) -> str:
    """In one line, and without a meaning to Markdown."""
    return _ITEM.sub(r"\1\\", _MARKUP.sub(r"\\\1", _in_line(text)))


def _in_line(text: object) -> str:
    return printable(" ".join(str(text).split()))


def _report(given: argparse.Namespace) -> bool:
    return finish(report(from_text(Request, vars(given), os.environ)))


REPORT: Final = Command(
    _report, "before you turn Evented PLEG on: go or no-go for a whole fleet", flags_of(Request)
)
