"""All small changes of a module, which a test ought to notice; they depend on its text alone.

Not changed: annotations, decorators, text, and what only guards against programmers (`strict=`).
"""

import ast
import collections
import functools
from collections.abc import Iterator
from dataclasses import dataclass
from pathlib import Path
from typing import Any, Final

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
_OPPOSITES: Final[tuple[tuple[type[ast.AST], type[ast.AST]], ...]] = (
    *((ast.Eq, ast.NotEq), (ast.Is, ast.IsNot), (ast.In, ast.NotIn), (ast.And, ast.Or)),
    *((ast.Add, ast.Sub), (ast.Mult, ast.Div)),
)
_OPERATORS: Final[dict[type[ast.AST], tuple[Any, ...]]] = {
    ast.Lt: (ast.LtE, ast.GtE),
    ast.LtE: (ast.Lt, ast.Gt),
    ast.Gt: (ast.GtE, ast.LtE),
    ast.GtE: (ast.Gt, ast.Lt),
    ast.FloorDiv: (ast.Mult,),
    **{old: (new,) for pair in _OPPOSITES for old, new in (pair, pair[::-1])},
}
_CALLS: Final = {"min": "max", "max": "min", "any": "all", "all": "any"}
_CONDITIONS: Final = (ast.If, ast.IfExp, ast.While)


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
        for outer, inner in zip(self.around, [*self.around[1:], self.node], strict=True):
            if isinstance(outer, _FUNCTIONS) and not isinstance(inner, ast.arguments):
                return outer
        return None

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
        value: Any = new
        if self.index is not None:
            old = getattr(self.holder, self.name)
            value = [*old[: self.index], *([new] if new else []), *old[self.index + 1 :]]
        setattr(self.holder, self.name, value)

    def texts(self, new: ast.AST | None) -> tuple[str, str]:
        """What is there, and what would be instead, with enough around it to distinguish them."""
        if isinstance(self.node, ast.match_case):
            return f"case {ast.unparse(self.node.pattern)}", "no case"
        if isinstance(self.node, ast.Dict) and isinstance(new, ast.Dict):
            pairs = zip(self.node.keys, self.node.values, strict=True)
            gone = next(pair for pair in pairs if pair[1] not in new.values)
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


@dataclass(frozen=True, slots=True)
class Mutant:
    """One change: `new` in place of a node of `tree`, which is its module's.

    `place`: module and function. `number`: of several with that text in that place.
    """

    module: str
    place: str
    before: str
    after: str
    number: int
    tree: ast.Module
    site: Site
    new: ast.AST | None

    @property
    def key(self) -> tuple[str, str]:
        """Its name, which depends on no line: its place, and its text there."""
        number = f" #{self.number}" if self.number > 1 else ""
        return self.place, f"{self.before} -> {self.after}{number}"

    @property
    def cold(self) -> bool:
        """Whether it is executed on import."""
        return self.site.function is None

    def made(self) -> ast.Module:
        """The module with that change, for as long as this process lives."""
        self.site.put(self.new and ast.copy_location(self.new, self.site.node))
        return ast.fix_missing_locations(self.tree)


def mutants_of(module: str) -> Iterator[Mutant]:
    """All changes of a module, in the order of its text."""
    seen = collections.Counter[tuple[str, ...]]()
    tree = ast.parse(path_of(module).read_text(encoding="utf-8"))
    for site in _sites(tree):
        place = f"{module.removeprefix('exporter.')}:{site.place}"
        for new in _variants(site):
            name = (place, *site.texts(new))
            seen[name] += 1
            yield Mutant(module, *name, seen[name], tree, site, new)


def path_of(module: str) -> Path:
    """The file of a module."""
    return ROOT / f"{module.replace('.', '/')}.py"


def _sites(node: ast.AST, around: tuple[ast.AST, ...] = ()) -> Iterator[Site]:
    """All nodes that may be replaced, in the order of the text."""
    around = (*around, node)
    for name, value in ast.iter_fields(node):
        several = isinstance(value, list)
        for index, each in enumerate(value if several else [value]):
            if name not in _NOT_CHANGED and isinstance(each, ast.AST) and not _is_left_out(each):
                yield Site(each, node, name, index if several else None, around)
                yield from _sites(each, around)


def _is_left_out(node: ast.AST) -> bool:
    match node:
        case ast.Expr(ast.Constant()) | ast.If(ast.Name("TYPE_CHECKING")) | ast.keyword("strict"):
            return True
        case ast.Import() | ast.ImportFrom():
            return True
    return _is_enum(node)


def _is_enum(node: ast.AST) -> bool:
    """Whether it is a class whose members, and not their values, matter."""
    bases = node.bases if isinstance(node, ast.ClassDef) else []
    return any(isinstance(base, ast.Name) and base.id in _ENUMS for base in bases)


