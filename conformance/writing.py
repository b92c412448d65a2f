"""Results as text, JUnit's XML or JSON."""

import json
from collections.abc import Sequence
from dataclasses import asdict
from typing import Any
from xml.etree import ElementTree as ET

from conformance.properties import Result
from exporter.errors import printable, templates


def text(runtime: str, results: Sequence[Result]) -> str:
    """The results by group, in alphabetical order; a runtime's texts cannot control a terminal."""
    template = templates("conformance").get_template("conformance.txt")
    return template.render(runtime=runtime, results=results)


def junit(runtime: str, results: Sequence[Result]) -> str:
    """One test case for each property; a known breach, or one of an OBSERVED, is no failure."""
    skipped = sum(r.outcome == "skip" for r in results)
    counts = {"tests": len(results), "failures": sum(r.fails for r in results), "skipped": skipped}
    suite = ET.Element("testsuite", {key: str(number) for key, number in counts.items()})
    suite.set("name", printable(f"shadow-pleg conformance {runtime}"))
    for result in results:
        case = ET.SubElement(suite, "testcase", classname=result.of.group, name=result.of.name)
        said = printable(result.said)
        if result.skipped:
            ET.SubElement(case, "skipped", message=said)
        elif result.breaches:
            tag = "failure" if result.fails else "system-out"
            inside = ET.SubElement(case, tag, {"message": said} if result.fails else {})
            known = f"known: {result.known.because} {result.known.link}\n" if result.known else ""
            told = "\n".join((result.of.owed, said, *result.shortest.story))
            inside.text = printable(known + told, "\n")
    ET.indent(suite)
    return ET.tostring(suite, encoding="unicode", xml_declaration=True) + "\n"


def as_json(runtime: str, results: Sequence[Result]) -> str:
    """Everything about each property, with the histories of its first ten breaches."""
    fields = ("name", "group", "level", "owed", "source", "parts")
    properties: list[dict[str, Any]] = [
        {name: getattr(r.of, name) for name in fields}
        | {
            "outcome": r.outcome.lower(),
            "cases": r.cases,
            "breached": len(r.breaches),
            "said": r.said,
            "known": r.known and asdict(r.known),
            "breaches": [breach._asdict() for breach in r.breaches[:10]],
        }
        for r in results
    ]
    return json.dumps({"runtime": runtime, "properties": properties}, indent=2) + "\n"
