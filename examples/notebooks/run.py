"""Runs the notebooks of this folder from top to bottom, without Jupyter, and keeps what they show.

python examples/notebooks/run.py            # all of them, written back with their output
python examples/notebooks/run.py own_gat    # one
"""

from __future__ import annotations

import ast
import base64
import contextlib
import io
import json
import os
import sys
import warnings
from pathlib import Path
from typing import Any

import matplotlib

matplotlib.use("Agg")

from matplotlib import pyplot

FOLDER = Path(__file__).parent


def run(notebook: dict[str, Any], folder: Path = FOLDER) -> None:
    """Run the code cells in `folder` and replace their outputs; the first error is raised."""
    names: dict[str, Any] = {"__name__": "__main__"}
    with contextlib.chdir(folder), warnings.catch_warnings(action="ignore"):
        for count, cell in enumerate(c for c in notebook["cells"] if c["cell_type"] == "code"):
            cell["execution_count"] = count + 1
            cell["outputs"] = _outputs("".join(cell["source"]), names, count + 1)


def _outputs(source: str, names: dict[str, Any], count: int) -> list[dict[str, Any]]:
    """What a cell prints, the value of its last line, and its figures."""
    body = ast.parse(source).body
    last = body.pop() if body and isinstance(body[-1], ast.Expr) else None
    printed = io.StringIO()
    with contextlib.redirect_stdout(printed), contextlib.redirect_stderr(io.StringIO()):
        exec(compile(ast.Module(body, []), "cell", "exec"), names)  # noqa: S102 - our own cells
        value = None
        if last is not None:
            value = eval(compile(ast.Expression(last.value), "cell", "eval"), names)  # noqa: S307
    outputs: list[dict[str, Any]] = []
    if printed.getvalue():
        text = printed.getvalue().splitlines(keepends=True)
        outputs.append({"name": "stdout", "output_type": "stream", "text": text})
    figures = [pyplot.figure(number) for number in pyplot.get_fignums()]
    if value is not None and not figures:
        shown = {"text/plain": repr(value).splitlines(keepends=True)}
        if hasattr(value, "_repr_html_"):
            shown["text/html"] = value._repr_html_().splitlines(keepends=True)
        outputs.append(
            {
                "data": shown,
                "execution_count": count,
                "metadata": {},
                "output_type": "execute_result",
            }
        )
    for figure in figures:
        image = io.BytesIO()
        figure.savefig(image, format="png", dpi=70, bbox_inches="tight")
        data = {"image/png": base64.b64encode(image.getvalue()).decode()}
        outputs.append({"data": data, "metadata": {}, "output_type": "display_data"})
    pyplot.close("all")
    return outputs


def main(names: list[str]) -> None:
    """Run the notebooks of these names, or all, and write them back."""
    for path in sorted(FOLDER.glob("*.ipynb")):
        if not names or path.stem in names:
            notebook = json.loads(path.read_text("utf-8"))
            run(notebook)
            path.write_text(json.dumps(notebook, indent=1, ensure_ascii=False) + "\n", "utf-8")
            print(f"{os.fspath(path)}: written with its output")


if __name__ == "__main__":
    main(sys.argv[1:])
