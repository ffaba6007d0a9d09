"""Devices by name, and a command that says which of them are not here."""

import pytest
import torch

from graphdrop.io.devices import find_device


def test_auto_is_a_device_that_torch_sees() -> None:
    found = find_device("auto")
    assert torch.ones(2, device=found).sum() == 2.0
    assert find_device("cpu") == torch.device("cpu")


@pytest.mark.skipif(torch.cuda.is_available(), reason="a GPU is here")
def test_a_device_that_is_not_here(run) -> None:
    with pytest.raises(ValueError, match=r"device is 'cuda:1', and torch .* sees no such device"):
        find_device("cuda:1")
    with pytest.raises(ValueError, match=r"device is 'gpu'; it takes auto, cpu, cuda, mps"):
        find_device("gpu")
    words = ("--dataset", "synthetic", "--recipe", "paper", "--out", "a", "--device", "cuda")
    code, _, said = run("train", *words)
    assert code == 2
    assert "sees no such device" in said
