"""What is shipped and what the papers around the code say about it agree."""

import ast
import re
import subprocess
import sys
import tomllib
import zipfile
from collections.abc import Iterator
from importlib.metadata import PackageNotFoundError, distribution, packages_distributions
from pathlib import Path

import pytest
from packaging.requirements import Requirement
from packaging.utils import canonicalize_name
from packaging.version import Version

import graphdrop

ROOT = Path(__file__).parents[1]
PYPROJECT = tomllib.loads((ROOT / "pyproject.toml").read_text())
PROJECT = PYPROJECT["project"]
CONTRACTS: list[dict[str, list[str]]] = PYPROJECT["tool"]["importlinter"]["contracts"]
EXTRAS: dict[str, list[str]] = PROJECT["optional-dependencies"]
PROSE = ["README.md", "CONTRIBUTING.md", "docs/index.md", "docs/install.md", "docs/data.md"]


def pinned() -> dict[str, Version]:
    lock = (ROOT / "requirements.lock").read_text()
    torch = (ROOT / "release" / "environment.sh").read_text()
    lines = re.findall(r"^[\w.-]+==[^\s;]+", lock, flags=re.MULTILINE)
    lines += re.findall(r'^TORCH="(.*)"$', torch, flags=re.MULTILINE)
    pins = [Requirement(line) for line in lines]
    return {canonicalize_name(pin.name): Version(str(pin.specifier).lstrip("=")) for pin in pins}


def declared() -> list[Requirement]:
    return [
        Requirement(line) for group in [PROJECT["dependencies"], *EXTRAS.values()] for line in group
    ]


def installed_closure(requirement: Requirement) -> Iterator[str]:
    """The names of all installed packages that a requirement brings, itself included."""
    seen: set[tuple[str, str]] = set()
    waiting = [requirement]
    while waiting:
        current = waiting.pop()
        name = canonicalize_name(current.name)
        for extra in ["", *current.extras]:
            if (name, extra) in seen:
                continue
            seen.add((name, extra))
            try:
                lines = distribution(name).requires or []
            except PackageNotFoundError:
                continue
            yield name
            inner = [Requirement(line) for line in lines]
            waiting += [r for r in inner if not r.marker or r.marker.evaluate({"extra": extra})]


def imports_of(node: ast.AST) -> Iterator[str]:
    """The top-level names that a file imports when it runs, not only for type checking."""
    for child in ast.iter_child_nodes(node):
        if isinstance(child, ast.If) and ast.unparse(child.test) == "TYPE_CHECKING":
            continue
        if isinstance(child, ast.Import):
            yield from (alias.name.partition(".")[0] for alias in child.names)
        elif isinstance(child, ast.ImportFrom) and child.level == 0 and child.module:
            yield child.module.partition(".")[0]
        yield from imports_of(child)


def make_targets() -> set[str]:
    return set(re.findall(r"^([a-z-]+):", (ROOT / "Makefile").read_text(), flags=re.MULTILINE))


@pytest.fixture(scope="module")
def wheel(tmp_path_factory: pytest.TempPathFactory) -> zipfile.ZipFile:
    folder = tmp_path_factory.mktemp("wheel")
    command = [sys.executable, "-m", "hatchling", "build", "-t", "wheel", "-d", str(folder)]
    subprocess.run(command, cwd=ROOT, check=True, capture_output=True)
    return zipfile.ZipFile(next(folder.glob("*.whl")))


def test_the_version_is_the_same_everywhere() -> None:
    citation = (ROOT / "CITATION.cff").read_text()
    changelog = (ROOT / "CHANGELOG.md").read_text()
    assert PROJECT["version"] == graphdrop.__version__
    assert f"\nversion: {graphdrop.__version__}\n" in citation
    assert (
        f"## [{graphdrop.__version__}]" in changelog
        or f"will be {graphdrop.__version__};" in changelog
    )


def test_declared_dependencies_are_pinned_to_versions_in_their_ranges() -> None:
    pins = {one: pinned()[canonicalize_name(one.name)] for one in declared()}
    assert [one for one, version in pins.items() if not one.specifier.contains(version)] == []


def test_everything_that_the_tests_run_with_is_pinned() -> None:
    brought = set(installed_closure(Requirement("graphdrop[dev]"))) - {"graphdrop"}
    # What a CUDA build of torch brings is pinned by torch itself.
    cuda = {name for name in brought if name.startswith(("nvidia-", "cuda-", "triton"))}
    assert "torch" in brought
    assert brought - cuda - set(pinned()) == set()


