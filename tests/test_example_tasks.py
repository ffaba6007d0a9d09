"""The examples of the tasks run; the code on their page is tested with that of all pages."""

import re
import runpy
from pathlib import Path

import pytest

ROOT = Path(__file__).parents[1]
PRINTED = {
    "multilabel": ["all nodes", "most certain half", "by epistemic part"],
    "regression": ["outside the disc", "most certain half", "in the disc"],
    "link_prediction": ["GAE all", "GAE most certain half", "VGAE all", "VGAE most certain half"],
    "graph_classification": ["all", "most certain half", "most certain tenth"],
}


@pytest.mark.parametrize("name", PRINTED)
def test_an_example_prints_its_scores_and_draws_its_uncertainty(
    name: str, tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    picture = tmp_path / "picture.png"
    example = runpy.run_path(str(ROOT / "examples" / f"{name}.py"))
    example["main"](["--quick", "--out", str(picture)])
    printed = re.sub(r" +", " ", capsys.readouterr().out)
    for title in PRINTED[name]:
        assert re.search(rf"^ ?{title}( -?\d+(\.\d+)?){{2,}}$", printed, re.MULTILINE), printed
    assert picture.read_bytes().startswith(b"\x89PNG")
