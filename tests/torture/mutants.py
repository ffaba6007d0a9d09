"""Mutation testing: `python -m torture.mutants --mutants 500`.

A mutant is the source of one module with one change: a comparison, an operator, a number, a
condition or a statement. The related tests are run on it, those of the same name first; a mutant
that passes all of them survives. Mutants are drawn at random from all there are, by a seed that is
printed, and the share of killed ones comes with its Wilson interval. Every mutant has a process of
its own, forked after torch was imported, into which the changed source is put when the module is
imported.
"""

from __future__ import annotations

import argparse
import ast
import importlib.machinery
import json
import math
import os
import signal
import sys
import time
from collections.abc import Iterator
from dataclasses import dataclass
from pathlib import Path
from random import Random
from typing import Any

ROOT = Path(__file__).parents[2]
SOURCE, TESTS = ROOT / "src" / "graphdrop", ROOT / "tests"
TARGETS = {
    "rates/*.py": ("rates", "samplers"),
    "estimators/*.py": ("estimators",),
    "samplers/*.py": ("samplers", "nn/test_rows.py"),
    "kernels/reference.py": (
        "kernels/test_reference.py",
        "kernels/test_fused.py",
        "kernels/test_paper.py",
    ),
    "metrics/*.py": ("metrics",),
    "inference/calibration/*.py": (
        "inference/test_calibration.py",
        "inference/test_graph_calibration.py",
        "inference/test_isotonic.py",
        "inference/test_entropy_temperature.py",
        "inference/test_gaussian.py",
        "inference/test_labels.py",
    ),
}
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
        elif isinstance(node, (ast.If, ast.IfExp)):
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


def mutants_of(path: Path) -> list[Mutant]:
    tree = ast.parse(path.read_text())
    return [
        Mutant(path, number, getattr(node, "lineno", 0), what)
        for number, (node, what, _) in enumerate(changes(tree))
    ]


def mutated(mutant: Mutant) -> ast.Module:
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


def related(path: Path) -> list[str]:
    """The tests of a module, those of its own name first."""
    inside = path.relative_to(SOURCE)
    names = next(tests for pattern, tests in TARGETS.items() if inside.match(pattern))
    files: list[Path] = []
    for name in names:
        place = TESTS / name
        files += sorted(place.glob("test_*.py")) if place.is_dir() else [place]
    own = f"test_{path.stem}.py"
    return [str(file) for file in sorted(files, key=lambda file: file.name != own)]


def survives(mutant: Mutant, seconds: float) -> str:
    """`killed`, `survived` or `timeout`, by the tests of this mutant in a child process."""
    process = os.fork()
    if process == 0:
        os._exit(_child(mutant))
    deadline = time.monotonic() + seconds
    while time.monotonic() < deadline:
        done, status = os.waitpid(process, os.WNOHANG)
        if done:
            code = os.waitstatus_to_exitcode(status)
            return {0: "survived", 1: "killed", 2: "killed"}.get(code, f"killed ({code})")
        time.sleep(0.05)
    os.kill(process, signal.SIGKILL)
    os.waitpid(process, 0)
    return "timeout"


def _child(mutant: Mutant) -> int:
    quiet = os.open(os.devnull, os.O_WRONLY)
    os.dup2(quiet, 1)
    os.dup2(quiet, 2)
    if mutant.number >= 0:
        _install(mutant)
    import pytest  # noqa: PLC0415

    options = ["-x", "-q", "-p", "no:cacheprovider", "-p", "no:xdist", "--no-header", "--tb=no"]
    return int(pytest.main([*options, "--rootdir", str(ROOT), *related(mutant.path)]))


def _install(mutant: Mutant) -> None:
    """Let the import of the module give the mutant."""
    code = compile(mutated(mutant), str(mutant.path), "exec")
    loader = importlib.machinery.SourceFileLoader
    original = loader.get_code

    def get_code(self: Any, name: str) -> Any:
        return (
            code
            if os.path.realpath(self.path) == os.path.realpath(mutant.path)
            else original(self, name)
        )

    loader.get_code = get_code  # type: ignore[method-assign]


