"""`make mutants`: changes the pure core in one small place at a time; the quick tests must notice.

A change that no test notices survives. `survivors.toml` has those that leave the program the same,
and why. It fails if more than 5 % survive, if one survives without a reason there, or if a reason
is there for one that does not survive. With `--guards` it changes what keeps strangers out, and
fails if their tests notice less than 90 %. A run of all changes writes its table in docs/proof.md.
"""

import argparse
import ast
import functools
import json
import os
import pickle
import random
import re
import sys
import tempfile
import time
import tomllib
from collections import Counter
from collections.abc import Sequence
from pathlib import Path
from typing import Final

from tests import ROOT
from tests.mutants.changes import Mutant, mutants_of, path_of
from tests.mutants.running import QUICK, Known, judged, learn

MODULES: Final = (
    "exporter.conditions.account",
    "exporter.conditions.catalogue",
    *(f"exporter.pleg.{path.stem}" for path in sorted((ROOT / "exporter/pleg").glob("[a-z]*.py"))),
    "exporter.node.chronicle",
    "exporter.cri.flaws",
    "fleet.bound",
)
# What keeps strangers out, and the tests of that, also those in virtual time: reloads are.
GUARDS: Final = (
    *(f"exporter.web.{name}" for name in ("access.guard", "access.policy", "access.web_config")),
    *(f"exporter.web.{name}" for name in ("server", "rendered")),
    *(f"exporter.settings.{name}" for name in ("files", "flags", "config")),
    *("crifilter.server", "crifilter.calls", "crifilter.pods"),
)
_OF_GUARDS: Final = (
    *(f"tests/web/test_{name}.py" for name in ("access", "app", "cases_page", "floods")),
    *(f"tests/web/test_{name}.py" for name in ("requests", "status_page")),
    *(
        "tests/web/test_web_config.py",
        "tests/cri/test_filter.py",
        "tests/settings",
        "tests/test_cli.py",
        "tests/kubelet",
        "tests/traces/test_kubelet.py",
        # All else there has the filter in a process of its own, whose lines are not known.
        "tests/commands/test_filter.py::test_a_socket_that_cannot_be_made_is_refused",
    ),
    # It gives up being root, and fails while coverage is measured.
    "--deselect=tests/cri/test_filter.py::test_a_group_that_is_not_ours_cannot_be_let_in",
)
# What the small worlds search: all that pairs the witnesses.
_NOT_SEARCHED: Final = ("account", "catalogue", "chronicle", "twins", "flaws", "bound")
_WORLDS: Final = "tests/pleg/test_worlds.py"
LEAST, LEAST_GUARDS = 0.95, 0.9
REASONS: Final = ROOT / "tests" / "mutants" / "survivors.toml"
# What only other tests notice; `*` is every change of a place.
BEYOND: Final = ROOT / "tests" / "mutants" / "beyond_worlds.toml"
_ANY: Final = "*"
PAGE: Final = ROOT / "docs" / "proof.md"
_BUILD: Final = ROOT / "build"
_EVERY: Final = 100
_say: Final = functools.partial(print, flush=True)


def main() -> str | None:
    """Judge the changes that were asked for; returns what is wrong."""
    parser = argparse.ArgumentParser(prog="python -m tests.mutants", description=__doc__)
    parser.add_argument("--module", action="append", choices=MODULES + GUARDS, help="only this one")
    parser.add_argument("--guards", action="store_true", help="what keeps strangers out")
    worlds = "only the small worlds notice; none that has a reason, or is beyond them"
    parser.add_argument("--worlds", action="store_true", help=worlds)
    parser.add_argument("--sample", type=int, metavar="N", help="only so many, chosen at random")
    parser.add_argument("--seed", type=int, default=0, help="what decides the sample (0)")
    asked = parser.parse_args()
    modules = asked.module or [
        each
        for each in (GUARDS if asked.guards else MODULES)
        if not (asked.worlds and each.endswith(_NOT_SEARCHED))
    ]
    mutants = [each for module in modules for each in mutants_of(module) if not _is_tuned(each)]
    if asked.worlds:
        left_out = _reasons() | _reasons(BEYOND)
        mutants = [m for m in mutants if not {m.key, (m.key[0], _ANY)} & left_out.keys()]
    if asked.sample:
        mutants = random.Random(asked.seed).sample(mutants, asked.sample)
    _BUILD.mkdir(exist_ok=True)
    with tempfile.TemporaryDirectory(prefix="sm") as folder:
        # What a process leaves when it is ended goes with it.
        tempfile.tempdir = os.environ["TMPDIR"] = folder
        files = (_WORLDS,) if asked.worlds else _OF_GUARDS if asked.guards else ()
        survivors = _survivors(mutants, _known(files))
    every = not (asked.module or asked.sample or asked.worlds)
    if every:
        _write(mutants, survivors, GUARDS if asked.guards else MODULES)
    return _wrong(mutants, survivors, every=every and not asked.guards, guards=asked.guards)


def unknown() -> list[tuple[str, str]]:
    """Places and texts in both files of reasons that are no change of the code any more."""
    mutants = [mutant for module in MODULES + GUARDS for mutant in mutants_of(module)]
    known = {key for mutant in mutants for key in (mutant.key, (mutant.key[0], _ANY))}
    return sorted((_reasons() | _reasons(BEYOND)).keys() - known)


