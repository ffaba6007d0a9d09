"""The changes that make mutants: one comparison, operator, number, condition or statement each."""

from __future__ import annotations

import ast
from collections.abc import Iterator
from dataclasses import dataclass
from pathlib import Path
from typing import Any

COMPARISONS: dict[type[ast.cmpop], tuple[type[ast.cmpop], ...]] = {
    ast.Lt: (ast.LtE, ast.Gt),
    ast.LtE: (ast.Lt, ast.Gt),
    ast.Gt: (ast.GtE, ast.Lt),
    ast.GtE: (ast.Gt, ast.Lt),
    ast.Eq: (ast.NotEq,),
    ast.NotEq: (ast.Eq,),
    ast.Is: (ast.IsNot,),
    ast.IsNot: (ast.Is,),
    ast.In: (ast.NotIn,),
    ast.NotIn: (ast.In,),
}
OPERATORS: dict[type[ast.operator], type[ast.operator]] = {
    ast.Add: ast.Sub,
    ast.Sub: ast.Add,
    ast.Mult: ast.Div,
    ast.Div: ast.Mult,
    ast.FloorDiv: ast.Mult,
    ast.Mod: ast.Mult,
    ast.Pow: ast.Mult,
    ast.BitAnd: ast.BitOr,
    ast.BitOr: ast.BitAnd,
    ast.LShift: ast.RShift,
    ast.RShift: ast.LShift,
    ast.BitXor: ast.BitAnd,
}


@dataclass(frozen=True)
class Mutant:
    """One change of one module."""

    path: Path
    number: int
    """Of all changes of the module."""
    line: int
    what: str

    def __str__(self) -> str:
        parts = self.path.parts
        place = "/".join(parts[parts.index("graphdrop") + 1 :])
        return f"{place}:{self.line} {self.what} #{self.number}"


def changes(tree: ast.Module) -> Iterator[tuple[ast.AST, str, Any]]:
    """Every node that can be changed, with what is done and a function that does it in place."""
    for node in _code(tree):
        if isinstance(node, ast.Compare) and type(node.ops[0]) in COMPARISONS:
            for new in COMPARISONS[type(node.ops[0])]:
                yield (
                    node,
                    f"comparison to {new.__name__}",
                    lambda n, new=new: n.ops.__setitem__(0, new()),
                )
        elif isinstance(node, (ast.BinOp, ast.AugAssign)) and type(node.op) in OPERATORS:
            new = OPERATORS[type(node.op)]
            yield (
                node,
                f"{type(node.op).__name__} to {new.__name__}",
                lambda n, new=new: setattr(n, "op", new()),
            )
        elif isinstance(node, ast.BoolOp):
            new = ast.Or if isinstance(node.op, ast.And) else ast.And
            yield (
                node,
                f"{type(node.op).__name__} to {new.__name__}",
                lambda n, new=new: setattr(n, "op", new()),
            )
        elif isinstance(node, ast.UnaryOp) and isinstance(node.op, ast.USub):
            yield node, "minus to plus", lambda n: setattr(n, "op", ast.UAdd())
        elif isinstance(node, (ast.If, ast.IfExp)) and ast.unparse(node.test) != "TYPE_CHECKING":
            yield node, "condition negated", _negated
        elif isinstance(node, ast.Constant) and type(node.value) in (int, float, bool):
            yield node, f"{node.value} to another", _another
        elif isinstance(node, ast.Return) and node.value is not None:
            yield node, "returns None", lambda n: setattr(n, "value", ast.Constant(None))
        elif isinstance(node, (ast.AugAssign, ast.Expr)) and not isinstance(
            node.value, ast.Constant
        ):
            yield node, "statement left out", None


def _negated(node: Any) -> None:
    node.test = ast.UnaryOp(ast.Not(), node.test)


def _another(node: ast.Constant) -> None:
    value = node.value
    if isinstance(value, bool):
        node.value = not value
    elif isinstance(value, (int, float)):
        node.value = value + 1 if isinstance(value, int) or value == 0 else value * 1.5


def _code(tree: ast.AST) -> Iterator[ast.AST]:
    """Nodes that are run: no annotations, no messages of errors, no imports, no `__all__`."""
    for name, value in ast.iter_fields(tree):
        if name in ("annotation", "returns", "type_params") or isinstance(
            tree, (ast.Raise, ast.JoinedStr)
        ):
            continue
        for node in value if isinstance(value, list) else [value]:
            if not isinstance(node, ast.AST) or isinstance(node, (ast.Import, ast.ImportFrom)):
                continue
            targets = getattr(node, "targets", [])
            if any(isinstance(one, ast.Name) and one.id == "__all__" for one in targets):
                continue
            if isinstance(node, ast.FunctionDef) and node.name in ("__repr__", "extra_repr"):
                continue
            yield node
            yield from _code(node)


def list_mutants(path: Path) -> list[Mutant]:
    """Return all changes of a module."""
    found = changes(ast.parse(path.read_text()))
    return [
        Mutant(path, number, getattr(node, "lineno", 0), what)
        for number, (node, what, _) in enumerate(found)
    ]


def is_same(mutant: Mutant) -> bool:
    """Whether a change compiles to the same code, and so is none."""
    original = compile(mutant.path.read_text(), "", "exec", dont_inherit=True)
    return compile(mutate(mutant), "", "exec", dont_inherit=True) == original


def mutate(mutant: Mutant) -> ast.Module:
    tree = ast.parse(mutant.path.read_text())
    for number, (node, _, change) in enumerate(changes(tree)):
        if number == mutant.number:
            if change is None:
                _leave_out(tree, node)
            else:
                change(node)
            break
    return ast.fix_missing_locations(tree)


def _leave_out(tree: ast.Module, statement: ast.AST) -> None:
    for node in ast.walk(tree):
        for name in ("body", "orelse", "finalbody"):
            block = getattr(node, name, None)
            if isinstance(block, list) and any(one is statement for one in block):
                block[:] = [
                    ast.copy_location(ast.Pass(), one) if one is statement else one for one in block
                ]
