"""Results as text, JUnit's XML or JSON."""

import json
from collections.abc import Sequence
from dataclasses import asdict, dataclass
from enum import Enum
from typing import Any
from xml.etree import ElementTree as ET

from conformance.properties import Judged, Known, Level, Property
from exporter.commands.answers import templates
from exporter.errors import printable


class Outcome(Enum):
    """`EXPECTED`: breached, as a file of --expect says. `DIFFERS`: breached, and not required."""

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
        judged, said = self.judged, f"{self.judged.cases}"
        if judged.skipped:
            return judged.skipped
        if judged.breaches:
            said = f"{len(judged.breaches)} of {said}: {judged.shortest.what}"
        return f"{said} ({judged.note})" if judged.note else said


def text(runtime: str, results: Sequence[Result]) -> str:
    """By groups in alphabetical order; what a runtime names cannot control a terminal."""
    template = templates("conformance").get_template("conformance.txt")
    return template.render(runtime=runtime, results=results)


def junit(runtime: str, results: Sequence[Result]) -> str:
    """One test case a property; what is known or observed is no failure."""
    skipped = sum(r.outcome is Outcome.SKIPPED for r in results)
    counts = {"tests": len(results), "failures": sum(r.fails for r in results), "skipped": skipped}
    suite = ET.Element("testsuite", {key: str(number) for key, number in counts.items()})
    suite.set("name", printable(f"shadow-pleg conformance {runtime}"))
    for result in results:
        case = ET.SubElement(suite, "testcase", classname=result.of.group, name=result.of.name)
        said = printable(result.said)
        if result.outcome is Outcome.SKIPPED:
            ET.SubElement(case, "skipped", message=said)
        elif result.judged.breaches:
            tag = "failure" if result.fails else "system-out"
            inside = ET.SubElement(case, tag, {"message": said} if result.fails else {})
            inside.text = printable("\n".join(result.judged.shortest.story), "\n")
    ET.indent(suite)
    return ET.tostring(suite, encoding="unicode", xml_declaration=True) + "\n"


def as_json(runtime: str, results: Sequence[Result]) -> str:
    """All that is known of each property, with each breach's history up to the tenth."""
    fields = ("name", "number", "group", "owed", "source", "parts")
    properties: list[dict[str, Any]] = [
        {name: getattr(r.of, name) for name in fields}
        | {
            "level": r.of.level.value,
            "outcome": r.outcome.value.lower(),
            "cases": r.judged.cases,
            "breached": len(r.judged.breaches),
            "said": r.said,
            "known": r.known and asdict(r.known),
            "breaches": [breach._asdict() for breach in r.judged.breaches[:10]],
        }
        for r in results
    ]
    return json.dumps({"runtime": runtime, "properties": properties}, indent=2) + "\n"