def _is_tuned(mutant: Mutant) -> bool:
    """Whether it only moves a constant of the guards by a tenth or less: that bounds as well.

    Blind spot: bits of a mode look alike; a test of the filter's socket has that one exactly.
    """
    if mutant.module not in GUARDS or not mutant.cold:
        return False
    match mutant.site.node, mutant.new, mutant.site.holder:
        case _, _, ast.BinOp(op=ast.Pow()):
            return False
        case ast.Constant(int() | float() as old), ast.Constant(int() | float() as new), _:
            return abs(new - old) * 10 <= abs(old)
    return False


def _known(files: tuple[str, ...]) -> Known:
    """What the tests do without a change; from the last run, unless a file changed since."""
    of = {(): "", (_WORLDS,): "-worlds", _OF_GUARDS: "-guards"}[files]
    kept = _BUILD / f"mutants-known{of}.pickle"
    folders = ("exporter", "fleet", "tests")
    newest = max(path.stat().st_mtime for each in folders for path in (ROOT / each).rglob("*.py"))
    if not kept.exists() or kept.stat().st_mtime <= newest:
        _say("running the tests without a change")
        learn(kept, _BUILD / "mutants.log", files, "not soak" if of == "-guards" else QUICK)
    known: Known = pickle.loads(kept.read_bytes())  # noqa: S301 - our own
    return known


def _survivors(mutants: Sequence[Mutant], known: Known) -> list[Mutant]:
    """The changes that no test notices, in their own order."""
    codes: dict[Mutant, int] = {}
    began = time.monotonic()
    kept = _BUILD / "mutants-noticed.pickle"
    if kept.exists():
        known.noticed = pickle.loads(kept.read_bytes())  # noqa: S301 - written below
    known.explained = set(_reasons())
    for mutant, code, test in judged(mutants, known, _BUILD / "mutants.log"):
        codes[mutant] = code
        if test:
            known.noticed[mutant.key] = test
        if code == 0:
            _say(f"{_where(mutant)}  {mutant.key[1]}")
        if len(codes) % _EVERY == 0 or len(codes) == len(mutants):
            lived = sum(code == 0 for code in codes.values())
            seconds = time.monotonic() - began
            kept.write_bytes(pickle.dumps(known.noticed))
            _say(f"--- {len(codes)} of {len(mutants)}, {lived} survive, {seconds:.0f} s")
    endless = sum(code < 0 for code in codes.values())
    _say(f"{endless} changes had a test that did not end, or ended its process.")
    return [mutant for mutant in mutants if codes[mutant] == 0]


def _wrong(
    mutants: Sequence[Mutant], survivors: Sequence[Mutant], *, every: bool, guards: bool
) -> str | None:
    """What the run and the file of reasons do not agree on; None if nothing."""
    reasons, lived = _reasons(), {mutant.key for mutant in survivors}
    judged_now = {mutant.key for mutant in mutants}
    new = [mutant for mutant in survivors if mutant.key not in reasons]
    stale = [key for key in reasons if key not in lived and (every or key in judged_now)]
    share = 1 - len(survivors) / len(mutants)
    _say(f"{len(mutants) - len(survivors)} of {len(mutants)} noticed: {share:.1%}")
    if new:
        _say(f"Survivors without a reason in {REASONS.relative_to(ROOT)}:")
    for mutant in new:
        place, text = mutant.key
        quoted = json.dumps(text, ensure_ascii=False) if "'" in text else f"'{text}'"
        _say(f'{_where(mutant)}\n["{place}"]\n{quoted} = ""')
    for place, text in stale:
        _say(f"A reason for what does not survive: {place}  {text}")
    if guards:
        return f"fewer than {LEAST_GUARDS:.0%} are noticed" if share < LEAST_GUARDS else None
    if every and share < LEAST:
        return f"fewer than {LEAST:.0%} are noticed"
    return f"{len(new)} without a reason, {len(stale)} reasons too many" if new or stale else None


def _write(mutants: Sequence[Mutant], survivors: Sequence[Mutant], modules: Sequence[str]) -> None:
    """Their table on the page."""
    rows = ["| module | changes | noticed | survive | |", "|---|---:|---:|---:|---:|"]
    every, lived = Counter(m.module for m in mutants), Counter(m.module for m in survivors)
    every["all"], lived["all"] = len(mutants), len(survivors)
    for module in (*modules, "all"):
        noticed = every[module] - lived[module]
        share = f"{noticed / every[module]:.1%}"
        rows.append(f"| {module} | {every[module]} | {noticed} | {lived[module]} | {share} |")
    name, page = "guards" if modules == GUARDS else "mutants", PAGE.read_text(encoding="utf-8")
    marked = re.compile(rf"(?<=<!-- {name} -->\n).*(?=<!-- /{name} -->)", re.DOTALL)
    PAGE.write_text(marked.sub("\n".join(["", *rows, "", ""]), page), encoding="utf-8")


def _reasons(path: Path = REASONS) -> dict[tuple[str, str], str]:
    """Why survivors are the same program, by place and text; or why no small world notices."""
    places = tomllib.loads(path.read_text(encoding="utf-8"))
    return {(place, text): why for place, texts in places.items() for text, why in texts.items()}


def _where(mutant: Mutant) -> str:
    return f"{path_of(mutant.module).relative_to(ROOT)}:{mutant.site.lines.start}"


if __name__ == "__main__":
    sys.exit(main())