def wilson(hits: int, count: int, z: float = 1.96) -> tuple[float, float]:
    """The 95 % interval of a share."""
    if not count:
        return 0.0, 1.0
    share, square = hits / count, z * z
    middle = (share + square / (2 * count)) / (1 + square / count)
    half = (
        z / (1 + square / count) * math.sqrt(share * (1 - share) / count + square / (4 * count**2))
    )
    return middle - half, middle + half


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--mutants", type=int, default=500)
    parser.add_argument("--seed", type=int, default=21)
    parser.add_argument("--minutes", type=float, help="stop after so many, with fewer mutants")
    parser.add_argument("--target", action="append", help="only modules with this in their path")
    parser.add_argument("--output", type=Path)
    options = parser.parse_args()
    every = [
        mutant
        for pattern in TARGETS
        for path in sorted(SOURCE.glob(pattern))
        if not options.target or any(word in str(path) for word in options.target)
        for mutant in mutants_of(path)
    ]
    Random(options.seed).shuffle(every)
    _import_what_takes_time()
    limits = {
        path: _limit(path) for path in dict.fromkeys(one.path for one in every[: options.mutants])
    }
    start, found = time.monotonic(), []
    for mutant in every[: options.mutants]:
        if options.minutes and time.monotonic() - start > 60 * options.minutes:
            break
        outcome = survives(mutant, limits[mutant.path])
        found.append((mutant, outcome))
        if outcome == "survived":
            where = mutant.path.relative_to(SOURCE)
            print(f"survived: {where}:{mutant.line} {mutant.what}", flush=True)
    killed = sum(outcome != "survived" for _, outcome in found)
    low, high = wilson(killed, len(found))
    print(
        f"{killed} of {len(found)} mutants killed: {killed / max(1, len(found)):.1%} "
        f"(95 %: {low:.1%} to {high:.1%}), of {len(every)} there are, seed {options.seed}"
    )
    if options.output:
        counts = {
            "seed": options.seed,
            "there_are": len(every),
            "mutants": len(found),
            "killed": killed,
        }
        counts |= {"low": round(low, 4), "high": round(high, 4)}
        counts["survivors"] = [
            f"{one.path.relative_to(SOURCE)}:{one.line} {one.what}"
            for one, o in found
            if o == "survived"
        ]
        options.output.parent.mkdir(parents=True, exist_ok=True)
        options.output.write_text(json.dumps(counts, indent=1) + "\n")
    sys.exit(0 if killed >= 0.85 * len(found) else 1)


def _import_what_takes_time() -> None:
    """All but the package itself, which every child imports anew."""
    import numba  # noqa: F401, PLC0415
    import pandas  # noqa: F401, PLC0415
    import pydantic  # noqa: F401, PLC0415
    import scipy.special  # noqa: PLC0415
    import scipy.stats  # noqa: F401, PLC0415
    import sklearn.metrics  # noqa: F401, PLC0415
    import torch  # noqa: F401, PLC0415
    import torch_geometric  # noqa: PLC0415
    import torch_geometric.nn  # noqa: F401, PLC0415
    import torchmetrics  # noqa: F401, PLC0415
    import typer  # noqa: F401, PLC0415

    assert "graphdrop" not in sys.modules


_limits: dict[tuple[str, ...], float] = {}


def _limit(path: Path) -> float:
    """Three times what the tests take on the unchanged module, and half a minute."""
    tests = tuple(sorted(related(path)))
    if tests not in _limits:
        start = time.monotonic()
        outcome = survives(Mutant(path, -1, 0, "nothing"), 3600.0)
        assert outcome == "survived", f"the tests of {path} fail without a mutant: {outcome}"
        _limits[tests] = 3 * (time.monotonic() - start) + 30
    return _limits[tests]


if __name__ == "__main__":
    main()
