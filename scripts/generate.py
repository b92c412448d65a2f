"""Write every generated file that is not what its source makes; with --check, name it.

Not here: golden files (UPDATE_GOLDEN=1), pictures, and what is measured.
"""
# ruff: noqa: INP001 - scripts are no package

import re
import sys
from collections.abc import Iterator
from pathlib import Path
from tempfile import TemporaryDirectory
from typing import Any, Final

import yaml
from grpc_tools import protoc

from alerts import render
from alerts.__main__ import made
from alerts.values import load
from conformance.properties import PROPERTIES
from crifilter.options import FilterOptions
from dashboards.render import rendered
from exporter.commands.options import CheckOptions, RecordOptions
from exporter.conditions import catalogue
from exporter.conditions.condition import Condition, NodeCondition
from exporter.metrics import families
from exporter.metrics.families import Spec
from exporter.model.labels import MEANINGS
from exporter.runtimes.known import KNOWN_ISSUES, PLACES
from exporter.runtimes.kubelets import GENERATIONS, LAST_TRUSTING, REPLACED, span
from exporter.runtimes.runtime import LEAVE_OFF, KnownIssue
from exporter.settings.config import Config
from exporter.settings.declaring import flags_of
from replay.answer import ReplayOptions
from tests.traces import compatibility
from tests.track_record import bugs

ROOT: Final = Path(__file__).parents[1]
# Of flags: section, settings.
_FLAGS: Final = (
    ("flags", Config),
    ("check", CheckOptions),
    ("filter", FilterOptions),
    ("record", RecordOptions),
    ("replay", ReplayOptions),
)
# Where the code goes that protoc makes of each.
_PROTOS: Final = {"runtime_v1.proto": "exporter/cri", "kubelet_pods.proto": "exporter/kubelet"}
# protoc's own version, which may differ.
_VERSION: Final = re.compile(r"^(# Protobuf Python Version.*|    [0-9]+,)$", re.MULTILINE)


def _table(*rows: tuple[str, ...]) -> str:
    """Rows as Markdown; the first is the head."""
    lines = ["| " + " | ".join(row) + " |" for row in rows]
    return "\n".join([lines[0], "|" + "---|" * len(rows[0]), *lines[1:]]) + "\n"


def _metric_rows() -> Iterator[tuple[str, ...]]:
    """The head, then all in the catalogue's order. The page says which types go without saying."""
    yield "name", "meaning"
    for spec in vars(families).values():
        if isinstance(spec, Spec):
            labels = f"{{{', '.join(spec.labels)}}}" if spec.labels else ""
            kind = " (histogram)" if spec.kind == "histogram" else ""
            yield f"`{spec.name}{spec.suffix}{labels}`{kind}", spec.help


def _flag_rows(settings: type) -> Iterator[tuple[str, ...]]:
    """The head, then all in the order of `--help`. Only a variable of another name is shown."""
    yield "flag", "default", "meaning"
    for each in flags_of(settings):
        env = f", `{each.env}`" if each.env and not each.env.startswith("SHADOW_PLEG_") else ""
        yield f"`{each.flag}`{env}", f"`{each.default}`" if each.default else "", each.help


def _generation_rows() -> Iterator[tuple[str, ...]]:
    """The head, then what each generation of kubelet does, and its sources."""
    head = "acts on", "relists meanwhile", "counts its events", "source"
    yield "kubelet", *head
    for row in GENERATIONS:
        counts = "yes" if row.counts else "no"
        pause = f"every {row.relist_seconds:g} s"
        yield row.name, row.acts_on.value, pause, counts, row.source


def _remedy(row: KnownIssue) -> str:
    """What most rows have is said once, above the table."""
    return "" if row.remedy == LEAVE_OFF else row.remedy


def _attacks(rows: list[dict[str, Any]]) -> str:
    """A line for each; the tests are in the source."""
    return "".join(
        f"- **{row['number']}. {row['attack']}.** {row['outcome']}.\n"
        for row in rows
        if not row.get("minor")
    )


def _condition(row: Condition) -> tuple[str, ...]:
    """The name, the headline, and the alert with its minutes, or why there is none."""
    says = f"{row.headline}: {row.when}" if row.when else row.headline
    minutes = "" if row.lasting is None else f" ({row.lasting / 60:g})"
    return f"`{row.name}`", says, f"{row.alert or row.silent}{minutes}"


def _of_node(asked: NodeCondition) -> tuple[str, ...]:
    """Which conditions of the catalogue make it True, and which Unknown."""
    bad = (f"`{row.name}`" for row in catalogue.ALL if row.node_condition is asked)
    unknown = (f"`{row.name}`" for row in catalogue.ALL if asked in row.unknown)
    return f"`{asked.value}`", ", ".join(bad), ", ".join(unknown)


