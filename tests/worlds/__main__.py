"""`python -m tests.worlds`: search all families of small worlds, and compare with what is kept.

Prints each family's histories and distinct states, what was found in them, and digests of all
verdicts: of short histories, and of long ones by chance. Exit code 1 if ledger and oracle differ
anywhere, or a digest is not the one in `digests.txt`.
"""

import argparse
import re
import sys
from collections import Counter
from concurrent.futures import ProcessPoolExecutor
from pathlib import Path

from tests import ROOT
from tests.worlds.families import FAMILIES
from tests.worlds.search import Family, Graph, explore

DIGESTS = Path(__file__).parent / "digests.txt"
PAGE = ROOT / "docs" / "proof.md"
_MARKED = re.compile(r"(?<=<!-- worlds -->\n).*(?=<!-- /worlds -->)", re.DOTALL)
# Histories by chance in each family, for `make quick` and for `make worlds`.
QUICK, LONG = 10, 500


def line(family: Family, depth: int, graph: Graph) -> str:
    """What is kept of one search: it does not depend on how a ledger keeps what it knows."""
    count, digest = len(graph.walks), graph.digest_of_walks
    return (
        f"{family.name}, {depth} steps: {graph.histories} histories, {graph.digest};"
        f" {count} by chance, {digest}"
    )


def kept() -> set[str]:
    """The lines of `digests.txt`."""
    return set(DIGESTS.read_text().splitlines())


def main() -> int:
    """The exit code."""
    parser = argparse.ArgumentParser(prog="python -m tests.worlds", description=__doc__)
    parser.add_argument("--quick", action="store_true", help="only as deep as `make quick`")
    parser.add_argument("--write", action="store_true", help="keep the digests")
    options = parser.parse_args()
    depths = [family.quick if options.quick else family.long for family in FAMILIES]
    walks = [QUICK if options.quick else LONG] * len(FAMILIES)
    graphs: list[Graph] = []
    lines: list[str] = []
    with ProcessPoolExecutor() as pool:
        for family, depth, graph in zip(
            FAMILIES, depths, pool.map(explore, FAMILIES, depths, walks), strict=True
        ):
            graphs.append(graph)
            for difference in graph.differences:
                print(difference, end="\n\n")
            if not graph.differences:
                lines.append(line(family, depth, graph))
                print(f"{lines[-1]}, {graph.states} states", flush=True)
    found = sum((graph.found for graph in graphs), Counter())
    print(", ".join(f"{times} {verdict}" for verdict, times in sorted(found.items())))
    states = sum(graph.states for graph in graphs)
    different = sum(len(graph.differences) for graph in graphs)
    print(f"{states} distinct states, {different} differences")
    if not (options.quick or different):
        histories = sum(graph.histories for graph in graphs)
        long = sum(len(graph.walks) for graph in graphs)
        _page(
            f"{histories:,} histories of {len(FAMILIES)} families, {states:,} distinct states,"
            f" and {long:,} histories of forty steps by chance"
        )
    if options.write and not different:
        others = {each for each in kept() if not any(_is_same(each, new) for new in lines)}
        DIGESTS.write_text("\n".join(sorted(others | set(lines))) + "\n")
    changed = [each for each in lines if each not in kept()]
    for each in changed:
        print(f"not in {DIGESTS.name}: {each}", file=sys.stderr)
    return 1 if different or changed else 0


def _page(found: str) -> None:
    page = PAGE.read_text(encoding="utf-8")
    text = f"\n{found}: no difference.\n\n"
    PAGE.write_text(_MARKED.sub(text, page), encoding="utf-8")


def _is_same(old: str, new: str) -> bool:
    return old.partition(":")[0] == new.partition(":")[0]


if __name__ == "__main__":
    sys.exit(main())
