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


def test_the_bill_of_materials_has_every_dependency_with_its_version_and_licence():
    bill = script("sbom").bill("graphdrop")
    assert (bill["bomFormat"], bill["specVersion"]) == ("CycloneDX", "1.6")
    assert bill["metadata"]["component"]["version"] == graphdrop.__version__
    names = {one["name"] for one in bill["components"]}
    assert {"torch", "torch-geometric", "numpy", "numba", "llvmlite"} <= names
    assert names.isdisjoint({"graphdrop", "pytest", "ray", "mkdocs"})  # those are of extras
    known = {one["bom-ref"] for one in (*bill["components"], bill["metadata"]["component"])}
    assert len(known) == len(names) + 1
    for link in bill["dependencies"]:
        assert {link["ref"], *link["dependsOn"]} <= known
    assert {link["ref"] for link in bill["dependencies"]} == known
    unstated = [one["name"] for one in bill["components"] if "not stated" in str(one["licenses"])]
    assert unstated == []
    assert script("sbom").bill("graphdrop") == bill


@pytest.mark.parametrize(
    ("fields", "said"),
    [
        ({"License-Expression": "MIT", "License": "x"}, ("expression", "MIT")),
        ({"License": "BSD-3-Clause"}, ("name", "BSD-3-Clause")),
        (
            {"License": "A\nlong text", "Classifier": "License :: OSI Approved :: MIT License"},
            ("name", "MIT License"),
        ),
        ({"License": "Apache License\n\ntext"}, ("name", "Apache License")),
        ({}, ("name", "not stated")),
    ],
)
def test_a_licence_is_read_from_wherever_a_package_states_it(fields, said, tmp_path):
    info = tmp_path / "one-1.dist-info"
    info.mkdir()
    lines = [f"{name}: {value}".replace("\n", "\n        ") for name, value in fields.items()]
    head = ["Metadata-Version: 2.4", "Name: one", "Version: 1", *lines]
    (info / "METADATA").write_text("\n".join(head) + "\n")
    module = script("sbom")
    assert module.licence(module.Distribution.at(info)) == said


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
    assert readme.count("https://r/raw/v1.2/docs/pictures/") >= 3


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