@pytest.mark.parametrize(
    ("folder", "groups"),
    [
        ("src", ["scale", "distributed", "gpu"]),
        ("experiments", ["dev"]),
        ("tests", ["dev"]),
        ("benchmarks", ["dev"]),
        ("docs", ["dev"]),
    ],
    ids=["src", "experiments", "tests", "benchmarks", "docs"],
)
def test_every_imported_package_is_declared(folder: str, groups: list[str]) -> None:
    lines = PROJECT["dependencies"] + [line for group in groups for line in EXTRAS[group]]
    known = {canonicalize_name(Requirement(line).name) for line in lines} | {"graphdrop"}
    homes = packages_distributions()
    files = [ast.parse(path.read_text()) for path in (ROOT / folder).rglob("*.py")]
    imported = {name for file in files for name in imports_of(file)}
    # What no distribution brings is the standard library's, or a neighbour in the same folder.
    undeclared = {
        name
        for name in imported & set(homes)
        if known.isdisjoint(canonicalize_name(home) for home in homes[name])
    }
    assert undeclared == set()


def test_no_pin_names_a_build_for_one_kind_of_machine() -> None:
    assert [name for name, version in pinned().items() if version.local] == []


def test_the_wheel_holds_every_source_file_and_the_type_marker(wheel: zipfile.ZipFile) -> None:
    source = ROOT / "src"
    files = {
        str(path.relative_to(source))
        for path in source.rglob("*")
        if path.is_file() and "__pycache__" not in path.parts
    }
    assert "graphdrop/py.typed" in files
    shipped = {name for name in wheel.namelist() if ".dist-info/" not in name}
    assert shipped == files
    assert {name.partition("/")[0] for name in shipped} == {"graphdrop"}
    assert not any("experiment" in name or name.endswith(".toml") for name in shipped)


def test_the_wheel_brings_the_licence_and_the_command(wheel: zipfile.ZipFile) -> None:
    inside = f"graphdrop-{graphdrop.__version__}.dist-info"
    assert wheel.read(f"{inside}/licenses/LICENSE") == (ROOT / "LICENSE").read_bytes()
    assert b"graphdrop = graphdrop.cli:main" in wheel.read(f"{inside}/entry_points.txt")


def test_every_make_command_in_the_prose_exists() -> None:
    for page in PROSE:
        # Only inside `code`: elsewhere "make" is a verb.
        spans = re.findall(r"```.*?```|`[^`]+`", (ROOT / page).read_text(), flags=re.DOTALL)
        assert set(re.findall(r"\bmake ([a-z-]+)", " ".join(spans))) <= make_targets(), page


def test_the_first_example_in_the_readme_is_short() -> None:
    # That it runs is tested with the blocks of all pages.
    example = re.search(r"```python\n(.*?)```", (ROOT / "README.md").read_text(), flags=re.DOTALL)
    assert example
    assert sum(bool(line) for line in example[1].splitlines()) <= 12
    assert "nodes.csv" in example[1]


SAMPLING = ["sampling/samplers", "sampling/estimators", "sampling/rates"]


def test_lint_refuses_packages_out_of_order(tmp_path: Path) -> None:
    root = tmp_path / "graphdrop"
    acyclic = [name.partition(".")[2] for rule in CONTRACTS for name in rule.get("ancestors", ())]
    for name in dict.fromkeys(["", "sampling", "data", "executors", *SAMPLING, *acyclic]):
        (root / name).mkdir()
        (root / name / "__init__.py").touch()
    tool = str(Path(sys.executable).with_name("lint-imports"))
    for allowed in [line for rule in CONTRACTS for line in rule.get("ignore_imports", ())]:
        importer, imported = (
            (tmp_path / module.replace(".", "/")).with_suffix(".py")
            for module in allowed.split(" -> ")
        )
        importer.write_text(f"import {allowed.split()[-1]}")
        imported.touch()
    command = [tool, "--no-cache", "--config", str(ROOT / "pyproject.toml")]
    environment = {"PYTHONPATH": str(tmp_path)}
    (tmp_path / "experiments").mkdir()
    (tmp_path / "experiments" / "__init__.py").touch()

    def lint() -> int:
        return subprocess.run(
            command, cwd=tmp_path, env=environment, check=False, capture_output=True
        ).returncode

    assert lint() == 0
    for package, line in [
        ("data", "import graphdrop.cli"),
        ("data", "from graphdrop import sampling"),  # one package back
        ("executors", "import graphdrop.config"),  # between equals
        ("cli", "import experiments"),
    ]:
        (root / package / "__init__.py").write_text(line)
        assert lint() == 1, line
        (root / package / "__init__.py").write_text("")
    (root / "attic").mkdir()
    (root / "attic" / "__init__.py").touch()
    assert lint() == 1, "a package outside the list"
