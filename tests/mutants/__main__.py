"""Judges what `mutmut run` has found; a part of `make mutants`.

A change that no test notices survives. `survivors.toml` has those that leave the program the same,
and why. It fails if more than 5 % survive, if one survives without a reason there, or if a reason
is there for one that does not survive. Once all are judged, it writes their sum in docs/proof.md.
"""

import functools
import json
import re
import subprocess
import sys
import tomllib
from collections import Counter
from collections.abc import Iterable
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path
from typing import Final

from tests import ROOT

LEAST: Final = 0.95
REASONS: Final = ROOT / "tests" / "mutants" / "survivors.toml"
PAGE: Final = ROOT / "docs" / "proof.md"
_MUTMUT: Final = Path(sys.executable).with_name("mutmut")
_LIVES: Final = {"survived", "no tests"}
_UNKNOWN: Final = {"not checked", "check was interrupted by user"}
# A module, its class if any, a function and a number, as mutmut writes them.
_NAME: Final = re.compile(r"([\w.]+)\.x(?:ǁ(\w+)ǁ|_)(\w+)__mutmut_\d+")

Key = tuple[str, str]


def main() -> str | None:
    """Compare the results with the reasons; returns what is wrong."""
    lines = re.findall(r"^    (\S+): (.+)$", _mutmut("results", "--all", "true"), re.MULTILINE)
    results = {name: result for name, result in lines if result not in _UNKNOWN}
    if not results:
        return "nothing is judged: run `make mutants`"
    survivors = [name for name, result in results.items() if result in _LIVES]
    with ThreadPoolExecutor(2) as pool:
        lived = dict(zip(pool.map(_key, survivors), survivors, strict=True))
    judged = {_place(name) for name in results}
    new = [key for key in lived if key not in reasons()]
    stale = [key for key in reasons() if key not in lived and key[0] in judged]
    share = 1 - len(survivors) / len(results)
    said = f"{len(results) - len(survivors)} of {len(results)} noticed: {share:.1%}"
    print(f"{said}; {len(lines) - len(results)} are not judged")
    if new:
        print(f"Survivors without a reason in {REASONS.relative_to(ROOT)}:")
    for place, text in sorted(new):
        quoted = json.dumps(text, ensure_ascii=False) if "'" in text else f"'{text}'"
        print(f'# {lived[place, text]}\n["{place}"]\n{quoted} = ""')
    for place, text in stale:
        print(f"A reason for what does not survive: {place}  {text}")
    if len(results) == len(lines):
        _write(results, survivors)
        if share < LEAST:
            return f"fewer than {LEAST:.0%} are noticed"
    return f"{len(new)} without a reason, {len(stale)} reasons too many" if new or stale else None


def reasons() -> dict[Key, str]:
    """Why survivors are the same program, by place and text."""
    places = tomllib.loads(REASONS.read_text(encoding="utf-8"))
    return {(place, text): why for place, texts in places.items() for text, why in texts.items()}


def unknown() -> list[Key]:
    """Reasons for changes of what the code does not say any more."""
    return [
        (place, text)
        for place, text in reasons()
        if text.partition(" => ")[0] not in _words(place.partition(":")[0])
    ]


@functools.cache
def _words(module: str) -> str:
    path = ROOT / f"{module.replace('.', '/')}.py"
    return " ".join(path.read_text(encoding="utf-8").split()) if path.exists() else ""


def _place(name: str) -> str:
    """Its module and function."""
    found = _NAME.fullmatch(name)
    assert found, name
    module, *function = filter(None, found.groups())
    return f"{module}:{'.'.join(function)}"


def _key(name: str) -> Key:
    """Its name, which depends on no line: its place, and its text there before and after."""
    lines = _mutmut("show", name).splitlines()[4:]
    before, after = (
        " ".join(line[1:].strip() for line in lines if line.startswith(sign)) for sign in "-+"
    )
    return _place(name), f"{before} => {after}"


def _mutmut(*arguments: str) -> str:
    return subprocess.check_output([_MUTMUT, *arguments], cwd=ROOT, text=True)


def _write(results: Iterable[str], survivors: Iterable[str]) -> None:
    """Their sum on the page, and the module of which least is noticed."""
    every, lived = (
        Counter(_place(each).split(":")[0] for each in names) for names in (results, survivors)
    )
    shares = {module: 1 - lived[module] / every[module] for module in sorted(every)}
    least = min(shares, key=lambda module: shares[module])
    noticed, total = every.total() - lived.total(), every.total()
    said = (
        f"{noticed:,} of {total:,} changes in {len(every)} modules are noticed"
        f" ({100 * noticed / total:.1f} %), least\nin `{least}` ({100 * shares[least]:.1f} %)."
    )
    marked = re.compile(r"(?<=<!-- mutants -->\n).*(?=<!-- /mutants -->)", re.DOTALL)
    text = marked.sub(f"\n{said}\n\n", PAGE.read_text(encoding="utf-8"))
    PAGE.write_text(text, encoding="utf-8")


if __name__ == "__main__":
    sys.exit(main())
