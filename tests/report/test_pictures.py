"""The screenshots of the documentation: the demo's report on Cora, taken by the browser.

With GRAPHDROP_PICTURES=docs/pictures they are kept there; else they go to a temporary folder.
"""

import os
import struct
from pathlib import Path

import pytest

from contracts.chromium import Chromium, executable
from graphdrop.cli import main
from graphdrop.data import load_dataset

PICTURES = {
    "report.png": ((1280, 760), False, "#graph-controls"),
    "report-refusal.png": ((1280, 900), False, "#selective"),
    "report-phone.png": ((390, 844), True, "#calibration"),
}
"""The size of the window, whether it is dark, and what is at its top."""


@pytest.mark.slow
def test_the_pictures_of_the_documentation_are_taken(tmp_path, monkeypatch):
    executable()
    try:
        load_dataset("cora")
    except (ValueError, OSError) as error:
        pytest.skip(f"Cora is not here: {error}")
    folder = Path(os.environ.get("GRAPHDROP_PICTURES", tmp_path)).resolve()
    monkeypatch.chdir(tmp_path)
    with pytest.raises(SystemExit) as ended:
        main(["demo"])
    assert not ended.value.code
    browser = Chromium(tmp_path / "profile")
    try:
        for name, (size, dark, section) in PICTURES.items():
            take(browser, folder / name, size, dark, section)
    finally:
        browser.close()


def take(browser: Chromium, path: Path, size: tuple[int, int], dark: bool, section: str) -> None:
    browser.open(Path("runs/demo/report.html"), width=size[0], height=size[1], dark=dark)
    browser.run(
        "[...document.querySelectorAll('#graph-controls button')]"
        ".find(one => one.textContent === 'Runs disagree').click()"
    )
    browser.run(f"document.querySelector('{section}').scrollIntoView({{behavior: 'instant'}})")
    browser.run("new Promise(done => requestAnimationFrame(() => requestAnimationFrame(done)))")
    browser.picture(path)
    assert struct.unpack(">II", path.read_bytes()[16:24]) == size
    assert path.stat().st_size > 20_000  # an empty page is smaller
    assert browser.complaints() == []
