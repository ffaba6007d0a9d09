"""`graphdrop demo` trains two networks, shows a table and writes a report, again and again."""

import json
import re

import pytest

from graphdrop.cli import demo, main
from graphdrop.config.recipes import merge_settings

SHORT = {
    "model": {"hidden": 8},
    "train": {"epochs": 4, "evaluate_every": 2, "samples": 2},
    "predict": {"samples": 3},
}


@pytest.fixture
def run(capsys, monkeypatch, tmp_path, no_files, no_network):
    """Run a short demo in an empty folder where no dataset can be had."""
    monkeypatch.chdir(tmp_path)
    settle = demo.settings.settle
    monkeypatch.setattr(demo.settings, "settle", lambda asked: settle(merge_settings(asked, SHORT)))

    def run(*words: str) -> tuple[str, str]:
        capsys.readouterr()
        with pytest.raises(SystemExit) as stopped:
            main(["demo", *words])
        assert not stopped.value.code
        captured = capsys.readouterr()
        return captured.out, captured.err

    return run


def test_a_demo_without_any_dataset_shows_all_it_has_on_the_synthetic_graph(run, tmp_path):
    printed, said = run()
    assert "Cora is not here and cannot be fetched" in said
    assert "its scores are not Cora's" in said
    assert "The synthetic graph, seed 0" in printed
    assert re.search(r"accuracy +NLL +ECE +PAvPU +AURC .*seconds +drop rate by layer", printed)
    folder = tmp_path / "runs" / "demo"
    for method, how in (("GCN-DO", "fixed"), ("GCN-BBGDC", "learned")):
        result = json.loads((folder / method / "result.json").read_text())
        test = result["test"]
        rates = " ".join(f"{rate:.2f}" for rate in result["drop_rates"])
        (row,) = re.findall(rf"^ +{method} +(.*)$", printed, flags=re.MULTILINE)
        assert row.split()[:4] == [
            f"{test[name]:.3f}" for name in ("accuracy", "nll", "ece", "pavpu")
        ]
        assert f"{rates}, {how}" in row
        assert result["calibration"]["name"] == "entropy-temperature"
        assert result["config"]["predict"]["masks"] in ("hard", "relaxed")
    *_, wrote, saw, look, next_ = printed.splitlines()
    assert wrote.startswith("Wrote runs/demo/report.html")
    assert saw.startswith("What you saw: two networks learned the classes of the synthetic graph")
    assert f"chance alone gives about {result['calibration']['ece_floor']:.3f}" in saw
    assert look.startswith("Look at it: open runs/demo/report.html")
    assert "graphdrop train --nodes nodes.csv" in next_
    assert (folder / "report.html").stat().st_size > 10**5


def test_a_folder_is_used_if_it_is_empty_and_left_alone_if_not(tmp_path):
    out = tmp_path / "mine"
    assert demo.choose_folder(out) == out
    assert demo.choose_folder(out) == out
    (out / "file").touch()
    assert demo.choose_folder(out) == tmp_path / "mine-2"
    (tmp_path / "mine-2" / "file").touch()
    (tmp_path / "mine-3").touch()
    assert demo.choose_folder(out) == tmp_path / "mine-4"
