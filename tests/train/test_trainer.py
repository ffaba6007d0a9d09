"""A run is decided by its settings, its seed and its data alone, and never by the test nodes."""

import copy
import json
import math
from dataclasses import replace

import pytest
import torch

from graphdrop import metrics
from graphdrop.config import settle
from graphdrop.config.toml import differences, read
from graphdrop.data import Dataset
from graphdrop.inference import predict
from graphdrop.inference.predictive import NotFiniteError
from graphdrop.train import DivergedError, Trainer, checkpoint, load, records
from graphdrop.train.progress import Silent
from graphdrop.train.trainer import Callback


def fit(config, dataset, folder=None, **options) -> Trainer:
    trainer = Trainer(config, dataset, folder, progress=Silent(), **options)
    trainer.result = trainer.fit()
    return trainer


def lines_of(trainer: Trainer) -> list[dict]:
    """The metrics without the time they took."""
    return [{k: v for k, v in line.items() if k != "seconds"} for line in trainer.journal.lines]


def same_bits(one: Trainer, other: Trainer) -> bool:
    weights = other.model.state_dict()
    return lines_of(one) == lines_of(other) and all(
        torch.equal(tensor, weights[name]) for name, tensor in one.model.state_dict().items()
    )


def test_evaluations_come_every_so_many_epochs_and_at_the_end(tiny, settings_of):
    trainer = fit(settings_of(train={"epochs": 7, "evaluate_every": 3}), tiny)
    evaluated = [line["epoch"] for line in lines_of(trainer) if "validation" in line]
    assert evaluated == [3, 6, 7]


def test_the_same_seed_gives_the_same_bits_whatever_torch_has_drawn(tiny, settings_of):
    torch.manual_seed(1)
    one = fit(settings_of(), tiny)
    torch.manual_seed(2)
    torch.rand(3)
    state = torch.get_rng_state()
    assert same_bits(one, fit(settings_of(), tiny))
    assert torch.equal(torch.get_rng_state(), state)
    other = fit(settle(settings_of().model_dump() | {"seed": 1}), tiny)
    assert lines_of(other)[0]["nll"] != lines_of(one)[0]["nll"]


def with_other_test_labels(dataset: Dataset) -> Dataset:
    data = copy.copy(dataset.data)
    data.y = torch.where(dataset.split.test, (data.y + 1) % 3, data.y)
    return Dataset(dataset.name, data, dataset.split, dataset.num_classes)


@pytest.mark.parametrize("method", ["GCN-BBGDC", "GCN-DO"])
def test_the_labels_of_test_nodes_change_nothing_but_the_test_scores(tiny, settings_of, method):
    one = fit(settings_of(method), tiny)
    other = fit(settings_of(method), with_other_test_labels(tiny))
    assert same_bits(one, other)
    assert one.result.validation == other.result.validation
    assert one.result.test.nll != other.result.test.nll


def test_the_selected_state_is_the_best_on_the_validation_nodes(tiny, settings_of, tmp_path):
    config = settings_of(
        train={"epochs": 40, "evaluate_every": 4, "learning_rate": 0.2, "samples": 3}
    )

    class Misleading(Silent):
        def update(self, line, selection):
            if line["epoch"] == 20:  # from here on it learns the wrong classes
                trainer.run.labels.copy_((trainer.run.labels + 1) % 3)

    trainer = Trainer(config, tiny, tmp_path / "run", progress=Misleading())
    result = trainer.fit()
    evaluated = [line for line in lines_of(trainer) if "validation" in line]
    best = max(
        evaluated, key=lambda line: (line["validation"]["accuracy"], -line["validation"]["nll"])
    )
    assert result.selected_epoch == best["epoch"]
    assert result.selected_epoch < 40
    assert result.validation.accuracy == best["validation"]["accuracy"]
    assert result.drop_rates == best["drop_rates"]
    # The test figures are those of that state, and of the prediction anybody can make with it.
    prediction = predict(
        load(tmp_path / "run"), tiny.data, 3, seed=0, temperature=0.67, rows=tiny.split.test
    )
    assert result.test.nll == metrics.nll(prediction.probabilities, tiny.data.y[tiny.split.test])


def test_a_run_folder_has_all_that_repeats_and_explains_the_run(tiny, settings_of, tmp_path):
    folder = tmp_path / "runs" / "a"
    trainer = fit(settings_of(), tiny, folder)
    files = {path.name for path in folder.iterdir()}
    assert files == {
        "config.toml",
        "metrics.jsonl",
        "result.json",
        "last.safetensors",
        "best.safetensors",
    }
    assert differences(settle(read(folder / "config.toml")), trainer.config) == []
    result = json.loads((folder / "result.json").read_text())
    assert result["test"]["accuracy"] == trainer.result.test.accuracy
    assert result["drop_rates"] == trainer.result.drop_rates
    assert result["seed"] == 0
    assert result["data"]["sha256"] == trainer.run.fingerprint
    assert result["versions"]["torch"] == torch.__version__
    assert result["seconds"] > 0
    lines = [json.loads(line) for line in (folder / "metrics.jsonl").read_text().splitlines()]
    assert lines == trainer.journal.lines
    header = records.read_tensors(folder / "last.safetensors")[1]
    assert (header["epoch"], header["finished"]) == (6, True)
    assert header["config"] == trainer.config.model_dump(mode="json")


