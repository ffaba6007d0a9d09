"""Training by an executor gives what training one after the other gives, whatever the order."""

import pytest

from contracts.in_turn import LastFirst
from contracts.small_runs import SMALL, train, write_graph
from graphdrop.cli.many_runs import train_seeds
from graphdrop.config import settle
from graphdrop.config.recipes import merge_settings
from graphdrop.train.many import train_in_folder, tune
from graphdrop.train.run_dataset import resolve_dataset


def test_seeds_by_an_executor_are_those_of_single_runs(tmp_path):
    graph = write_graph(tmp_path / "graph.npz")
    config = settle(merge_settings(SMALL, {"data": {"dataset": str(graph)}, "seed": 3}))
    results = train_seeds(config, 2, tmp_path / "many", LastFirst())
    for seed, result in zip((3, 4), results, strict=True):
        one = train(tmp_path / f"one-{seed}", graph, seed=seed)
        there = tmp_path / "many" / f"seed-{seed}"
        assert (one / "best.safetensors").read_bytes() == (there / "best.safetensors").read_bytes()
        assert result.epochs == 6


def test_tuning_by_an_executor_finds_the_same_and_goes_on_with_its_trials(tmp_path, monkeypatch):
    graph = write_graph(tmp_path / "graph.npz")
    config = settle(merge_settings(SMALL, {"data": {"dataset": str(graph)}}))
    config, dataset = resolve_dataset(config, None)
    log, said = tmp_path / "trials.jsonl", []
    best = tune(config, dataset, 4, log=log, say=said.append, executor=LastFirst())
    assert best == tune(config, dataset, 4)
    assert [line.split(":")[0] for line in said] == [f"Trial {n} of 4" for n in (4, 3, 2, 1)]
    assert len(log.read_text().splitlines()) == 4
    monkeypatch.setattr("graphdrop.train.many.trial_nll", None)
    assert tune(config, dataset, 4, log=log, executor=LastFirst()) == best


def test_trials_are_kept_for_the_data_they_were_scored_on(tmp_path, monkeypatch):
    graph = write_graph(tmp_path / "graph.npz")
    config = settle(merge_settings(SMALL, {"data": {"dataset": str(graph)}}))
    log, scored = tmp_path / "trials.jsonl", []

    def score(config, dataset, *_):
        scored.append(int(dataset.split.train.nonzero()[0]))
        return 0.5

    monkeypatch.setattr("graphdrop.train.many.trial_nll", score)
    for rotate in (0, 1, 0):
        write_graph(graph, rotate=rotate)
        tune(config, resolve_dataset(config, None)[1], 1, log=log)
    assert len(scored) == len(set(scored)) == 2
    kept = log.read_text()
    log.write_text(kept + '{"nll": 0.1, "con')  # its writer was killed
    tune(config, resolve_dataset(config, None)[1], 1, log=log)
    assert len(scored) == 2
    for wrong in ("[]", '{"a": 1}', '{"nll": "x", "config": {}}', '{"nll": 0.1'):
        log.write_text(f"{kept}{wrong}\n")
        with pytest.raises(ValueError, match=r"trials\.jsonl has a line .* not a trial, line 3:"):
            tune(config, resolve_dataset(config, None)[1], 1, log=log)


def test_other_data_under_the_same_name_are_refused(tmp_path):
    graph = write_graph(tmp_path / "graph.npz")
    config = settle(merge_settings(SMALL, {"data": {"dataset": str(graph)}}))
    with pytest.raises(ValueError, match=r"graph\.npz is not the same on .*: give every node"):
        train_in_folder(config, str(tmp_path / "run"), "0" * 64)
    assert not (tmp_path / "run").exists()