def _tables() -> Iterator[tuple[str, str, str]]:
    """Page, section and text of each table."""
    yield "docs/metrics.md", "metrics", _table(*_metric_rows())
    for section, settings in _FLAGS:
        yield "docs/flags.md", section, _table(*_flag_rows(settings))
    issues = [("issue", "of", "what happens", "what to do")]
    # Above the table: up to which version a kubelet trusts events.
    trusting = f"kubelet {span(REPLACED)}, gate on"
    issues += [
        (
            f"[{row.id}]({row.link})",
            row.affected.replace(trusting, "kubelet").removesuffix(", gate on"),
            row.what,
            _remedy(row),
        )
        for row in KNOWN_ISSUES
    ]
    yield "docs/rollout.md", "issues", _table(*issues)
    flaws = [("flaw", "an event that", f"a kubelet up to {LAST_TRUSTING}")]
    flaws += [(f"`{flaw.value}`", meaning.what, meaning.does) for flaw, meaning in MEANINGS.items()]
    yield "docs/how-it-works.md", "flaws", _table(*flaws)
    conditions = ("condition", "headline: when it holds", "alert, or why none (minutes)")
    rows = map(_condition, catalogue.ALL)
    yield "docs/how-it-works.md", "conditions", _table(conditions, *rows)
    yield (
        "docs/node-condition.md",
        "conditions",
        _table(
            ("condition", "True while one of these holds", "Unknown while one of these does"),
            *(_of_node(each) for each in NodeCondition),
        ),
    )
    yield "docs/kubelet.md", "generations", _table(*_generation_rows())
    places = [(f"`{place.path}`", place.used_by) for place in PLACES]
    yield "docs/deploy.md", "sockets", _table(("socket", "of"), *places)
    for section, rows in compatibility.tables():
        yield "docs/compatibility.md", section, _table(*rows)
    owed, group = [("group", "property", "level", "what is owed", "source")], ""
    for r in PROPERTIES.values():
        owed.append((r.group if r.group != group else "", f"`{r.name}`", r.level, r.owed, r.source))
        group = r.group
    yield "docs/conformance.md", "properties", _table(*owed)
    yield "docs/track-record.md", "bugs", _table(*bugs.rows())
    attacks = yaml.safe_load((ROOT / "tests/attacks.yaml").read_text(encoding="utf-8"))
    attacks.pop("last")
    for section, rows in attacks.items():
        yield "docs/security.md", section, _attacks(rows)
    for section, rows, after in render.readme(load()):
        yield "alerts/README.md", section, _table(*rows) + after


def pages() -> dict[Path, str]:
    """Pages with their tables."""
    texts: dict[Path, str] = {}
    for name, section, table in _tables():
        path = ROOT / name
        before, begin, rest = (texts.get(path) or path.read_text(encoding="utf-8")).partition(
            f"<!-- {section}:begin -->\n"
        )
        _, end, after = rest.partition(f"<!-- {section}:end -->")
        if not begin or not end:
            raise SystemExit(f"{path} has no place for the table of {section}")
        texts[path] = before + begin + table + end + after
    return texts


def compiled() -> dict[Path, str]:
    """What protoc makes of the descriptions of the CRI and of the kubelet's pods."""
    with TemporaryDirectory() as folder:
        to = (f"--python_out={folder}", f"--pyi_out={folder}")
        if protoc.main(["protoc", f"-I{ROOT}/proto", *to, *_PROTOS]):
            raise SystemExit("protoc failed")
        return {
            ROOT / room / f"{name[:-6]}_pb2{end}": (
                Path(folder, f"{name[:-6]}_pb2{end}").read_text(encoding="utf-8")
            )
            for name, room in _PROTOS.items()
            for end in (".py", ".pyi")
        }


def of_chart(boards: dict[Path, str]) -> dict[Path, str]:
    """What Helm packs: copies, because it warns of each link."""
    folder = ROOT / "deploy" / "helm" / "shadow-pleg" / "files"
    copies = {folder / path.name: text for path, text in boards.items()}
    return copies | {folder / "prometheusrule.yaml": render.for_chart(load())}


def main() -> int:
    """The exit code."""
    boards = rendered()
    files = {**pages(), **compiled(), **made(load(), ROOT / "alerts"), **boards, **of_chart(boards)}
    # It is in the PrometheusRule.
    del files[ROOT / "alerts" / "rules.yaml"]
    check, stale = sys.argv[1:] == ["--check"], False
    for path, text in files.items():
        there = path.read_text(encoding="utf-8") if path.is_file() else ""
        if _VERSION.sub("", there) == _VERSION.sub("", text):
            continue
        stale = True
        sys.stderr.write(f"{path.relative_to(ROOT)}{' is stale: make generate' * check}\n")
        if not check:
            path.write_text(text, encoding="utf-8")
    return 1 if check and stale else 0


if __name__ == "__main__":
    sys.exit(main())
