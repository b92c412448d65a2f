"""Small changes of a module that a test ought to notice, by its syntax tree.

Not changed: annotations, decorators, text, and what only guards against programmers (`strict=`).
The changes and their order depend on the text of the modules alone.
"""

import ast
import collections
import functools
from collections.abc import Iterator
from dataclasses import dataclass
from pathlib import Path
from typing import Any, Final

from tests import ROOT

_OPERATORS: Final[dict[type[ast.AST], tuple[Any, ...]]] = {
    ast.Lt: (ast.LtE, ast.GtE),
    ast.LtE: (ast.Lt, ast.Gt),
    ast.Gt: (ast.GtE, ast.LtE),
    ast.GtE: (ast.Gt, ast.Lt),
    ast.Eq: (ast.NotEq,),
    ast.NotEq: (ast.Eq,),
    ast.Is: (ast.IsNot,),
    ast.IsNot: (ast.Is,),
    ast.In: (ast.NotIn,),
    ast.NotIn: (ast.In,),
    ast.And: (ast.Or,),
    ast.Or: (ast.And,),
    ast.Add: (ast.Sub,),
    ast.Sub: (ast.Add,),
    ast.Mult: (ast.Div,),
    ast.Div: (ast.Mult,),
    ast.FloorDiv: (ast.Mult,),
}
_CALLS: Final = {"min": "max", "max": "min", "any": "all", "all": "any"}
_NOT_CHANGED: Final = {"annotation", "returns", "decorator_list", "bases", "op", "ops", "ctx"}
_FUNCTIONS: Final = (ast.FunctionDef, ast.AsyncFunctionDef)
_CONDITIONS: Final = (ast.If, ast.IfExp, ast.While)
_BLOCKS: Final = (
    *(ast.Module, ast.ClassDef, ast.If, ast.For, ast.While, ast.With, ast.Try, ast.Match),
    *(ast.match_case, *_FUNCTIONS),
)
_ENUMS: Final = {"Enum", "IntEnum", "Quick"}
# What is shown of a change has so many characters, if there is such a part around it.
_SHORT: Final = 30
_LONG: Final = 100


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
    def text(self) -> str:
        """Its name within its place, which depends on no line."""
        return f"{self.before} -> {self.after}" + (f" #{self.number}" if self.number > 1 else "")


@dataclass(frozen=True, slots=True)
class _Site:
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


def mutants_of(module: str) -> list[Mutant]:
    """All changes of a module, in the order of its text."""
    seen = collections.Counter[tuple[str, ...]]()
    found = []
    for number, site in enumerate(_sites(_parsed(module), ())):
        place = f"{module.removeprefix('exporter.')}:{site.place}"
        for variant, new in enumerate(_variants(site)):
            name = (place, *site.texts(new))
            seen[name] += 1
            cold = site.function is None
            found.append(Mutant(module, *name, seen[name], site.lines, cold, number, variant))
    return found


def changed(mutant: Mutant) -> ast.Module:
    """The module with that change."""
    tree = _parsed(mutant.module)
    site = list(_sites(tree, ()))[mutant.site]
    new = list(_variants(site))[mutant.variant]
    site.put(new if new is None else ast.copy_location(new, site.node))
    return ast.fix_missing_locations(tree)


def path_of(module: str) -> Path:
    """The file of a module."""
    return ROOT / f"{module.replace('.', '/')}.py"


def _parsed(module: str) -> ast.Module:
    return ast.parse(path_of(module).read_text(encoding="utf-8"))


@functools.cache
def _enums() -> dict[str, list[str]]:
    """The members of the core's enums, by name."""
    paths = [path_of("exporter.account"), *sorted((ROOT / "exporter" / "pleg").glob("*.py"))]
    found = {}
    for path in paths:
        for node in ast.parse(path.read_text(encoding="utf-8")).body:
            if isinstance(node, ast.ClassDef) and _is_enum(node):
                assigned = (each.targets[0] for each in node.body if isinstance(each, ast.Assign))
                found[node.name] = [each.id for each in assigned if isinstance(each, ast.Name)]
    return found


def _is_enum(node: ast.ClassDef) -> bool:
    return any(isinstance(base, ast.Name) and base.id in _ENUMS for base in node.bases)


def _sites(node: ast.AST, around: tuple[ast.AST, ...]) -> Iterator[_Site]:
    """All nodes that may be replaced, in the order of the text."""
    around = (*around, node)
    for name, value in ast.iter_fields(node):
        if name in _NOT_CHANGED:
            continue
        several = isinstance(value, list)
        for index, each in enumerate(value if several else [value]):
            if isinstance(each, ast.AST) and not _is_left_out(each):
                yield _Site(each, node, name, index if several else None, around)
                yield from _sites(each, around)


def _is_left_out(node: ast.AST) -> bool:
    match node:
        case ast.Expr(ast.Constant()) | ast.If(ast.Name("TYPE_CHECKING")):
            return True
        case ast.keyword("strict"):
            return True
        case ast.ClassDef():
            return _is_enum(node)
    return isinstance(node, (ast.Import, ast.ImportFrom))


def _variants(site: _Site) -> Iterator[ast.AST | None]:
    """What may stand in its place; None for nothing."""
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


def _of_expression(node: ast.expr, site: _Site) -> Iterator[ast.AST]:
    match node:
        case ast.Constant(value):
            yield from _of_constant(value, site.holder)
        case ast.Call(ast.Name(name), args, keywords) if name in _CALLS:
            yield ast.Call(ast.Name(_CALLS[name], ast.Load()), args, keywords)
        case ast.Attribute(ast.Name(name), member) if member in _enums().get(name, ()):
            members = _enums()[name]
            other = members[(members.index(member) + 1) % len(members)]
            yield ast.Attribute(node.value, other, ast.Load())
        case ast.Dict(keys, values) if len(keys) > 1:
            for at in range(len(keys)):
                yield ast.Dict([*keys[:at], *keys[at + 1 :]], [*values[:at], *values[at + 1 :]])
        case _:
            yield from _of_operation(node)


def _of_constant(value: object, holder: ast.AST) -> Iterator[ast.AST]:
    if isinstance(value, bool):
        yield ast.Constant(value=not value)
    elif isinstance(value, (int, float)):
        yield ast.Constant(value=value + 1)
        yield ast.Constant(value=value - 1)
    # A comparison with it is turned round elsewhere.
    elif value is None and not isinstance(holder, ast.Compare):
        yield ast.Constant(value=True)


def _of_statement(node: ast.stmt, site: _Site) -> Iterator[ast.AST]:
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
        case ast.Assign() | ast.AnnAssign() if site.function and _is_set_before(node, site):
            yield ast.Pass()


def _is_set_before(node: ast.Assign | ast.AnnAssign, site: _Site) -> bool:
    """Whether what it sets exists without it: else every test that comes here would fail."""
    targets = node.targets if isinstance(node, ast.Assign) else [node.target]
    names = {name for target in targets for name in _names_set(target)}
    function = site.function or node
    earlier = (each for each in ast.walk(function) if isinstance(each, (ast.Name, ast.arg)))
    before = [each for each in earlier if each.lineno < node.lineno]
    return names <= {name for each in before for name in _names_set(each)}


def _names_set(node: ast.AST) -> Iterator[str]:
    for each in ast.walk(node):
        if isinstance(each, ast.Name) and isinstance(each.ctx, ast.Store):
            yield each.id
        elif isinstance(each, ast.arg):
            yield each.arg
