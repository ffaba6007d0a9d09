"""An installed package can write the tables that the README and the pages use."""

import json
import runpy
from pathlib import Path

import pytest

from graphdrop.cli import main
from graphdrop.data.example import TABLES, write_example

EXAMPLE = Path(__file__).parents[2] / "examples" / "data"


def test_the_command_writes_the_tables_of_the_repository(tmp_path, capsys):
    with pytest.raises(SystemExit) as stopped:
        main(["data", "example", str(tmp_path / "new" / "folder"), "--json"])
    assert stopped.value.code in (0, None)
    written = json.loads(capsys.readouterr().out)["files"]
    assert {Path(path).name for path in written} == {path.name for path in EXAMPLE.glob("*.csv")}
    for path in map(Path, written):
        assert path.read_bytes() == (EXAMPLE / path.name).read_bytes()


def test_a_file_of_somebody_else_is_not_replaced(tmp_path):
    write_example(tmp_path)
    write_example(tmp_path)  # its own files are
    for path in tmp_path.iterdir():
        path.unlink()
    (tmp_path / "edges.csv").write_text("mine")
    with pytest.raises(ValueError, match=r"edges\.csv is there already"):
        write_example(tmp_path)
    assert [path.name for path in tmp_path.iterdir()] == ["edges.csv"]


@pytest.mark.parametrize(
    ("script", "function", "folder"),
    [
        ("make.py", "example_files", ""),
        ("make.py", "dirty_files", TABLES / "dirty"),
        ("make_fraud.py", "fraud_files", "fraud"),
        ("make_tickets.py", "ticket_files", "tickets"),
    ],
)
def test_the_tables_in_the_repository_are_what_their_script_makes(script, function, folder):
    made = runpy.run_path(str(EXAMPLE / script))[function]()
    found = {path.name: path.read_bytes() for path in (EXAMPLE / folder).glob("*.csv")}
    assert made == found
    assert sum(map(len, made.values())) < 500_000
