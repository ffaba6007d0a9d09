"""The recipe fits rates of edges where edges differ, says so, and the run keeps them."""

from pathlib import Path

import pytest
import torch
from torch.nn.functional import cross_entropy

from contracts.planted_edges import town
from graphdrop import Config, Trainer, load, predict
from graphdrop.data import load_dataset
from graphdrop.sampling import EdgeRate, fit_edge_prior
from graphdrop.sampling.samplers import Draw
from graphdrop.train import auto
from graphdrop.train.loop import estimate_loss
from graphdrop.train.progress import Silent

SHORT = {
    "train": {"epochs": 4, "evaluate_every": 2, "samples": 2, "baselines": False},
    "predict": {"samples": 3},
}


class Noting(Silent):
    def __init__(self, notes: list[str]) -> None:
        super().__init__()
        self.note = notes.append


def planted(seed: int = 0):
    data = town(seed, nodes=600, planted=900)
    data.test_mask = ~(data.train_mask | data.val_mask)
    del data.planted
    return load_dataset(data)


def test_edges_that_differ_get_rates_of_their_own_which_the_run_keeps(tmp_path: Path):
    dataset, notes = planted(), list[str]()
    config = Config(**SHORT)
    trainer = Trainer(config, dataset, tmp_path / "run", progress=Noting(notes))
    assert any("edges look doubtful" in note for note in notes)
    assert trainer.config.model.edges == "fitted"
    trainer.fit()
    model = load(tmp_path / "run")
    rates = [layer.sampler.rate for layer in model.layers]
    fit = fit_edge_prior(dataset.data)
    assert all(isinstance(rate, EdgeRate) for rate in rates)
    torch.testing.assert_close(rates[0].prior.coefficients, fit.prior.coefficients)
    for graph in (dataset.data, town(5)):
        one, other = (
            predict(network, graph, calibrator=None).probabilities
            for network in (model, trainer.model.eval())
        )
        assert one.shape == (graph.num_nodes, 3)
        torch.testing.assert_close(one, other)


def test_edges_that_do_not_differ_share_one_rate():
    data = town(1, planted=0)
    data.y = data.y[torch.randperm(300, generator=torch.Generator().manual_seed(0))]
    data.test_mask = ~(data.train_mask | data.val_mask)
    notes = list[str]()
    config = auto.choose_settings(Config(**SHORT), load_dataset(data), Noting(notes))
    assert config.model.edges == "one-rate"
    assert any(note.startswith("one rate per layer: edges do not differ (p = ") for note in notes)


def test_what_is_asked_for_is_taken():
    dataset, notes = planted(), list[str]()
    settings = {"one-rate": "one-rate", "fitted": "fitted"}
    for asked, expected in settings.items():
        config = Config(model={"edges": asked}, **SHORT)
        assert auto.choose_settings(config, dataset, Noting(notes)).model.edges == expected
    assert sum("look doubtful" in note for note in notes) == 1  # nothing is fitted for one rate
    with pytest.raises(ValueError, match="has no rate of edges that could be fitted"):
        Trainer(Config(model={"edges": "fitted", "method": "GCN-DO"}, **SHORT), dataset)


def test_the_answers_of_the_closed_form_teach_all_nodes():
    dataset = planted()
    objective = {"teach": 0.7, "agree": 0.0, "l2": 0.0}
    config = Config(model={"edges": "fitted"}, objective=objective, **SHORT)
    run = Trainer(config, dataset, progress=Silent()).run
    answers = fit_edge_prior(run.inputs).answers
    torch.testing.assert_close(run.teacher, answers)
    draw = Draw(int(run.model.stream[0]), 0)
    found, more = estimate_loss(run, None)
    output = run.model(run.inputs.x, run.inputs.edge_index, draw=draw)
    train = run.rows["train"]
    torch.testing.assert_close(found.loss, cross_entropy(output[train], run.labels))
    expected = -0.7 * (answers * output.log_softmax(1)).sum(1).mean()
    torch.testing.assert_close(more["agree"], expected.detach())


@pytest.mark.parametrize("better", ["fitted", "one-rate"])
def test_where_kept_edges_join_equal_classes_only_the_rates_are_called_into_question(
    better, monkeypatch
):
    tried, notes = list[Config](), list[str]()

    def score(config: Config, *_: object) -> float:
        tried.append(config)
        return float(config.model.edges != better)

    monkeypatch.setattr(auto, "trial_nll", score)
    config = auto.choose_settings(Config(**SHORT), planted(), Noting(notes))
    assert config.model.edges == better
    fitted = [trial for trial in tried if trial.model.edges == "fitted"]
    count = len(fitted)
    for rates, alike in zip(tried[:count], tried[count : 2 * count], strict=True):
        assert (rates.model.edges, alike.model.edges) == ("fitted", "one-rate")
        assert rates.model.residual == alike.model.residual  # neighbours are used alike
        assert rates.objective.agree == alike.objective.agree
    if better == "fitted":
        assert len(tried) == 2 * count
    else:
        assert "One rate per layer is better on validation nodes than rates per edge." in notes
