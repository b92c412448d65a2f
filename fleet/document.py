"""The report as data: printed by `--output-format json`, and the input of the pages.

docs/report.md describes the schema key by key; a change of meaning gets a new schema number.
"""

from dataclasses import asdict
from typing import Any, Final

from exporter import __version__
from exporter.kubelet.state import Configuration
from exporter.pleg.events import Lifecycle
from exporter.pleg.findings import Cause
from fleet.advice import advice
from fleet.bound import CONFIDENCE
from fleet.delays import Delays
from fleet.fleet import Counts, Coverage, Fleet, Group, Kubelets, Line, iso
from fleet.kubelets import costs
from fleet.losses import Losses
from fleet.notes import notes
from fleet.options import Standard
from fleet.questions import SHARES
from fleet.verdict import Judgement, judge, judge_groups

SCHEMA: Final = "shadow-pleg.report/v1"
_EVENTS: Final = [event.label for event in Lifecycle]
_CAUSES: Final = [cause.value for cause in Cause]


def document(fleet: Fleet, standard: Standard) -> dict[str, Any]:
    """The whole report, in types that JSON has."""
    span, judgement = fleet.span, judge(fleet, standard)
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
        **_judgement(judgement),
        "next_steps": list(advice(fleet, standard)),
        "notes": list(notes(fleet)),
        "fleet": _group(fleet.all),
        "runtimes": [
            {
                "runtime": group.label,
                "name": group.name,
                "version": group.version,
                "stream": group.stream,
                **_judgement(judgement),
                **_group(group),
            }
            for group, judgement in judge_groups(fleet, standard)
        ],
        "worst_nodes": [asdict(node) for node in fleet.worst],
        "flapping_nodes": [asdict(node) for node in fleet.flappers],
        "mislisted_nodes": [asdict(node) for node in fleet.mislisted],
        "kubelets": _kubelets(fleet.kubelets),
        "known_issues": [
            {
                "id": row.id,
                "link": row.link,
                "affected": row.affected,
                "what": row.what,
                "remedy": row.remedy,
                "of_the_gate": row.of_gate,
            }
            for row in fleet.issues
        ],
        "coverage": _coverage(fleet.coverage, span.step),
        "over_time": {
            "step_seconds": fleet.point,
            "missed": [_line(line, "cause") for line in fleet.missed_over_time],
            "nodes": [_line(line, "what") for line in fleet.nodes_over_time],
        },
        "queries": [{"name": name, "promql": promql} for name, promql in fleet.asked],
    }


def _judgement(judgement: Judgement) -> dict[str, Any]:
    return {"verdict": judgement.verdict.value, "reasons": list(judgement.reasons)}


def _group(group: Group) -> dict[str, Any]:
    incidents = group.incidents
    return {
        "nodes": group.nodes,
        **_losses(group.every),
        "undecided": group.undecided,
        "exits": _losses(group.exits) | _bounds(group.exits),
        "others": _losses(group.others) | _bounds(group.others),
        "flapping": group.flapping,
        "missed_by_cause": {cause.value: group.of(cause) for cause in Cause},
        "missed": _misses(group.missed),
        "late": _misses(group.late),
        "gaps": [{"event": event, "number": number} for (_, event), number in _ordered(group.gaps)],
        "final_loss": group.final_loss,
        "received": incidents["received"],
        "stream_ends": incidents["ends"],
        "stream_stalls": incidents["stalls"],
        "listened_seconds": round(group.listened),
        "kernel_nodes": incidents["kernel"],
        "ghosts": incidents["ghosts"] if incidents["kernel"] else None,
        "strays": incidents["strays"] if incidents["kernel"] else None,
        "exit_to_event": _delays(group.announced),
        "exit_to_list": _delays(group.listed),
    }


def _losses(losses: Losses) -> dict[str, Any]:
    return {
        "transitions": losses.witnessed,
        "judged": losses.trials,
        "lost": losses.lost,
        "lost_silently": losses.silent,
        "undelivered": losses.undelivered,
    }


def _bounds(losses: Losses) -> dict[str, Any]:
    return {
        "loss_ratio": losses.ratio,
        "loss_upper_bound": losses.upper,
        "loss_lower_bound": losses.lower,
    }


def _misses(counts: Counts) -> list[dict[str, Any]]:
    return [
        {"event": event, "number": number, "cause": cause}
        for (cause, event), number in _ordered(counts)
    ]


def _delays(delays: Delays) -> dict[str, Any]:
    found = {f"p{share * 100:.0f}": delays.quantile(share) for share in SHARES}
    return {"exits": round(delays.exits), **found}


def _kubelets(kubelets: Kubelets) -> dict[str, Any]:
    known, strangers = costs(kubelets.versions)
    half = kubelets.configurations
    return {
        "generations": [
            {
                "kubelet": each.generation.name,
                "nodes": each.nodes,
                "acts_on": each.generation.acts_on.value,
                "a_lost_event": each.loss,
                "an_ended_stream": each.outage,
                "a_stall": each.stall,
                "weight": each.weight.value,
            }
            for each in known
        ],
        "unknown_versions": strangers,
        "configurations": {each.value: half[each.value] for each in Configuration}
        if half
        else None,
        "missed_events": kubelets.missed,
        "unusable_events": kubelets.unusable,
    }


def _ordered(counts: Counts) -> list[tuple[tuple[str, str], int]]:
    """In code order; unknown causes and events, of later versions, at the end."""

    def place(name: str, order: list[str]) -> tuple[int, str]:
        return order.index(name) if name in order else len(order), name

    found = [each for each in counts.items() if each[1]]
    return sorted(found, key=lambda each: (place(each[0][0], _CAUSES), place(each[0][1], _EVENTS)))


def _coverage(coverage: Coverage, step: int) -> dict[str, Any]:
    def hours(slices: float | None) -> float | None:
        return None if slices is None else round(slices * step / 3600, 3)

    return {
        "nodes": coverage.nodes,
        "nodes_now": coverage.nodes_now,
        "first_seen": iso(coverage.first),
        "kubelets": coverage.kubelets,
        "unwatched": coverage.unwatched,
        "unwatched_nodes": list(coverage.unwatched_nodes),
        "watched_ratio": coverage.watched,
        "listening_ratio": coverage.listening,
        "listening_together_hours": hours(coverage.together),
        "node_hours": {
            "seen": hours(coverage.present),
            "streaming": hours(coverage.streaming),
            "not_subscribed": hours(coverage.deaf),
            "scrape_gaps": hours(coverage.gaps),
            "kubelets": hours(coverage.kubelet_present),
        },
        "least_listening": [asdict(node) for node in coverage.deafest],
    }


def _line(line: Line, key: str) -> dict[str, Any]:
    return {key: line.name, "points": [list(point) for point in line.points]}
