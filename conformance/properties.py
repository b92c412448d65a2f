"""The table of properties.yaml, the result of each row for a history, and how results are written.

A file of --expect has entries like this; the folder `known` has some such files:

exit-reason: {because: why it is so, link: "https://..."}
"""

import json
from collections.abc import Mapping, Sequence
from dataclasses import asdict, dataclass
from pathlib import Path
from typing import Any, Final, NamedTuple
from xml.etree import ElementTree as ET

import msgspec

from conformance.history import History
from conformance.judges import JUDGES
from exporter.errors import ConfigError, printable, templates
from exporter.settings.files import parsed_yaml, read_file

# Properties that need parts, and that a recording also shows.
_RECORDED: Final = ("announced", "failed-start", "pod-removal", "restart-meanwhile", "sandboxes")
_KNOWN: Final = Path(__file__).with_name("known")
_LARGEST: Final = 64 * 1024
# How many breaches of a property are reported.
_TOLD: Final = 10
# The outcome of a breach, for each level.
_BREACHED: Final = {"MUST": "FAIL", "SHOULD": "warn", "OBSERVED": "differs"}


class Breach(NamedTuple):
    """What is wrong, in words, and the history that shows it."""

    what: str
    story: tuple[str, ...] = ()


@dataclass(frozen=True, slots=True)
class Property:
    """A row of properties.yaml. `parts`: it needs one of these parts of a run, if there are any."""

    name: str
    group: str
    level: str
    source: str
    judge: str
    parts: tuple[str, ...]
    owed: str

    def judged(self, history: History) -> "Result":
        """The result for this property in that history."""
        if history.proven is not None and self.parts and self.name not in _RECORDED:
            return Result(self, skipped="a recording does not say what was done")
        # Leave out a part that failed half-way: some of its containers were never stopped.
        lacking = {part: why for part, why in history.skipped.items() if part in self.parts}
        played = tuple(part for part in self.parts if part not in lacking)
        if self.parts and not played:
            return Result(self, skipped=lacking[self.parts[0]])
        cases = [*JUDGES[self.judge](history, played)]
        if not cases:
            return Result(self, skipped="nothing of the kind happened")
        wrong = [case for case in cases if case.wrong]
        # To find hundreds of histories would take minutes.
        told = (Breach(c.wrong, history.story(*c.ids, stream=c.stream)) for c in wrong[:_TOLD])
        notes = (cases[0].note, *(f"not {part}: {why}" for part, why in lacking.items()))
        return Result(self, len(cases), len(wrong), tuple(told), "; ".join(filter(None, notes)))


@dataclass(frozen=True, slots=True)
class Known:
    """Why a property is breached, and where that is documented."""

    because: str
    link: str


@dataclass(frozen=True, slots=True)
class Result:
    """The result for a property: how many of its `cases` are `breached`, and the first `_TOLD`.

    `note`: what was observed. `skipped`: why nothing was. `known`: why a breach is expected.
    `strict`: whether --expect is given.
    """

    of: Property
    cases: int = 0
    breached: int = 0
    breaches: tuple[Breach, ...] = ()
    note: str = ""
    skipped: str = ""
    known: Known | None = None
    strict: bool = False

    @property
    def shortest(self) -> Breach:
        """The breach with the shortest history that there is."""
        return min(self.breaches, key=lambda breach: len(breach.story) or 1000)

    @property
    def outcome(self) -> str:
        """`skip`, `pass`, `known` (a breach that --expect names), or one of `_BREACHED`."""
        if self.skipped or not self.breaches:
            return "skip" if self.skipped else "pass"
        return "known" if self.known else _BREACHED[self.of.level]

    @property
    def fails(self) -> bool:
        """Whether it makes the run fail; a SHOULD does so only with --expect."""
        return self.outcome == "FAIL" or (self.strict and self.outcome == "warn")

    @property
    def said(self) -> str:
        """The number of cases and the shortest breach, or why there are none."""
        said = f"{self.cases}"
        if self.skipped:
            return self.skipped
        if self.breaches:
            said = f"{self.breached} of {said}: {self.shortest.what}"
        return f"{said} ({self.note})" if self.note else said


def _table() -> dict[str, Property]:
    found = {}
    for group, rows in parsed_yaml(Path(__file__).with_suffix(".yaml").read_bytes()).items():
        for name, (level, source, how, owed) in rows.items():
            judge, *parts = how.split()
            found[name] = Property(name, group, level, source, judge, tuple(parts), owed)
    return found


PROPERTIES: Final = _table()


def shipped() -> list[str]:
    """The names of the files in the folder `known`."""
    return sorted(path.stem for path in _KNOWN.glob("*.yaml"))


def expected(name: str) -> Mapping[str, Known]:
    """The breaches that a file, or one of `shipped`, expects; ConfigError if it is invalid."""
    path = _KNOWN / f"{name}.yaml" if name in shipped() else Path(name)
    try:
        known = msgspec.convert(parsed_yaml(read_file(path, _LARGEST)), dict[str, Known])
    except ValueError as error:
        choice = ", ".join(shipped())
        raise ConfigError(f"--expect: {name!r}: {error}: give a file, or one of {choice}") from None
    if unknown := [each for each in known if each not in PROPERTIES]:
        raise ConfigError(f"--expect: {name!r} names {unknown[0]!r}, which is no property")
    return known


def text(runtime: str, results: Sequence[Result]) -> str:
    """Text by group, in alphabetical order; a runtime's texts cannot control a terminal."""
    template = templates("conformance").get_template("conformance.txt")
    return template.render(runtime=runtime, results=results)


def junit(runtime: str, results: Sequence[Result]) -> str:
    """A test case for each property; a known breach, or one of an OBSERVED, is no failure."""
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
            "breached": r.breached,
            "said": r.said,
            "known": r.known and asdict(r.known),
            "breaches": [breach._asdict() for breach in r.breaches],
        }
        for r in results
    ]
    return json.dumps({"runtime": runtime, "properties": properties}, indent=2) + "\n"
