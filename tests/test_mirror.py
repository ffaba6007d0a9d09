"""Tests mirror the package: a module that has behaviour has a file of tests of its name."""

import ast
from pathlib import Path

ROOT = Path(__file__).parents[1]
SOURCE = ROOT / "src" / "graphdrop"
ELSEWHERE = Path(__file__).with_name("mirror_exceptions.txt")
"""Modules whose tests are in files of other names, one in a line; the list only gets shorter."""


def behaves(path: Path) -> bool:
    """Whether a module defines a function."""
    tree = ast.parse(path.read_text("utf-8"))
    return any(isinstance(node, ast.FunctionDef) for node in ast.walk(tree))


def test_every_module_with_behaviour_has_tests_of_its_name_or_is_a_known_exception():
    modules = [path for path in sorted(SOURCE.rglob("*.py")) if not path.name.startswith("__")]
    places = [path.relative_to(SOURCE) for path in modules if behaves(path)]
    missing = {
        place.as_posix()
        for place in places
        if not (ROOT / "tests" / place.parent / f"test_{place.stem}.py").is_file()
        # the command's tests stand at the top: what is typed passes through every room
        and not (ROOT / "tests" / f"test_cli_{place.stem}.py").is_file()
    }
    known = set(ELSEWHERE.read_text("utf-8").split())
    assert missing - known == set(), "write tests/ROOM/test_MODULE.py"
    assert known - missing == set(), "these have tests now, or are gone: take them off the list"
