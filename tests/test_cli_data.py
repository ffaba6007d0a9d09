"""`graphdrop data` says what is known, what is here and what is wrong, one line per error."""

import errno
import json
import os
import shutil
from pathlib import Path

import numpy as np
import pytest
import torch

import graphdrop.cli
from graphdrop.cli import main
from graphdrop.data.sources import SOURCES, find


@pytest.fixture
def run(capsys: pytest.CaptureFixture[str]):
    """Run the command; its exit code, stdout and stderr."""

    def run(*words: str) -> tuple[int, str, str]:
        capsys.readouterr()
        with pytest.raises(SystemExit) as stopped:
            main(words)
        captured = capsys.readouterr()
        return int(stopped.value.code or 0), captured.out, captured.err

    return run


@pytest.fixture
def cora_folder(benchmark_root, tmp_path: Path) -> Path:
    """A folder with a copy of the files of Cora, to do harm to."""
    source = SOURCES["cora"]
    for file in source.files:
        shutil.copyfile(find(source, file, benchmark_root("cora")), tmp_path / file.name)
    return tmp_path


def words_of(text: str) -> str:
    return " ".join(text.split())


def test_the_version_is_that_of_the_package(run):
    assert run("--version") == (0, f"graphdrop {graphdrop.__version__}\n", "")


def test_list_shows_what_is_here(run, no_files, no_network, tmp_path):
    folder = tmp_path / "[bold]:smile:"
    folder.mkdir()
    (folder / "cora_ml.npz").touch()
    (folder / "ind.cora.x").touch()
    text = words_of(run("data", "list", "--root", str(folder))[1])
    assert f"cora_ml 1.6 MB {folder} GitHub" in text
    assert f"cora 0.6 MB {folder}, but 7 of 8 files GitHub" in text
    text = words_of(run("data", "list", "--files", "--root", str(folder))[1])
    assert f"ind.cora.x 22.1 kB {folder / 'ind.cora.x'}" in text
    assert "ind.cora.y 4.1 kB https://raw.githubusercontent.com/kimiyoung/planetoid/" in text


def test_info_prints_the_true_statistics(run, benchmark_root):
    code, out, _ = run("data", "info", "cora", "--root", str(benchmark_root("cora")))
    text = words_of(out)
    assert code == 0
    for figure in (
        "nodes 2,708",
        "edges 5,278 undirected",
        "features 1,433",
        "classes 7",
        "split 140 train / 500 val / 1,000 test (public)",
        "homophily 0.8100",
        "isolated nodes 0",
        "94465c14eb53e04ca262198dcbb2521ee8af60fb3f3d546cd6ca24a511b0e7d1 ind.cora.y",
    ):
        assert figure in text


def test_info_takes_a_file_a_split_and_a_seed(run, tmp_path):
    path = tmp_path / "small.npz"
    ring = np.stack([np.arange(50), (np.arange(50) + 1) % 50], axis=1)
    np.savez(path, node_features=np.eye(50), node_labels=np.arange(50) % 2, edges=ring)
    code, out, _ = run("data", "info", str(path), "--split", "random-fractions", "--seed", "3")
    assert code == 0
    assert "30 train / 10 val / 10 test (random-fractions, seed 3)" in words_of(out)


def test_fetch_says_where_the_verified_files_are(run, cora_folder, no_network):
    code, out, err = run("data", "fetch", "cora", "--root", str(cora_folder))
    assert (code, out, err) == (0, f"cora: 8 files verified in {cora_folder}\n", "")


def test_fetch_without_network_is_one_line_with_three_things_to_do(run, no_files, no_network):
    code, out, err = run("data", "fetch", "cora_ml")
    progress, error = err.splitlines()
    assert (code, out) == (2, "")
    assert progress == "graphdrop: fetching Cora-ML from GitHub gasteigerjo/ppnp (MIT)"
    assert error.startswith("graphdrop: error: Cora-ML is not here and cannot be fetched")
    assert all(f"({number})" in error for number in (1, 2, 3))


