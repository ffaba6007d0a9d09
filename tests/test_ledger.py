"""The ledger of capabilities is complete, names nothing that is gone, and all its tests exist."""

import importlib
import pkgutil
import re
from pathlib import Path

import typer

import graphdrop
from graphdrop.cli import app
from graphdrop.config.toml import explained

ROOT = Path(__file__).parents[1]
LEDGER = ROOT / "docs" / "project" / "ledger.md"
SECTIONS = dict(re.findall(r"^## (.+)\n([^#]+)", LEDGER.read_text("utf-8"), re.MULTILINE))
NOT_PUBLIC = {"cli", "io"}


def rows(section: str) -> list[list[str]]:
    """The cells of the rows of a section's table, without its head."""
    lines = [line for line in SECTIONS[section].splitlines() if line.startswith("|")]
    return [[cell.strip() for cell in line.strip("|").split("|")] for line in lines[2:]]


def words(cell: str) -> list[str]:
    """The words in backticks."""
    return re.findall(r"`([^`]+)`", cell)


def compare(listed: list[str], found: set[str], section: str) -> None:
    """Fail with the lines to edit if the ledger and the code name different things."""
    more, less = sorted(found - set(listed)), sorted(set(listed) - found)
    twice = sorted({name for name in listed if listed.count(name) > 1})
    assert not more, f"add to '{section}' of {LEDGER.name}, each with a test that holds it: {more}"
    assert not less, f"take out of '{section}' of {LEDGER.name}, with a row in removed.md: {less}"
    assert not twice, f"'{section}' of {LEDGER.name} has twice: {twice}"


def test_it_has_every_command_and_option() -> None:
    found = set[str]()
    commands = [("graphdrop", typer.main.get_command(app))]
    for path, command in commands:
        inner = getattr(command, "commands", {})
        commands += [(f"{path} {name}", one) for name, one in inner.items()]
        for given in command.params:
            option = given.param_type_name == "option"
            found.add(f"{path} {given.opts[0] if option else given.name.upper()}")
    listed = [f"{words(row[0])[0]} {word}" for row in rows("The command") for word in words(row[1])]
    compare(listed, found, "The command")


def test_it_has_every_setting() -> None:
    listed = [word for row in rows("Settings") for word in words(row[0])]
    compare(listed, {setting.key for setting in explained()}, "Settings")


def test_it_has_every_public_name_once() -> None:
    rooms = {module.name for module in pkgutil.iter_modules(graphdrop.__path__) if module.ispkg}
    found = {f"graphdrop {name}" for name in graphdrop.__all__}
    for room in rooms - NOT_PUBLIC:
        names = set(importlib.import_module(f"graphdrop.{room}").__all__)
        found |= {f"graphdrop.{room} {name}" for name in names - set(graphdrop.__all__)}
    table = rows("Public names")
    compare(
        [f"{words(row[0])[0]} {word}" for row in table for word in words(row[1])],
        found,
        "Public names",
    )


def test_it_has_every_page_example_and_notebook() -> None:
    section = "Guides, examples and notebooks"
    patterns = ["README.md", "docs/*.md", "examples/*.py", "examples/notebooks/*.ipynb"]
    found = {str(path.relative_to(ROOT)) for one in patterns for path in ROOT.glob(one)}
    compare([word for row in rows(section) for word in words(row[0])], found, section)


def test_every_row_names_tests_that_exist() -> None:
    missing = []
    for row in [row for section in SECTIONS for row in rows(section)]:
        tests = words(row[-1])
        missing += [] if tests else [row]
        for test in tests:
            path, _, name = test.partition("::")
            file = ROOT / path
            if not file.is_file() or not re.search(rf"def {name}\b", file.read_text("utf-8")):
                missing.append(test)
    assert missing == [], f"these tests do not exist: name others in {LEDGER.name}"
