"""What a release consists of besides its code: notes, a bill of materials, a workflow."""

import importlib.util
import re
import tomllib
from pathlib import Path
from types import ModuleType

import pytest
from hatchling.builders.sdist import SdistBuilder

import graphdrop

ROOT = Path(__file__).parents[1]


def script(name: str) -> ModuleType:
    """A script of the folder `release` as a module."""
    spec = importlib.util.spec_from_file_location(
        f"release_{name}", ROOT / "release" / f"{name}.py"
    )
    module = importlib.util.module_from_spec(spec)
    spec.loader.exec_module(module)
    return module


def test_the_notes_of_a_release_are_its_section_of_the_changelog():
    notes = script("build").notes
    text = (
        "# Log\n\n## [Unreleased]\n\nThis will be 0.2.0; soon.\n\n## [0.1.0] - 2026-01-02\n\n- a\n"
    )
    assert notes(text, "0.1.0") == ("- a\n", True)
    assert notes(text, "0.2.0") == ("This will be 0.2.0; soon.\n", False)
    with pytest.raises(SystemExit, match=r"no section for 0.3.0; it takes a heading"):
        notes(text, "0.3.0")
    assert notes((ROOT / "CHANGELOG.md").read_text("utf-8"), graphdrop.__version__)[0]


def test_on_pypi_the_readme_shows_its_pictures_and_links_by_the_tag_of_the_version():
    absolute = script("readme").absolute
    text = "![A\nb](docs/a.png) [c](docs/c.md#d) [e](https://e.org) [f](#g) `[h](i)`"
    assert absolute(text, "https://r", "1.2") == (
        "![A\nb](https://r/raw/v1.2/docs/a.png) [c](https://r/blob/v1.2/docs/c.md#d) "
        "[e](https://e.org) [f](#g) `[h](https://r/blob/v1.2/i)`"
    )
    readme = absolute((ROOT / "README.md").read_text("utf-8"), "https://r", "1.2")
    assert not re.findall(r"\]\((?!https:|#)", readme)
    assert "https://r/raw/v1.2/docs/pictures/" in readme


def test_the_sdist_has_what_builds_and_tries_the_wheel_and_nothing_heavy():
    builder = SdistBuilder(str(ROOT))
    files = [Path(one.path) for one in builder.recurse_included_files()]
    names = {str(one.relative_to(ROOT)) for one in files}
    sources = {str(one.relative_to(ROOT)) for one in (ROOT / "src").rglob("*.py")}
    needed = {
        "README.md",
        "release/smoke.py",
        "release/readme.py",
        "examples/data/nodes.csv",
    }
    assert needed | sources <= names
    assert not [one for one in names if one.startswith(("tests/", "results/", "docs/"))]
    assert sum(one.stat().st_size for one in files) < 4e6


def test_only_the_job_that_publishes_can_sign_and_it_is_switched_off():
    text = (ROOT / ".github" / "workflows" / "release.yml").read_text("utf-8")
    before, publish = text.split("\n  publish:\n")
    assert "id-token" not in before
    assert "if: vars.PUBLISH == 'true' && startsWith(github.ref, 'refs/tags/v')" in publish
    assert "id-token: write" in publish
    assert "attestations: true" in publish
    assert not re.search(r"password|secrets\.", text.partition("\nname:")[2])


def test_the_pythons_that_are_stated_are_those_that_the_workflow_tries():
    project = tomllib.loads((ROOT / "pyproject.toml").read_text())["project"]
    stated = re.findall(r"Python :: (3\.\d+)", " ".join(project["classifiers"]))
    workflow = (ROOT / ".github" / "workflows" / "release.yml").read_text("utf-8")
    (tried,) = re.findall(r"python: \[(.*)\]", workflow)
    assert re.findall(r"3\.\d+", tried) == stated == ["3.11", "3.12", "3.13"]
    assert project["requires-python"] == f">={stated[0]}"