def test_verify_finds_the_one_damaged_file(run, no_files, cora_folder):
    assert run("data", "verify", "cora", "--root", str(cora_folder))[0] == 0
    damaged = cora_folder / "ind.cora.tx"
    damaged.write_bytes(damaged.read_bytes()[:-1] + b"!")
    code, out, err = run("data", "verify", "--root", str(cora_folder))
    assert code == 2
    assert f"ind.cora.tx wrong {damaged}" in words_of(out)
    assert f"ind.cora.ty right {cora_folder / 'ind.cora.ty'}" in words_of(out)
    assert "cora_ml.npz not here" in words_of(out)
    assert err.startswith(f"graphdrop: error: {damaged} has the wrong checksum: expected sha256")
    assert err.count("\n") == 1


@pytest.mark.parametrize(
    "words",
    [
        ["data", "info", "corra"],
        ["data", "info", "~nosuch/x.npz"],
        ["train", "--set", "hidden=3", "--show-config"],
        ["train", "--set", "model.norm=" + "[" * 5000, "--show-config"],
    ],
)
def test_an_error_is_one_line_and_exit_code_2(run, words):
    code, out, err = run(*words)
    assert (code, out) == (2, "")
    assert err.startswith("graphdrop: error: ")
    assert err.count("\n") == 1


def test_a_full_disk_is_one_line_that_names_the_file(run, monkeypatch):
    def full(words: object, prog_name: str) -> None:
        raise OSError(errno.ENOSPC, os.strerror(errno.ENOSPC), "runs/a/last.safetensors")

    monkeypatch.setattr(graphdrop.cli, "app", full)
    line = "graphdrop: error: runs/a/last.safetensors: No space left on device\n"
    assert run("train") == (2, "", line)


def test_memory_that_cannot_be_had_is_one_line(run, monkeypatch):
    def starve(words: object, prog_name: str) -> None:
        torch.empty(2**58)

    monkeypatch.setattr(graphdrop.cli, "app", starve)
    code, out, err = run("train")
    assert (code, out) == (2, "")
    assert err.startswith("graphdrop: error: memory ran out (")
    assert err.count("\n") == 1


def test_a_defect_of_the_package_is_one_line_and_debug_keeps_its_traceback(run, monkeypatch):
    def wrong(words: object, prog_name: str) -> None:
        raise RuntimeError("a kernel was called from a forked process")

    monkeypatch.setattr(graphdrop.cli, "app", wrong)
    code, out, err = run("train")
    assert (code, out) == (1, "")
    assert "a defect of graphdrop (RuntimeError: a kernel was called from a forked process" in err
    assert err.count("\n") == 1
    with pytest.raises(RuntimeError, match="forked"):
        main(["train", "--debug"])


@pytest.mark.parametrize(
    "words", [["--debug", "data", "info", "/"], ["data", "info", "/", "--debug"]]
)
def test_debug_anywhere_in_the_line_shows_where_an_error_arose(words):
    with pytest.raises(ValueError, match="is a directory"):
        main(words)


def test_convert_writes_a_store_that_train_and_verify_take(run, tmp_path: Path) -> None:
    store = str(tmp_path / "store")
    code, out, _ = run("data", "convert", "synthetic", store)
    assert code == 0
    assert "2,708 nodes" in out
    code, out, _ = run("data", "verify", store)
    assert code == 0
    assert "edge_index.npy" in out
    results = []
    for dataset in ("synthetic", store):
        folder = tmp_path / f"run {len(results)}"
        options = ("--recipe", "paper", "--epochs", "2", "--set", "model.hidden=8")
        options += ("--split", "public")
        code, _, err = run("train", "--dataset", dataset, "--out", str(folder), *options)
        assert code == 0, err
        result = json.loads((folder / "result.json").read_text())
        results.append((result["data"]["sha256"], result["test"]))
    assert results[0] == results[1]
    (tmp_path / "store" / "y.npy").write_bytes(b"")
    code, _, err = run("data", "verify", store)
    assert code == 2
    assert "y.npy" in err


def test_convert_takes_tables_with_the_columns_that_are_named(run, tmp_path: Path) -> None:
    run("data", "example", str(tmp_path))
    columns = ("--label", "paper_class", "--id", "paper_id")
    code, out, err = run("data", "convert", str(tmp_path), str(tmp_path / "store"), *columns)
    assert code == 0, err
    assert "200 nodes, 1,000 directed edges, 16 features" in out
    code, _, err = run("data", "convert", "synthetic", str(tmp_path / "other"), *columns)
    assert code == 2
    assert "label and id are for a folder of tables" in err
