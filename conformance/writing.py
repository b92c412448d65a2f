"""Results as text, JUnit's XML or JSON."""

import json
from collections.abc import Callable, Mapping, Sequence
from dataclasses import asdict, dataclass
from enum import Enum
from itertools import groupby
from typing import Any, Final
from xml.sax.saxutils import escape, quoteattr

from conformance.expected import Known
from conformance.judges import Judged
from conformance.properties import Level, Property
from exporter.errors import printable


class Output(Enum):
    """The format of the answer."""

    TEXT = "text"
    JUNIT = "junit"
    JSON = "json"


class Outcome(Enum):
    """`EXPECTED`: breached, as a file of --expect says. `DIFFERS`: breached, and owed by nobody."""

    PASS = "pass"  # noqa: S105 - no password
    FAIL = "FAIL"
    WARN = "warn"
    EXPECTED = "known"
    DIFFERS = "differs"
    SKIPPED = "skip"


@dataclass(frozen=True, slots=True)
class Result:
    """What came out of a property. `fails`: whether that makes the exit code 1."""

    of: Property
    judged: Judged
    known: Known | None
    strict: bool

    @property
    def outcome(self) -> Outcome:
        """In a word."""
        if self.judged.skipped:
            return Outcome.SKIPPED
        if not self.judged.breaches:
            return Outcome.PASS
        if self.known:
            return Outcome.EXPECTED
        levels = {Level.MUST: Outcome.FAIL, Level.SHOULD: Outcome.WARN}
        return levels.get(self.of.level, Outcome.DIFFERS)

    @property
    def fails(self) -> bool:
        """Of a SHOULD only where --expect says what is to be expected."""
        return self.outcome is Outcome.FAIL or (self.strict and self.outcome is Outcome.WARN)

    @property
    def said(self) -> str:
        """How often, or why not."""
        judged = self.judged
        if judged.skipped:
            return judged.skipped
        number = len(judged.breaches)
        said = (
            f"{number} of {judged.cases}: {judged.shortest.what}" if number else f"{judged.cases}"
        )
        return f"{said} ({judged.note})" if judged.note else said


def text(runtime: str, results: Sequence[Result]) -> str:
    """A table by groups, what was skipped, then each breach with its shortest history."""
    lines, skipped = [runtime], dict[str, list[str]]()
    for result in (each for each in results if each.outcome is Outcome.SKIPPED):
        skipped.setdefault(result.said, []).append(result.of.name)
    judged = (each for each in results if each.outcome is not Outcome.SKIPPED)
    for group, rows in groupby(judged, lambda result: result.of.group):
        lines += ["", f"{group}:"]
        lines += [f"  {r.outcome.value:8}{r.of.name:24}{r.of.level.value:9}{r.said}" for r in rows]
    if skipped:
        lines += ["", *(f"skip, as {why}: {', '.join(names)}" for why, names in skipped.items())]
    for result in (each for each in results if each.judged.breaches):
        lines += ["", f"{result.of.name} ({result.of.level.value}): {result.of.owed}"]
        if result.known:
            lines.append(f"  known: {result.known.because} {result.known.link}")
        shortest = result.judged.shortest
        lines.append(f"  done: {', '.join(result.of.parts) or 'everything'}")
        lines += [f"  source: {result.of.source}", f"  breach: {shortest.what}"]
        lines += [f"    {line}" for line in shortest.story]
    counts = {each: sum(r.outcome is each for r in results) for each in Outcome}
    lines += ["", ", ".join(f"{number} {each.value}" for each, number in counts.items() if number)]
    for result in results:
        if result.known and result.outcome is Outcome.PASS:
            lines.append(f"expected to be breached, and was not this time: {result.of.name}")
    return "".join(f"{printable(line)}\n" for line in lines)


def junit(runtime: str, results: Sequence[Result]) -> str:
    """One test case a property; what is known or observed is no failure."""
    cases = []
    for result in results:
        inside = ""
        if result.outcome is Outcome.SKIPPED:
            inside = f"<skipped message={quoteattr(printable(result.said))}/>"
        elif result.judged.breaches:
            told = escape(printable("\n".join(result.judged.shortest.story), "\n"))
            name = "failure" if result.fails else "system-out"
            message = f" message={quoteattr(printable(result.said))}" if result.fails else ""
            inside = f"<{name}{message}>{told}</{name}>"
        place = f"classname={quoteattr(result.of.group)} name={quoteattr(result.of.name)}"
        cases.append(f"  <testcase {place}>{inside}</testcase>\n")
    head = f"tests='{len(results)}' failures='{sum(r.fails for r in results)}'"
    head += f" skipped='{sum(r.outcome is Outcome.SKIPPED for r in results)}'"
    name = quoteattr(printable(f"shadow-pleg conformance {runtime}"))
    xml = '<?xml version="1.0" encoding="UTF-8"?>\n'
    return f"{xml}<testsuite name={name} {head}>\n{''.join(cases)}</testsuite>\n"


def as_json(runtime: str, results: Sequence[Result]) -> str:
    """All that is known of each property, with each breach's history up to the tenth."""
    properties = [
        {
            "name": r.of.name,
            "number": r.of.number,
            "group": r.of.group,
            "level": r.of.level.value,
            "owed": r.of.owed,
            "source": r.of.source,
            "parts": r.of.parts,
            "outcome": r.outcome.value.lower(),
            "cases": r.judged.cases,
            "breached": len(r.judged.breaches),
            "said": r.said,
            "known": r.known and asdict(r.known),
            "breaches": [breach._asdict() for breach in r.judged.breaches[:10]],
        }
        for r in results
    ]
    document: Mapping[str, Any] = {"runtime": runtime, "properties": properties}
    return json.dumps(document, indent=2) + "\n"


WRITERS: Final[dict[Output, Callable[[str, Sequence[Result]], str]]] = {
    Output.TEXT: text,
    Output.JUNIT: junit,
    Output.JSON: as_json,
}
