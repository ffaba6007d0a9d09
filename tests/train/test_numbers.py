"""Numbers as targets: any unit works, answers come in it, and doubtful targets are refused."""

import pytest
import torch
from torch_geometric.data import Data
from torch_geometric.nn import GraphSAGE

from graphdrop import Config, GraphDropConnect, Trainer, attach, load, predict
from graphdrop.metrics.scoring import mean_error
from graphdrop.train.many import tune
from graphdrop.train.progress import Silent

NODES = 300


def in_thousands() -> Data:
    """A number near 300, half of whose spread the features explain; no masks."""
    generator = torch.Generator().manual_seed(0)
    x = torch.randn(NODES, 4, generator=generator)
    around = torch.arange(NODES).repeat(2)
    edges = torch.stack([around, (around + torch.arange(2 * NODES) // NODES + 1) % NODES])
    noise = torch.randn(NODES, generator=generator)
    y = 300 + 80 * x[:, 0] + 30 * x[:, 1] + 20 * noise
    return Data(x=x, edge_index=torch.cat([edges, edges.flip(0)], 1), y=y)


def trainer(data: Data, folder=None, epochs: int = 60, **options) -> Trainer:
    config = Config(train={"epochs": epochs}, predict={"samples": 10})
    return Trainer(config, data, folder, progress=Silent(), **options)


def errors(fitted: Trainer, result) -> tuple[float, float]:
    return result.test.rmse, mean_error(fitted.run.targets[fitted.rows["test"]], None)


def test_answers_follow_the_unit_of_the_targets():
    data, other = in_thousands(), in_thousands()
    other.y = 1000 * other.y.double() + 5
    runs = [trainer(one, epochs=20) for one in (data, other)]
    results = [run.fit() for run in runs]
    rows = runs[0].rows["test"]
    first, second = (run.predict(rows) for run in runs)
    spread = float(data.y.std())
    assert torch.allclose((second.mean - 5) / 1000, first.mean, atol=0.01 * spread)
    assert torch.allclose(second.deviation / 1000, first.deviation, rtol=0.01)
    assert results[1].test.rmse == pytest.approx(1000 * results[0].test.rmse, rel=0.01)
    assert results[1].test.coverage == pytest.approx(results[0].test.coverage, abs=0.02)


def test_a_model_of_ones_own_with_two_targets_is_kept_and_resumed_in_their_units(tmp_path):
    data = in_thousands()
    data.y = torch.stack([data.y, 1e-3 * data.y.flip(0)], 1)

    def own() -> GraphSAGE:
        torch.manual_seed(0)
        model = GraphSAGE(4, 16, 2, 4)
        attach(model, GraphDropConnect(blocks=2))
        return model

    run = trainer(data, tmp_path / "a", model=own())
    result = run.fit()
    assert result.test.r2 > 0.3
    again = trainer(data, tmp_path / "a", model=own(), resume=True)
    assert again.fit().test == result.test
    loaded = load(tmp_path / "a", own())
    answer = predict(loaded, run.data, output="gaussian")
    assert torch.equal(answer.mean[run.rows["test"]], run.predict(run.rows["test"]).mean)
    assert answer.mean.mean(0).tolist() == pytest.approx([300, 0.3], rel=0.1)


def test_a_loss_of_ones_own_takes_targets_as_they_are():
    data, seen = in_thousands(), []

    def loss(outputs, targets):
        seen.append(targets)
        return (outputs[:, 0] - targets).square().mean() + outputs[:, 1].square().mean()

    trainer(data, epochs=1, loss=loss).fit()
    assert float(seen[0].mean()) > 250


def test_nodes_without_a_number_are_only_predicted():
    data = in_thousands()
    data.y[:50] = torch.nan
    run = trainer(data, epochs=5)
    run.fit()
    assert int(torch.cat([run.rows[part] for part in ("train", "test")]).min()) >= 50
    assert predict(run.model, data, output="gaussian").is_finite


@pytest.mark.parametrize(
    ("y", "said"),
    [
        (torch.arange(NODES) % 5 * 1.0, r"0 to 4 only, .*y\.long\(\) for classes.*task numbers"),
        (torch.full((NODES,), 2.5), "2.5 for all 180 training nodes"),
        (torch.full((NODES,), torch.nan), "no labelled node"),
        (torch.arange(NODES) / torch.zeros(()), "data.y of node 1 is infinite"),
    ],
)
def test_targets_that_cannot_be_learned_are_refused(y, said):
    data = in_thousands()
    data.y = y
    with pytest.raises(ValueError, match=said):
        trainer(data)


def test_whole_numbers_are_what_the_settings_say():
    data = in_thousands()
    data.y = torch.arange(NODES) % 5 * 1.0
    outputs = {}
    for task in ("numbers", "classes"):
        config = Config(data={"task": task, "split": "random-fractions"}, train={"epochs": 1})
        outputs[task] = Trainer(config, data, progress=Silent()).run.task.output
    assert outputs == {"numbers": "gaussian", "classes": "classes"}


def test_settings_are_tuned_without_the_consistency_loss_of_classes():
    few = {"epochs": 2, "samples": 2}
    config = Config(data={"dataset": "data"}, train=few, model={"hidden": 8})
    dataset = trainer(in_thousands(), epochs=1).run.dataset
    assert tune(config, dataset, 2).objective.agree == 0
