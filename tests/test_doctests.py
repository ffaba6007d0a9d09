"""The examples in docstrings run, and every public name has one."""

import doctest
import importlib
import inspect
from pathlib import Path

import pytest

import graphdrop

SOURCE = Path(graphdrop.__file__).parent
WITH_EXAMPLES = [
    ".".join(path.relative_to(SOURCE.parent).with_suffix("").parts).removesuffix(".__init__")
    for path in sorted(SOURCE.rglob("*.py"))
    if ">>> " in path.read_text("utf-8")
]


def _package(module: str) -> str:
    """The package that a module is in, `nn` of `graphdrop.nn.conv`."""
    return module.partition(".")[2].partition(".")[0]


class Finder(doctest.DocTestFinder):
    """Finds examples of decorated functions too, such as those under `torch.no_grad`."""

    def _from_module(self, module, object):  # noqa: A002 - the name that doctest gives it
        return super()._from_module(module, inspect.unwrap(object))


@pytest.mark.parametrize("package", sorted({_package(name) for name in WITH_EXAMPLES}))
def test_the_examples_of_a_package_run(package: str, tmp_path: Path, monkeypatch) -> None:
    monkeypatch.chdir(tmp_path)  # an example may write a file
    runner = doctest.DocTestRunner(
        verbose=False, optionflags=doctest.ELLIPSIS | doctest.NORMALIZE_WHITESPACE
    )
    for name in WITH_EXAMPLES:
        if _package(name) == package:
            found = Finder(exclude_empty=True).find(importlib.import_module(name), name)
            assert sum(runner.run(test).attempted for test in found) > 0, name
    assert runner.summarize(verbose=False).failed == 0


def test_every_public_name_has_an_example() -> None:
    public = [name for name in graphdrop.__all__ if name != "__version__"]
    documentation = {name: inspect.getdoc(getattr(graphdrop, name)) or "" for name in public}
    assert [name for name in public if "Example:" not in documentation[name]] == []
    assert [name for name in public if ">>> " not in documentation[name]] == []
