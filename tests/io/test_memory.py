"""What would take too much memory is refused before it takes any."""

from pathlib import Path

import pytest

from graphdrop.io import memory
from graphdrop.io.memory import VARIABLE, check_bytes, format_bytes, free_bytes, most_bytes


@pytest.fixture(autouse=True)
def no_variable(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.delenv(VARIABLE, raising=False)


def test_what_needs_more_than_the_limit_is_refused_by_name_and_size():
    check_bytes("the network", 1000, 1000)
    with pytest.raises(ValueError, match=r"the network would take 1001 bytes .* 1000 bytes may be"):
        check_bytes("the network", 1001, 1000)


def test_the_limit_is_the_argument_or_the_variable_or_half_of_what_is_free(monkeypatch):
    monkeypatch.setattr(memory, "free_bytes", lambda: 64)
    assert most_bytes() == 32
    monkeypatch.setenv(VARIABLE, " 5000000 ")
    assert most_bytes() == 5_000_000
    assert most_bytes(7) == 7


@pytest.mark.parametrize("text", ["-1", "8GB", "9" * 5000])
def test_a_variable_that_is_no_number_of_bytes_is_refused(monkeypatch, text):
    monkeypatch.setenv(VARIABLE, text)
    with pytest.raises(
        ValueError, match=f"{VARIABLE} is .* give a whole number of bytes"
    ) as raised:
        most_bytes()
    assert len(str(raised.value)) < 200


def test_a_container_has_no_more_than_its_limit(monkeypatch, tmp_path: Path):
    limit, used = tmp_path / "memory.max", tmp_path / "memory.current"
    monkeypatch.setattr(memory, "_CGROUPS", ((str(limit), str(used)),))
    system = free_bytes()
    limit.write_text("3000000\n")
    used.write_text("1000000\n")
    (tmp_path / "memory.stat").write_text("anon 200000\ninactive_file 600000\n")
    assert free_bytes() == 2_600_000
    used.write_text("9000000\n")
    assert free_bytes() == 0
    limit.write_text("max\n")
    assert free_bytes() == pytest.approx(system, rel=0.5)


@pytest.mark.parametrize(
    ("size", "words"),
    [
        (1023, "1023 bytes"),
        (1536, "1.5 KiB"),
        (2**30, "1.0 GiB"),
        (90 * 2**62 * 8, "2880.0 EiB"),
        (10**400, "more than a million EiB"),
    ],
)
def test_sizes_are_said_in_words(size, words):
    assert format_bytes(size) == words
