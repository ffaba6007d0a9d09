"""The notebooks run from top to bottom, and are kept with what they show."""

import copy
import json
import runpy
from pathlib import Path

import pytest

FOLDER = Path(__file__).parents[1] / "examples" / "notebooks"
NOTEBOOKS = {path.stem: json.loads(path.read_text("utf-8")) for path in FOLDER.glob("*.ipynb")}
RUN = runpy.run_path(str(FOLDER / "run.py"))["run"]


def kinds(notebook) -> list[list[str]]:
    """What the outputs of every code cell are: printed text, a value, a picture."""
    cells = [cell for cell in notebook["cells"] if cell["cell_type"] == "code"]
    return [[one["output_type"], *one.get("data", [])] for cell in cells for one in cell["outputs"]]


@pytest.mark.parametrize("name", sorted(NOTEBOOKS))
def test_a_notebook_runs_and_shows_what_it_was_kept_with(name):
    notebook = copy.deepcopy(NOTEBOOKS[name])
    RUN(notebook)
    assert kinds(notebook) == kinds(NOTEBOOKS[name])
    shown = [kind for output in kinds(notebook) for kind in output]
    assert {"text/html", "image/png"} <= set(shown)  # a prediction as a table, and a picture
