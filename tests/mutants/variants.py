"""What may stand in the place of a node: small changes that a test ought to notice."""

import ast
import functools
from collections.abc import Iterator
from typing import Any, Final

from tests import ROOT
from tests.mutants.sites import Site, is_enum, path_of

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
_CONDITIONS: Final = (ast.If, ast.IfExp, ast.While)


def variants(site: Site) -> Iterator[ast.AST | None]:
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


def _of_expression(node: ast.expr, site: Site) -> Iterator[ast.AST]:
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
        case ast.Assign() | ast.AnnAssign() if site.function and _is_set_before(node, site):
            yield ast.Pass()


def _is_set_before(node: ast.Assign | ast.AnnAssign, site: Site) -> bool:
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


@functools.cache
def _enums() -> dict[str, list[str]]:
    """The members of the core's enums, by name."""
    rooms = (ROOT / "exporter" / room for room in ("model", "pleg"))
    paths = [
        path_of("exporter.account"),
        *sorted(path for room in rooms for path in room.glob("*.py")),
    ]
    found = {}
    for path in paths:
        for node in ast.parse(path.read_text(encoding="utf-8")).body:
            if isinstance(node, ast.ClassDef) and is_enum(node):
                assigned = (each.targets[0] for each in node.body if isinstance(each, ast.Assign))
                found[node.name] = [each.id for each in assigned if isinstance(each, ast.Name)]
    return found
