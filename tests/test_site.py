"""The site: all pages are in its contents, links lead to files, public names are documented."""

import importlib
import json
import pkgutil
import re
import runpy
from pathlib import Path

import graphdrop

ROOT = Path(__file__).parents[1]
DOCS = ROOT / "docs"
PAGES = sorted(DOCS.rglob("*.md"))
LINK = re.compile(r"\]\(([^)\s#]*)(#[^)\s]*)?\)")
NOT_PUBLIC = {"cli", "io"}
PACKAGES = [
    module.name
    for module in pkgutil.iter_modules(graphdrop.__path__)
    if module.ispkg and module.name not in NOT_PUBLIC
]


def documented(package: str) -> list[str]:
    """The names on the page of a package: under `members:`, or by themselves.

    One that is also the name of a module stands by itself: as a member it would be the module.
    """
    page = (DOCS / "reference" / f"{package}.md").read_text("utf-8")
    alone = re.findall(rf"^::: graphdrop\.{package}\.(\w+)\.\1$", page, re.MULTILINE)
    members = re.findall(r"^ {8}- (\w+)$", page, re.MULTILINE)
    modules = {one.stem for one in (ROOT / "src" / "graphdrop" / package).iterdir()}
    assert modules.isdisjoint(members)
    return [*alone, *members]


def test_the_page_of_a_package_has_its_public_names_and_no_others():
    modules = {one: importlib.import_module(f"graphdrop.{one}") for one in PACKAGES}
    public = {package: set(module.__all__) for package, module in modules.items()}
    assert {package: set(documented(package)) - {"attach"} for package in PACKAGES} == public


def test_every_name_of_the_package_is_in_the_list_of_names_with_a_link_to_its_page():
    page = (DOCS / "reference" / "index.md").read_text("utf-8")
    for name in graphdrop.__all__:
        if name == "__version__":
            continue
        link = re.search(rf"\[`{name}`\]\((\w+)\.md#graphdrop\.[\w.]+\.{name}\)", page)
        assert link, name
        assert name in documented(link[1])


def test_every_page_is_in_the_contents_once():
    contents = (ROOT / "mkdocs.yml").read_text("utf-8").partition("\nnav:")[2].partition("\ntheme:")
    listed = re.findall(r": (\S+\.md)$", contents[0], re.MULTILINE)
    assert sorted(listed) == sorted(page.relative_to(DOCS).as_posix() for page in PAGES)


def targets(page: Path) -> set[Path]:
    """The files that the links of a page lead to."""
    text = re.sub(r"^```.*?^```|`[^`\n]*`", "", page.read_text("utf-8"), flags=re.S | re.M)
    found = {target for target, _ in LINK.findall(text) if target and ":" not in target}
    return {page.parent / target for target in found}


def test_the_links_of_the_pages_lead_to_files():
    pages = [ROOT / "README.md", ROOT / "CONTRIBUTING.md", *PAGES]
    linked = {page: targets(page) for page in pages}
    assert all(linked[page] for page in pages[:2])
    missing = [(page, one) for page in pages for one in linked[page] if not one.exists()]
    assert missing == []


def test_the_tables_of_simple_models_are_made_from_the_committed_lines():
    made = runpy.run_path(str(ROOT / "benchmarks" / "baselines.py"))
    text = (ROOT / "benchmarks" / "results" / "baselines.jsonl").read_text("utf-8")
    page = made["page"]([json.loads(line) for line in text.splitlines()])
    found, expected = (
        [line for line in lines.splitlines() if line.startswith("|")]
        for lines in ((DOCS / "baselines.md").read_text("utf-8"), page)
    )
    assert found == expected


def test_the_errors_of_the_faq_are_those_of_the_package():
    page = (DOCS / "faq.md").read_text("utf-8")
    quoted = re.findall(r"^### `(.+)`$", page, re.MULTILINE)
    source = "".join(path.read_text("utf-8") for path in sorted((ROOT / "src").rglob("*.py")))
    # A message that goes over several lines of the source is one text.
    source = re.sub(r'"\n\s*f?"', "", source)
    assert quoted
    assert [text for text in quoted if text not in source] == []
