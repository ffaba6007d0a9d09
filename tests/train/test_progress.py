"""A terminal shows a live bar; elsewhere there is a line now and then."""

import io
import sys
from types import SimpleNamespace

import pytest
from rich.console import Console

from graphdrop.train import progress
from graphdrop.train.progress import Progress
from graphdrop.train.selection import Selection

LINE = {
    "epoch": 20,
    "nll": 1.0,
    "validation": {"accuracy": 0.71, "nll": 0.9},
    "drop_rates": [0.421, None],
}
SELECTION = Selection(epoch=10, accuracy=0.75, nll=0.8)
NOTE = "validation 0.710 (best 0.750), drop 0.42 none"


def shown(terminal: bool, kind: type[Progress] = Progress) -> str:
    stream = io.StringIO()
    console = Console(file=stream, force_terminal=terminal, width=120, markup=False)
    bar = kind(console)
    bar.start(100, 0)
    bar.update({"epoch": 1, "nll": 2.0}, SELECTION)
    bar.update(LINE, SELECTION)
    bar.say("something happened")
    bar.stop()
    return stream.getvalue()


def test_a_terminal_shows_epochs_figures_and_drop_rates():
    text = shown(terminal=True)
    assert "20/100" in text
    assert NOTE in text
    assert "something happened" in text


def test_elsewhere_a_line_comes_when_it_is_time(monkeypatch: pytest.MonkeyPatch):
    monkeypatch.setattr(progress, "LINE_SECONDS", 0.0)
    line = f"epoch 20 of 100: {NOTE}, at most 0 s left\nsomething happened\n"
    assert shown(terminal=False) == line


def test_a_notebook_shows_one_output_that_is_updated(monkeypatch):
    shown = []

    class Handle:
        def update(self, html):
            shown.append(html)

    def display(html, *, display_id):
        assert display_id is True
        shown.append(html)
        return Handle()

    fake = SimpleNamespace(display=display, HTML=str)
    monkeypatch.setitem(sys.modules, "IPython.display", fake)
    monkeypatch.setattr(progress, "UPDATE_SECONDS", 0.0)
    console = Console(file=io.StringIO(), force_jupyter=True)
    bar = Progress(console)
    bar.start(100, 0)
    bar.update(LINE, SELECTION)
    bar.stop()
    assert "epoch 0 of 100" in shown[0]
    assert 'value="20" max="100"' in shown[1]
    assert NOTE in shown[-1]
