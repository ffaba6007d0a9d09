"""Every Python block and every shell line of the README and the pages runs, or says that it is not.

The Python blocks of a page are one script. Its shell lines run in their order in an empty folder
that has `examples` in it, training for a few epochs only. What is not run has `# not run here` in
the first line of its block, or at the end of the line.
"""

import os
import re
import shlex
import subprocess
import sys
import warnings
from pathlib import Path

import pytest

from graphdrop import load_dataset
from graphdrop.cli import main

ROOT = Path(__file__).parents[1]
TAG = "# not run here"
BLOCK = re.compile(r"^( *)```(\w*)[^\n]*\n(.*?)^\1```", re.DOTALL | re.MULTILINE)
SHELL, PYTHON = {"bash", "console", "sh", "shell"}, {"python", "py"}
OTHER = {"", "text", "toml", "json"}
ALONE = {"README.md", "docs/extend.md"}
"""Pages that run in a process of their own: one as a user would, one that registers a metric."""
FEW = ["--epochs", "4", "--set", "model.hidden=8", "--set", "train.evaluate_every=2"]
FEW += ["--set", "predict.samples=3", "--set", "train.samples=2"]


def blocks(page: Path, languages: set[str]) -> list[str]:
    """The blocks of a page in these languages that are run."""
    found = BLOCK.findall(page.read_text("utf-8"))
    return [text for _, name, text in found if name in languages and not text.startswith(TAG)]


def shell_lines(page: Path) -> list[str]:
    """The shell lines of a page that are run, each in one piece."""
    text = "".join(blocks(page, SHELL)).replace("\\\n", " ")
    return [line for line in text.splitlines() if line.strip() and TAG not in line]


FILES = [ROOT / "README.md", ROOT / "CONTRIBUTING.md", *sorted((ROOT / "docs").rglob("*.md"))]
PAGES = {page.relative_to(ROOT).as_posix(): page for page in FILES}
SCRIPTS = {name: code for name, page in PAGES.items() if (code := blocks(page, PYTHON))}
LINES = {name: lines for name, page in PAGES.items() if (lines := shell_lines(page))}


def skip_without(datasets: list[str]) -> None:
    for name in datasets:
        try:
            load_dataset(name)
        except (ValueError, OSError) as error:
            pytest.skip(f"{name} is not here: {error}")


@pytest.mark.parametrize("page", SCRIPTS)
def test_the_python_blocks_of_a_page_run(page: str, tmp_path: Path, monkeypatch) -> None:
    script = "\n".join(SCRIPTS[page])
    skip_without(re.findall(r'load_dataset\("(\w+)"\)', script))
    (tmp_path / "examples").symlink_to(ROOT / "examples")
    if page not in ALONE:  # in this process, which has imported torch already
        monkeypatch.chdir(tmp_path)
        with warnings.catch_warnings(action="ignore"):
            exec(compile(script, page, "exec"), {"__name__": "__main__"})
        return
    path = tmp_path / "page.py"
    path.write_text(script, "utf-8")
    environment = {**os.environ, "PYTHONWARNINGS": "ignore"}
    command = [sys.executable, str(path)]
    done = subprocess.run(
        command, cwd=tmp_path, env=environment, capture_output=True, text=True, check=False
    )
    assert done.returncode == 0, done.stderr[-3000:]
    assert "Traceback" not in done.stderr


@pytest.mark.parametrize("page", LINES)
def test_the_shell_lines_of_a_page_run(page, tmp_path, monkeypatch, capsys) -> None:
    skip_without(re.findall(r"(?:--dataset|info) (cora|citeseer|cora_ml|pubmed)", str(LINES[page])))
    monkeypatch.chdir(tmp_path)
    (tmp_path / "examples").symlink_to(ROOT / "examples")
    for line in LINES[page]:
        words = shlex.split(line.partition(" | ")[0], comments=True)
        assert words[0] == "graphdrop", f"a test cannot run this: add `{TAG}: why`: {line}"
        few = FEW if words[1] == "train" and "--resume" not in words else []
        with pytest.raises(SystemExit) as stopped:
            main([*words[1:], *few])
        assert stopped.value.code in (0, None), f"{line}\n{capsys.readouterr().err[-2000:]}"


def test_every_block_says_its_language() -> None:
    found = {page: BLOCK.findall(path.read_text("utf-8")) for page, path in PAGES.items()}
    names = [(page, name) for page, blocks in found.items() for _, name, _ in blocks]
    assert [one for one in names if one[1] not in SHELL | PYTHON | OTHER] == []
