"""The example of active learning buys what it says, from nodes that are for sale, and goes on."""

import itertools
import json
import runpy
from pathlib import Path

import pytest
import torch

from graphdrop import Trainer, load_dataset

EXAMPLE = runpy.run_path(str(Path(__file__).parents[1] / "examples" / "active_learning.py"))


@pytest.fixture
def trained_on(monkeypatch: pytest.MonkeyPatch) -> list[torch.Tensor]:
    """The training nodes of every network that the example trains."""
    seen = []

    def spy(config, dataset, **options):
        seen.append(dataset.split.train)
        return Trainer(config, dataset, **options)

    monkeypatch.setitem(EXAMPLE["acquire"].__globals__, "Trainer", spy)
    return seen


def test_labels_are_bought_round_by_round_and_never_of_test_nodes(tmp_path, trained_on, capsys):
    arguments = ["--quick", "--batch", "5", "--out", str(tmp_path)]
    EXAMPLE["main"](arguments)
    records = [json.loads(line) for line in (tmp_path / "runs.jsonl").read_text().splitlines()]
    first = {r["seed"]: r["accuracy"][0] for r in records}
    assert sorted((r["strategy"], r["seed"]) for r in records) == [
        (strategy, seed) for strategy in sorted(EXAMPLE["STRATEGIES"]) for seed in (0, 1)
    ]
    for record in records:
        assert record["labels"] == [14, 19, 24]
        assert record["accuracy"][0] == first[record["seed"]]  # all begin with the same nodes
    dataset = load_dataset("synthetic")
    kept = dataset.split.val | dataset.split.test
    assert len(trained_on) == 2 * 3 * 3
    for before, after in itertools.pairwise(trained_on):
        assert not (after & kept).any()
        if after.sum() > 14:
            assert (after | ~before).all()  # what is bought stays
    capsys.readouterr()
    EXAMPLE["main"](arguments)
    assert len(trained_on) == 18  # the runs that are there are not made again
    written = capsys.readouterr().out.split()[-1:]
    assert [Path(path).suffix for path in written] == [".png"]
    assert all(Path(path).stat().st_size > 0 for path in written)


@pytest.mark.parametrize("strategy", ["mutual information", "entropy"])
def test_the_most_uncertain_nodes_are_worth_most(strategy):
    class Said:
        epistemic = torch.tensor([0.1, 0.3, 0.2])
        entropy = torch.tensor([0.9, 0.5, 0.7])

    worth = EXAMPLE["score"](strategy, Said, torch.Generator())
    assert int(worth.argmax()) == (1 if strategy == "mutual information" else 0)
