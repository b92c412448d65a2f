"""Where a module can be changed: the nodes of its syntax tree.

Not changed: annotations, decorators, text, and what only guards against programmers (`strict=`).
"""

import ast
from collections.abc import Iterator
from dataclasses import dataclass
from pathlib import Path
from typing import Final

from tests import ROOT

_ENUMS: Final = {"Enum", "IntEnum", "Quick"}
_NOT_CHANGED: Final = {"annotation", "returns", "decorator_list", "bases", "op", "ops", "ctx"}
_FUNCTIONS: Final = (ast.FunctionDef, ast.AsyncFunctionDef)
_BLOCKS: Final = (
    *(ast.Module, ast.ClassDef, ast.If, ast.For, ast.While, ast.With, ast.Try, ast.Match),
    *(ast.match_case, *_FUNCTIONS),
)
# What is shown of a change has so many characters, if there is such a part around it.
_SHORT: Final = 30
_LONG: Final = 100


@dataclass(frozen=True, slots=True)
class Site:
    """A node, where its parent has it, and what is around it, the outermost first."""

    node: ast.AST
    holder: ast.AST
    name: str
    index: int | None
    around: tuple[ast.AST, ...]

    @property
    def place(self) -> str:
        """The names of the class and the function around it."""
        kinds = (ast.ClassDef, *_FUNCTIONS)
        return ".".join(each.name for each in self.around if isinstance(each, kinds))

    @property
    def function(self) -> ast.AST | None:
        """Whose call executes it; None if the import does: the default of a parameter, too."""
        pairs = zip(self.around, [*self.around[1:], self.node], strict=True)
        inside = (
            outer
            for outer, inner in pairs
            if isinstance(outer, _FUNCTIONS) and not isinstance(inner, ast.arguments)
        )
        return next(inside, None)

    @property
    def lines(self) -> range:
        """Of its statement; of one with a block, of its head."""
        own = [each for each in (*self.around, self.node) if isinstance(each, ast.stmt)][-1]
        head: list[ast.AST] = [own]
        if isinstance(own, _BLOCKS):
            head = [each for each in ast.iter_child_nodes(own) if isinstance(each, ast.expr)]
        ends = (each.end_lineno or 0 for each in head if isinstance(each, (ast.expr, ast.stmt)))
        return range(own.lineno, 1 + max(ends, default=own.lineno))

    def put(self, new: ast.AST | None) -> None:
        """Replace it; by nothing if that is None."""
        old = getattr(self.holder, self.name)
        if self.index is not None:
            nodes = [] if new is None else [new]
            setattr(self.holder, self.name, [*old[: self.index], *nodes, *old[self.index + 1 :]])
        else:
            setattr(self.holder, self.name, new)

    def texts(self, new: ast.AST | None) -> tuple[str, str]:
        """What is there, and what would be instead, with as much around it as tells them apart."""
        if isinstance(self.node, ast.match_case):
            return f"case {ast.unparse(self.node.pattern)}", "no case"
        if isinstance(self.node, ast.Dict) and isinstance(new, ast.Dict):
            pairs = zip(self.node.keys, self.node.values, strict=True)
            gone = next(pair for pair in pairs if pair[0] not in new.keys and pair[0])
            return ": ".join(ast.unparse(each) for each in gone if each), "no entry"
        chain = [*self.around, self.node]
        while any(isinstance(each, _BLOCKS) for each in chain[:-1]):
            del chain[0]
        nodes = [each for each in chain if isinstance(each, (ast.expr, ast.stmt))]
        sizes = {each: len(ast.unparse(each)) for each in reversed(nodes)}
        fitting = [each for each, size in sizes.items() if size <= _LONG] or nodes[-1:]
        shown = next((each for each in fitting if sizes[each] >= _SHORT), fitting[-1])
        before, old = ast.unparse(shown), getattr(self.holder, self.name)
        self.put(new)
        after = ast.unparse(new if new and shown is self.node else shown)
        setattr(self.holder, self.name, old)
        return before, after


def path_of(module: str) -> Path:
    """The file of a module."""
    return ROOT / f"{module.replace('.', '/')}.py"


def parsed(module: str) -> ast.Module:
    """Its tree."""
    return ast.parse(path_of(module).read_text(encoding="utf-8"))


def sites(node: ast.AST, around: tuple[ast.AST, ...] = ()) -> Iterator[Site]:
    """All nodes that may be replaced, in the order of the text."""
    around = (*around, node)
    for name, value in ast.iter_fields(node):
        if name in _NOT_CHANGED:
            continue
        several = isinstance(value, list)
        for index, each in enumerate(value if several else [value]):
            if isinstance(each, ast.AST) and not _is_left_out(each):
                yield Site(each, node, name, index if several else None, around)
                yield from sites(each, around)


def _is_left_out(node: ast.AST) -> bool:
    match node:
        case ast.Expr(ast.Constant()) | ast.If(ast.Name("TYPE_CHECKING")):
            return True
        case ast.keyword("strict"):
            return True
        case ast.ClassDef():
            return is_enum(node)
    return isinstance(node, (ast.Import, ast.ImportFrom))


def is_enum(node: ast.ClassDef) -> bool:
    """Whether its members, and not its values, matter."""
    return any(isinstance(base, ast.Name) and base.id in _ENUMS for base in node.bases)
