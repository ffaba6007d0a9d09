"""A model card says what the run's files say, and sharing sends them as they are."""

import json
import shutil
import sys
from types import SimpleNamespace

import pytest
import torch

from contracts import small_runs
from graphdrop import Config, Trainer, from_pandas, load
from graphdrop.report import hub
from graphdrop.report.card import model_card
from graphdrop.train.progress import Silent


@pytest.fixture(scope="module")
def trained(tmp_path_factory):
    """The folder of a run on a table whose names would be markup."""
    pandas = pytest.importorskip("pandas")
    nodes = pandas.DataFrame(
        {"size": range(60), "<b>kind</b>": ["a|b", "`c`"] * 30, "label": ["[x](y)", "z"] * 30}
    )
    edges = pandas.DataFrame({"source": range(58), "target": range(2, 60)})
    folder = tmp_path_factory.mktemp("runs") / "a"
    config = Config(train={"epochs": 2, "evaluate_every": 1}, model={"hidden": 8})
    Trainer(config, from_pandas(nodes, edges, label="label"), folder, progress=Silent()).fit()
    return folder


def test_a_card_has_the_figures_of_the_run_and_no_foreign_markup(trained):
    card, result = model_card(trained), json.loads((trained / "result.json").read_text())
    assert f"| test | {result['test']['accuracy']:.4f} |" in card
    assert f"sha256 of features, edges, labels and split: {result['data']['sha256']}" in card
    split = result["data"]["split"]
    assert f"{split['train']} training, {split['val']} validation, {split['test']} test" in card
    assert result["calibration"]["name"] in card.replace("\\", "")
    for heading in ("Data", "Figures", "Calibration", "Intended use", "Limits", "How to use it"):
        assert f"\n## {heading}\n" in card
    assert "<b>" not in card.replace("\\<", "")
    assert r"\[x\](y)" in card


def test_a_card_takes_a_finished_run(trained, tmp_path, run):
    (tmp_path / "config.toml").write_bytes((trained / "config.toml").read_bytes())
    code, _, said = run("card", tmp_path, "-o", tmp_path / "README.md")
    assert code == 2
    assert "a model card takes a finished run" in said
    code, _, _ = run("card", trained, "-o", tmp_path / "README.md")
    assert code == 0
    code, _, said = run("card", trained, "-o", tmp_path / "README.md")
    assert code == 2
    assert "--force" in said


def test_a_run_that_is_shared_comes_back_bit_for_bit(trained, tmp_path, monkeypatch):
    there = tmp_path / "hub"

    class Api:
        def create_repo(self, repo_id, *, exist_ok, private):
            assert (repo_id, exist_ok, private) == ("me/it", True, True)

        def upload_folder(self, *, repo_id, folder_path):
            shutil.copytree(folder_path, there)
            return "https://hub/me/it"

    def download(repo_id, filename, revision):
        return str(there / filename)

    fake = SimpleNamespace(HfApi=Api, hf_hub_download=download)
    monkeypatch.setitem(sys.modules, "huggingface_hub", fake)
    assert hub.push_to_hub(trained, "me/it", private=True) == "https://hub/me/it"
    names = {path.name for path in there.iterdir()}
    assert names == {"README.md", "best.safetensors", "config.json", "config.toml", "result.json"}
    one, other = load(trained), hub.from_hub("me/it", revision="main")
    for name, tensor in one.state_dict().items():
        assert torch.equal(tensor, other.state_dict()[name])


def test_a_run_on_other_data_has_a_card_too_and_shares_no_paths(tmp_path):
    run = small_runs.train(tmp_path / "a", small_runs.write_graph(tmp_path / "mine.npz"))
    assert "# GCN-BBGDC on mine" in model_card(run)
    assert str(tmp_path) in (run / "config.toml").read_text()
    for path in hub.export(run, tmp_path / "shared").iterdir():  # no folder of this machine
        assert str(tmp_path).encode() not in path.read_bytes()
