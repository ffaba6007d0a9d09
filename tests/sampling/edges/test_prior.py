"""fit_edge_prior finds planted edges, finds nothing where nothing is, and carries over."""

import numpy as np
import pytest
import torch
from torch import Tensor

from contracts.planted_edges import town
from graphdrop.graph import Graph
from graphdrop.sampling.edges import EdgePrior, fit_edge_prior


def auroc(scores: Tensor, marked: Tensor) -> float:
    above = (scores[marked][:, None] > scores[~marked]).double()
    return float((above + 0.5 * (scores[marked][:, None] == scores[~marked]).double()).mean())


def test_planted_edges_are_found() -> None:
    data = town(0, nodes=600, planted=900)
    fit = fit_edge_prior(data)
    assert fit.test.p_value < 1e-4
    assert auroc(-fit.keep, data.planted) > 0.75
    assert "look doubtful" in fit.summary()


def test_fit_scores_no_worse_than_one_rate() -> None:
    for seed in range(3):
        data = town(seed, planted=0, signal=0.2)
        fit = fit_edge_prior(data)
        nodes = data.val_mask.nonzero().flatten()
        own, one = (
            float(answers[nodes, data.y[nodes]].log().sum())
            for answers in (fit.answers, fit.one_rate_answers)
        )
        assert own >= one - 1e-3
        assert fit.test.gain * len(nodes) == pytest.approx(own - one, abs=0.01)


@pytest.mark.parametrize(
    ("graphs", "most"), [(8, 2), pytest.param(200, 17, marks=pytest.mark.slow)]
)
def test_numbers_permuted_over_edges_say_nothing(graphs: int, most: int) -> None:
    alarms = dict.fromkeys(("score_p", "similarity_p", "likelihood_p", "p_value"), 0)
    for seed in range(graphs):
        data = town(seed, nodes=150, planted=100)
        fit = fit_edge_prior(data)
        half = len(fit.numbers) // 2
        order = torch.randperm(half, generator=torch.Generator().manual_seed(seed))
        moved = fit.numbers[torch.cat([order, order + half])]  # both directions of an edge alike
        columns = dict(zip(fit.names, moved.unbind(1), strict=True))
        test = fit_edge_prior(data, numbers=(), columns=columns).test
        for name in alarms:
            alarms[name] += getattr(test, name) < 0.05
    assert max(alarms.values()) <= most, alarms


def test_a_column_of_the_user_and_edge_types_are_used() -> None:
    data = town(1)
    quality = torch.where(data.planted, 0.0, 1.0)
    fit = fit_edge_prior(data, columns={"quality": quality})
    assert auroc(-fit.keep, data.planted) > 0.8
    assert fit.parts[:, fit.names.index("quality")].std() > fit.parts.std(0).min()
    data.edge_type = 3 + data.planted.long()
    fit = fit_edge_prior(data, numbers=())
    assert fit.names == ["edge_type 3", "edge_type 4"]
    assert fit.keep[data.planted].max() < fit.keep[~data.planted].min()


def test_order_and_direction_of_edges_do_not_matter() -> None:
    data = town(2)
    fit = fit_edge_prior(data)
    half = len(fit.keep) // 2
    torch.testing.assert_close(fit.keep[:half], fit.keep[half:])
    order = torch.randperm(len(fit.keep), generator=torch.Generator().manual_seed(0))
    data.edge_index = data.edge_index[:, order]
    torch.testing.assert_close(fit_edge_prior(data).keep, fit.keep[order], rtol=0.05, atol=0.02)


def test_the_prior_gives_the_fitted_rates_on_its_own_graph_and_sensible_ones_on_another() -> None:
    data, other = town(3, nodes=600, planted=900), town(4)
    fit = fit_edge_prior(data)
    for fitted, tolerance in ((data, 1e-4), (other, None)):
        graph = Graph.from_data(fitted)
        keep = torch.sigmoid(fit.prior(graph, fitted.x))
        between = ~graph.self_loop
        source, destination = fitted.edge_index.numpy()
        order = torch.from_numpy(np.lexsort((source, destination)))
        if tolerance is not None:
            torch.testing.assert_close(keep[between], fit.keep[order], rtol=1e-4, atol=tolerance)
        assert auroc(-keep[between], fitted.planted[order]) > 0.7


def test_the_state_of_a_prior_is_all_it_needs() -> None:
    data = town(5)
    prior = fit_edge_prior(data).prior
    copy = EdgePrior(prior.names, prior.features, prior.classes, prior.known_nodes)
    copy.load_state_dict(prior.state_dict())
    graph = Graph.from_data(data)
    torch.testing.assert_close(copy(graph, data.x), prior(graph, data.x))


@pytest.mark.parametrize("features", ["identity", "constant", "none", "zero"])
def test_features_that_say_nothing(features: str) -> None:
    data = town(6, nodes=90, planted=60)
    nodes = 90
    data.x = {
        "identity": torch.eye(nodes),
        "constant": torch.ones(nodes, 2),
        "none": None,
        "zero": torch.zeros(nodes, 3),
    }[features]
    data.num_nodes = nodes
    fit = fit_edge_prior(data)
    assert bool(((fit.keep >= 0) & (fit.keep <= 1)).all())
    assert not {"cosine", "agreement"} & set(fit.names)
    if features != "identity":
        assert not fit.test.differs or features == "none"
    assert fit.prior(Graph.from_data(data), data.x).isfinite().all()


def test_directed_graphs_with_loops_parallel_edges_and_isolated_nodes() -> None:
    data = town(7, nodes=120, planted=60)
    ends = data.edge_index[:, : data.edge_index.shape[1] // 2]
    loops = torch.tensor([[0, 5, 5], [0, 5, 5]])
    data.edge_index = torch.cat([ends, loops, ends[:, :40]], 1)
    data.x = torch.cat([data.x, torch.randn(2, 12)])  # two nodes without an edge
    data.y = torch.cat([data.y, torch.tensor([0, 1])])
    for name in ("train_mask", "val_mask"):
        data[name] = torch.cat([data[name], torch.tensor([True, True])])
    del data.planted
    data.val_mask &= ~data.train_mask
    fit = fit_edge_prior(data)
    assert len(fit.keep) == data.edge_index.shape[1]
    count = ends.shape[1]
    assert fit.keep[count : count + 3].tolist() == [1.0, 1.0, 1.0]
    torch.testing.assert_close(fit.keep[count + 3 :], fit.keep[:40])  # parallel, and alike
    assert fit.keep[:count].std() > 0


def test_without_edges_there_is_one_rate() -> None:
    data = town(8, nodes=60, planted=0)
    data.edge_index = data.edge_index[:, :0]
    fit = fit_edge_prior(data)
    assert (fit.names, fit.test.differs, len(fit.keep)) == ([], False, 0)


def test_more_labels_than_asked_for_are_drawn() -> None:
    data = town(9)
    fit = fit_edge_prior(data, most_labels=40)
    assert fit.prior.known_nodes == 40


def test_what_cannot_be_fitted_is_refused() -> None:
    data = town(0, nodes=60)
    with pytest.raises(ValueError, match="scored has no labelled node; it takes"):
        fit_edge_prior(data, scored=torch.zeros(60, dtype=torch.bool))
    with pytest.raises(ValueError, match=r"columns\['a'\] has 3 values; it takes one for each"):
        fit_edge_prior(data, columns={"a": torch.ones(3)})
    with pytest.raises(ValueError, match="numbers has color; it takes cosine"):
        fit_edge_prior(data, numbers=("color",))
    data.y = data.y.float()
    with pytest.raises(ValueError, match="y has dtype"):
        fit_edge_prior(data)