def test_a_part_of_the_split_without_nodes_is_named(tiny, settings_of):
    split = copy.copy(tiny.split)
    object.__setattr__(split, "val", torch.zeros_like(split.val))
    dataset = Dataset(tiny.name, tiny.data, split, tiny.num_classes)
    with pytest.raises(ValueError, match="has no validation nodes"):
        Trainer(settings_of(), dataset)


@pytest.mark.parametrize("term", ["nll", "kl", "l2"])
def test_a_term_that_breaks_is_named_with_the_epoch_and_what_to_try(
    tiny, settings_of, tmp_path, monkeypatch, term
):
    config = settings_of(train={"epochs": 9, "checkpoint_seconds": 0.0})
    trainer = Trainer(config, tiny, tmp_path / "run", progress=Silent())
    objective = trainer.run.objective

    def breaks(nll, tape, epoch):
        terms = type(objective).__call__(objective, nll, tape, epoch)
        return terms | {term: terms[term] * (math.nan if epoch == 4 else 1.0)}

    trainer.run = replace(trainer.run, objective=breaks)
    with pytest.raises(
        DivergedError, match=f"diverged in epoch 5: the term {term} is nan"
    ) as error:
        trainer.fit()
    assert "What to try: lower train.learning_rate" in str(error.value)
    assert f"the last good checkpoint is {tmp_path / 'run' / 'last.safetensors'}" in str(
        error.value
    )
    assert checkpoint.read_newest(tmp_path / "run", print)[1]["epoch"] == 4


def test_a_gradient_that_breaks_is_named_and_never_reaches_the_weights(tiny, settings_of, tmp_path):
    config = settings_of(train={"epochs": 9, "checkpoint_seconds": 0.0})
    trainer = Trainer(config, tiny, tmp_path / "run", progress=Silent())
    weight = trainer.model.layers[1].weight

    def spoil(gradient: torch.Tensor) -> torch.Tensor:
        return gradient * (math.inf if trainer.epoch == 2 else 1.0)

    weight.register_hook(spoil)
    message = r"epoch 3: the gradient of layers\.1\.weight is not finite"
    with pytest.raises(DivergedError, match=message):
        trainer.fit()
    assert weight.isfinite().all()


def test_a_prediction_that_overflows_is_divergence(tiny, settings_of, monkeypatch):
    trainer = Trainer(settings_of(), tiny, progress=Silent())

    def overflows(*_):
        raise NotFiniteError("the outputs of the network overflow")

    monkeypatch.setattr(type(trainer.run), "predict", overflows)
    with pytest.raises(DivergedError, match=r"epoch 2: the outputs of the network overflow\. What"):
        trainer.fit()


@pytest.mark.parametrize("kind", [ValueError, ZeroDivisionError])
def test_an_error_that_is_no_divergence_reaches_the_user_as_it_is(tiny, settings_of, kind):
    calls = []

    def loss(outputs, targets):
        calls.append(None)
        if len(calls) == 3:
            raise kind("mine")
        return torch.nn.functional.cross_entropy(outputs, targets)

    with pytest.raises(kind, match=r"^mine$") as error:
        fit(settings_of(), tiny, loss=loss)
    assert type(error.value) is kind
    assert len(calls) == 3


def test_an_error_that_a_parameter_has_caused_names_the_parameter(tiny, settings_of):
    class Spoils(Callback):
        def on_epoch(self, trainer, line):
            trainer.model.layers[0].weight.data.fill_(math.nan)

    def loss(outputs, targets):
        if not outputs.isfinite().all():
            raise ValueError("mine")
        return torch.nn.functional.cross_entropy(outputs, targets)

    with pytest.raises(DivergedError, match=r"epoch 2: layers\.0\.weight is not finite"):
        fit(settings_of(), tiny, loss=loss, callbacks=[Spoils()])


def test_resuming_refuses_other_settings_and_other_data(tiny, settings_of, tmp_path):
    fit(settings_of(), tiny, tmp_path / "run")
    with pytest.raises(ValueError, match=r"has a run with another train\.epochs"):
        fit(settings_of(train={"epochs": 9}), tiny, tmp_path / "run", resume=True)
    with pytest.raises(ValueError, match="was trained on other data than data is now"):
        fit(settings_of(), with_other_test_labels(tiny), tmp_path / "run", resume=True)


def test_a_result_reads_well(tiny, settings_of):
    result = fit(settings_of("GCN-DE"), tiny).result
    shown = repr(result)
    assert shown.startswith(f"Result(test accuracy {result.test.accuracy:.4f}, NLL ")
    assert f"validation accuracy {result.validation.accuracy:.4f}" in shown
    assert f"drop rates 0.500, 0.500; epoch {result.selected_epoch} of 6, " in shown
    assert "\n" not in shown
    assert "drop rates none, none" in repr(fit(settings_of("GCN"), tiny).result)


def test_a_trainer_trains_once(tiny, settings_of):
    trainer = fit(settings_of(train={"epochs": 2}), tiny)
    with pytest.raises(ValueError, match="a Trainer trains once"):
        trainer.fit()
