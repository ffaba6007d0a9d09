"""Every Python block of the README and of the pages runs: a page is one script."""

import os
import re
import subprocess
import sys
from pathlib import Path

import pytest

from graphdrop import load_dataset

ROOT = Path(__file__).parents[1]
BLOCK = re.compile(r"^```python\n(.*?)^```", re.DOTALL | re.MULTILINE)
PAGES = {
    page.name: blocks
    for page in [ROOT / "README.md", *sorted((ROOT / "docs").glob("*.md"))]
    if (blocks := BLOCK.findall(page.read_text("utf-8")))
}


@pytest.mark.parametrize("page", PAGES)
def test_the_python_blocks_of_a_page_run(page: str, tmp_path: Path) -> None:
    script = "\n".join(PAGES[page])
    for name in re.findall(r'load_dataset\("(\w+)"\)', script):
        try:
            load_dataset(name)
        except (ValueError, OSError) as error:
            pytest.skip(f"{page} loads {name}, which is not here: {error}")
    path = tmp_path / "page.py"
    path.write_text(script, "utf-8")
    environment = {**os.environ, "PYTHONWARNINGS": "ignore"}
    command = [sys.executable, str(path)]
    done = subprocess.run(
        command, cwd=tmp_path, env=environment, capture_output=True, text=True, check=False
    )
    assert done.returncode == 0, done.stderr[-3000:]
    assert "Traceback" not in done.stderr