# --- what may stand in the place of a node -------------------------------------


def _variants(site: Site) -> Iterator[ast.AST | None]:
    """What may; None for nothing."""
    node = site.node
    if (site.name == "test" and isinstance(site.holder, _CONDITIONS)) or site.name == "ifs":
        if not isinstance(site.holder, ast.While):
            yield ast.Constant(value=True)
        yield ast.Constant(value=False)
    if isinstance(node, ast.expr):
        yield from _of_expression(node, site)
    elif isinstance(node, ast.stmt):
        yield from _of_statement(node, site)
    elif isinstance(node, ast.match_case) and not isinstance(node.body[0], ast.Pass):
        yield None


def _of_operation(node: ast.expr) -> Iterator[ast.AST]:
    match node:
        case ast.Compare(left, ops, others):
            for at, op in enumerate(ops):
                for new in _OPERATORS.get(type(op), ()):
                    yield ast.Compare(left, [*ops[:at], new(), *ops[at + 1 :]], others)
        case ast.BoolOp(op, values):
            yield ast.BoolOp(_OPERATORS[type(op)][0](), values)
            for at in range(len(values)):
                rest = [*values[:at], *values[at + 1 :]]
                yield rest[0] if len(rest) == 1 else ast.BoolOp(op, rest)
        case ast.BinOp(left, op, right):
            for new in _OPERATORS.get(type(op), ()):
                yield ast.BinOp(left, new(), right)
        case ast.UnaryOp(ast.Not() | ast.USub(), operand):
            yield operand


def _of_expression(node: ast.expr, site: Site) -> Iterator[ast.AST]:
    match node:
        case ast.Constant(bool() as value):
            yield ast.Constant(value=not value)
        case ast.Constant(int() | float() as value):
            yield from (ast.Constant(value=value + 1), ast.Constant(value=value - 1))
        # A comparison with it is turned round elsewhere.
        case ast.Constant(None) if not isinstance(site.holder, ast.Compare):
            yield ast.Constant(value=True)
        case ast.Call(ast.Name(name), args, keywords) if name in _CALLS:
            yield ast.Call(ast.Name(_CALLS[name], ast.Load()), args, keywords)
        case ast.Attribute(ast.Name(name), member) if member in (members := _enums().get(name, [])):
            other = members[(members.index(member) + 1) % len(members)]
            yield ast.Attribute(node.value, other, ast.Load())
        case ast.Dict(keys, values) if len(keys) > 1:
            for at in range(len(keys)):
                yield ast.Dict([*keys[:at], *keys[at + 1 :]], [*values[:at], *values[at + 1 :]])
        case _:
            yield from _of_operation(node)


def _of_statement(node: ast.stmt, site: Site) -> Iterator[ast.AST]:
    match node:
        case ast.Return(ast.expr() as value) if not isinstance(value, ast.Constant):
            yield ast.Return(ast.Constant(value=None))
        case ast.Continue():
            yield from (ast.Break(), ast.Pass())
        case ast.Break():
            yield from (ast.Continue(), ast.Pass())
        case ast.AugAssign(target, op, value):
            yield ast.Assign([target], value, lineno=node.lineno)
            for new in _OPERATORS.get(type(op), ()):
                yield ast.AugAssign(target, new(), value)
            yield ast.Pass()
        case ast.Expr() | ast.Delete():
            yield ast.Pass()
        case ast.Assign() | ast.AnnAssign() if site.function:
            # Without it what it sets must exist: else every test that comes here would fail.
            targets = node.targets if isinstance(node, ast.Assign) else [node.target]
            names = {name for target in targets for name, _ in _names_set(target)}
            if names <= {name for name, at in _names_set(site.function) if at < node.lineno}:
                yield ast.Pass()


def _names_set(node: ast.AST) -> Iterator[tuple[str, int]]:
    for each in ast.walk(node):
        if isinstance(each, ast.Name) and isinstance(each.ctx, ast.Store):
            yield each.id, each.lineno
        elif isinstance(each, ast.arg):
            yield each.arg, each.lineno


@functools.cache
def _enums() -> dict[str, list[str]]:
    """The members of the core's enums, by name."""
    found = {}
    rooms = (sorted((ROOT / "exporter" / room).glob("*.py")) for room in ("model", "pleg"))
    for path in (path for room in rooms for path in room):
        for node in ast.parse(path.read_text(encoding="utf-8")).body:
            if isinstance(node, ast.ClassDef) and _is_enum(node):
                assigned = (each.targets[0] for each in node.body if isinstance(each, ast.Assign))
                found[node.name] = [each.id for each in assigned if isinstance(each, ast.Name)]
    return found
