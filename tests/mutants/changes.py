"""All small changes of a module; they and their order depend on the text of the core alone."""

import ast
import collections
from dataclasses import dataclass

from tests.mutants.sites import parsed, sites
from tests.mutants.variants import variants


@dataclass(frozen=True, slots=True)
class Mutant:
    """One change. `place`: module and function. `number`: of several with that text in that place.

    `lines`: of what is changed; `cold`: executed on import. `site`, `variant`: which node of the
    module's tree, and which of the changes that are possible there.
    """

    module: str
    place: str
    before: str
    after: str
    number: int
    lines: range
    cold: bool
    site: int
    variant: int

    @property
    def key(self) -> tuple[str, str]:
        """Its name, which depends on no line."""
        return self.place, self.text

    @property
    def text(self) -> str:
        """Its name within its place."""
        return f"{self.before} -> {self.after}" + (f" #{self.number}" if self.number > 1 else "")


def mutants_of(module: str) -> list[Mutant]:
    """All changes of a module, in the order of its text."""
    seen = collections.Counter[tuple[str, ...]]()
    found = []
    for number, site in enumerate(sites(parsed(module))):
        place = f"{module.removeprefix('exporter.')}:{site.place}"
        for variant, new in enumerate(variants(site)):
            name = (place, *site.texts(new))
            seen[name] += 1
            cold = site.function is None
            found.append(Mutant(module, *name, seen[name], site.lines, cold, number, variant))
    return found


def changed(mutant: Mutant) -> ast.Module:
    """The module with that change."""
    tree = parsed(mutant.module)
    site = list(sites(tree))[mutant.site]
    new = list(variants(site))[mutant.variant]
    site.put(new if new is None else ast.copy_location(new, site.node))
    return ast.fix_missing_locations(tree)
