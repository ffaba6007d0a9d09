"""The report in a browser: it draws, answers to mouse and keys, and runs nothing from its data."""

import base64
import copy
import json
from dataclasses import replace

import pytest
import torch

from contracts.chromium import Chromium, executable
from contracts.small_runs import CLASSES, train, write_graph
from graphdrop.data.names import Names
from graphdrop.report.answered import confusion, look_first
from graphdrop.report.html import write_report
from graphdrop.report.runs import gather
from graphdrop.sampling import RankedEdges

HOSTILE = '<img src=x onerror="window.hacked=1"><script>window.hacked=1<'


@pytest.fixture(scope="module")
def browser(tmp_path_factory):
    executable()
    chromium = Chromium(tmp_path_factory.mktemp("profile"))
    yield chromium
    chromium.close()


@pytest.fixture(scope="module")
def made(tmp_path_factory):
    """The page of two runs, one of them with a hostile name; their evidence and data."""
    executable()
    folder = tmp_path_factory.mktemp("runs")
    graph = write_graph(folder / f"{HOSTILE}.npz")
    runs = [train(folder / "a", graph), train(folder / HOSTILE, graph, "GCN-DO", seed=1)]
    evidence, data = gather(runs)
    page = folder / "report.html"
    write_report(page, evidence, data, command=HOSTILE)
    return page, evidence, data


@pytest.fixture
def report(browser, made):
    """The page, just opened."""
    browser.open(made[0])
    browser.run("new Promise(requestAnimationFrame)")
    return browser


def text_of(browser: Chromium, selector: str) -> str:
    return browser.run(f"document.querySelector({json.dumps(selector)}).innerText")


def test_every_section_is_drawn_and_nothing_goes_wrong(report, made):
    counts = report.run(
        "Object.fromEntries([...document.querySelectorAll('.grid')].map("
        "grid => [grid.id, grid.querySelectorAll('svg.plot path').length]))"
    )
    assert counts == {
        "selective-charts": 6,
        "set-charts": 0,
        "edge-tables": 0,
        "first-tables": 0,
        "confusion-tables": 0,
        "ranking-charts": 0,
        "reliability-charts": 2,
        "pavpu-charts": 6,
        "training-charts": 6,
        "rate-charts": 6,
        "smoothing-charts": 6,
    }
    assert report.run("document.querySelectorAll('#set-charts svg rect').length") >= 4
    assert report.run("document.querySelectorAll('#views canvas').length") == 2
    assert made[1][0].data_sha256 in text_of(report, "#provenance")
    for run in made[1]:
        assert f"{100 * run.scores['accuracy']:.1f} %" in text_of(report, "#summary-table")
    assert report.complaints() == []


def test_names_from_the_data_are_shown_and_never_run(report):
    assert report.run("typeof window.hacked") == "undefined"
    assert report.run("document.images.length") == 0
    assert text_of(report, "#title") == HOSTILE
    for selector in ("#summary-table", "#views", "#provenance", "#training-charts"):
        assert HOSTILE in text_of(report, selector)


def test_the_slider_gives_accuracy_and_coverage_at_its_threshold(report, made):
    _, evidence, data = made
    for position in (1000, 600):
        report.run(
            f"(() => {{ const s = document.getElementById('threshold'); s.value = {position};"
            "s.dispatchEvent(new Event('input')); })()"
        )
        threshold = report.run("settings.threshold")
        shown = report.run(
            "[...document.querySelectorAll('#kept .tile')].map(tile => "
            "[...tile.querySelectorAll('.big')].map(one => one.textContent))"
        )
        for run, (accuracy, coverage) in zip(evidence, shown, strict=True):
            test = data.test_mask
            kept = run.prediction.entropy[test].double() <= threshold
            right = (run.decided == data.y)[test][kept].double()
            assert coverage == f"{100 * kept.double().mean():.1f} %"
            assert accuracy == (f"{100 * right.mean():.1f} %" if len(right) else "\u2013")
    assert report.complaints() == []


def test_the_threshold_of_a_run_is_where_the_slider_begins(report, made):
    _, evidence, data = made
    test = data.test_mask
    for number, run in enumerate(evidence):
        if number:  # that of the first run is chosen already
            report.run(f"document.querySelector('[data-rule=\"{number}\"]').click()")
        kept = run.trust.trusted[test].double().mean()
        tile = report.run(f"document.querySelectorAll('#kept .tile')[{number}].innerText")
        assert f"{100 * kept:.1f} %" in tile
        assert f"Its own threshold: entropy {run.trust.threshold:.3f}" in tile
    report.run(
        "(() => { const s = document.getElementById('refuse-by'); s.value = 'least_confidence';"
        "s.dispatchEvent(new Event('change')); })()"
    )
    assert text_of(report, "#threshold-value") == "66.7 %"
    assert text_of(report, "[data-figure=coverage]") == "100.0 %"
    assert report.complaints() == []


def test_the_page_says_what_its_figures_mean(report, made):
    said = report.run(
        "Object.fromEntries([...document.querySelectorAll('[data-says]')].map("
        "one => [one.dataset.says, one.innerText]))"
    )
    accuracies = [f"{100 * run.scores['accuracy']:.1f}\u00a0%" for run in made[1]]
    assert any(accuracy in said["summary"] for accuracy in accuracies)
    assert all(HOSTILE in said[name] for name in ("selective", "sets", "calibration", "training"))
    report.run("document.querySelector('[data-measure=PAvPU]').focus()")
    assert "right and certain, or wrong and uncertain; good is" in text_of(report, "#tip")
    report.press("Escape", 27)
    assert report.run("document.getElementById('tip').hidden")
    unexplained = report.run(
        "[...document.querySelectorAll('#summary-table th[scope=col]')]"
        ".filter(one => !['run', 'method'].includes(one.innerText))"
        ".filter(one => !one.querySelector('.help')).map(one => one.innerText)"
    )
    assert unexplained == []


def ask_for(browser: Chromium, node: str) -> str:
    browser.run(
        "(() => { const s = document.getElementById('node-number');"
        f"s.value = {json.dumps(node)}; s.dispatchEvent(new Event('change')); }})()"
    )
    return text_of(browser, "#node")


def test_a_node_without_a_label_shares_it_with_none(browser, made, tmp_path):
    data = copy.copy(made[2])
    data.y = data.y.clone()
    data.y[3] = -1
    write_report(tmp_path / "unlabelled.html", made[1], data)
    browser.open(tmp_path / "unlabelled.html")
    assert "by its label" in ask_for(browser, "2")
    shown = ask_for(browser, "3")
    assert "no label · not in the split" in shown
    assert "by its label" not in shown
    assert "its label." not in shown
    assert browser.complaints() == []


def test_calibrated_and_uncalibrated_are_in_one_diagram(browser, made, tmp_path):
    _, evidence, data = made
    raw = {name: list(values) for name, values in evidence[0].reliability.items()}
    both = replace(evidence[0], raw_reliability=raw, uncalibrated=evidence[0].scores)
    write_report(tmp_path / "both.html", [both], data)
    browser.open(tmp_path / "both.html")
    assert text_of(browser, "#reliability-charts .keys").split() == ["calibrated", "uncalibrated"]
    assert "ECE, uncalibrated" in text_of(browser, "#summary-table")
    assert browser.complaints() == []


def test_on_paper_the_page_is_light_without_controls_and_unfolded(browser, made, tmp_path):
    browser.open(made[0], dark=True)
    printed = base64.b64decode(browser.call("Page.printToPDF")["data"])
    assert printed.startswith(b"%PDF")
    browser.run("dispatchEvent(new Event('beforeprint'))")
    assert browser.run("document.documentElement.dataset.theme") == "light"
    assert browser.run("document.querySelectorAll('details:not([open])').length") == 0
    browser.call("Emulation.setEmulatedMedia", media="print")
    shown = "one => getComputedStyle(one).display !== 'none'"
    for selector in (".bar", ".controls", "#threshold", "#node"):  # no node is chosen
        assert not browser.run(f"[...document.querySelectorAll('{selector}')].some({shown})")
    browser.run("dispatchEvent(new Event('afterprint'))")
    browser.call("Emulation.setEmulatedMedia", media="")
    assert browser.run("document.documentElement.dataset.theme") == "dark"
    assert browser.run("document.getElementById('measures').open") is False
    assert browser.complaints() == []


def test_where_edges_would_cover_the_picture_only_those_pointed_at_are_drawn(report):
    assert report.run("document.getElementById('graph-note').hidden")
    everything = pixels(report)
    report.run("edgeLength = 1e6; redraw()")
    nothing = pixels(report)
    assert "point at a node to see its own" in text_of(report, "#graph-note")
    report.run("view.hovered = 0; redraw()")
    assert len({everything, nothing, pixels(report)}) == 3


def click_on(browser: Chromium, node: int, canvas: int = 0) -> None:
    browser.run(f"canvases[{canvas}].scrollIntoView({{block: 'center', behavior: 'instant'}})")
    x, y = browser.run(
        f"(() => {{ const box = canvases[{canvas}].getBoundingClientRect(), at = projection(box);"
        f"return [box.left + at.x({node}), box.top + at.y({node})]; }})()"
    )
    browser.click(x, y)


def test_a_click_shows_a_nodes_probabilities_and_neighbours(report, made):
    _, evidence, data = made
    node = int(data.edge_index[0].bincount().argmax())
    click_on(report, node, canvas=1)
    shown = text_of(report, "#node")
    assert f"Node {node}" in shown
    for run in evidence:
        for probability in run.prediction.probabilities[node].tolist():
            assert f"{100 * probability:.1f} %" in shown
        assert f"entropy {run.prediction.entropy[node]:.2f} nats" in shown
        assert "90 % set (approximate): " in shown
    neighbours = data.edge_index[1][data.edge_index[0] == node].unique().tolist()
    listed = report.run(
        "[...document.querySelectorAll('#node tbody tr')].map(row => row.innerText.split('\\t'))"
    )
    assert sorted(int(row[0]) for row in listed) == neighbours
    for row in listed:
        other = int(row[0])
        assert int(row[1]) == int(data.y[other])
        for cell, run in zip(row[2:], evidence, strict=True):
            chosen = int(run.decided[other])
            share = 100 * float(run.prediction.probabilities[other, chosen])
            assert cell.strip() == f"{chosen} · {share:.0f} %"
    report.run("document.querySelector('#node tbody button').click()")
    assert f"Node {listed[0][0]}" in text_of(report, "#node")
    assert report.complaints() == []


def pixels(browser: Chromium) -> str:
    browser.run("new Promise(done => requestAnimationFrame(() => requestAnimationFrame(done)))")
    return browser.run("canvases[0].toDataURL()")


def test_the_picture_follows_its_controls(report):
    seen = [pixels(report)]
    for act in (
        "document.querySelector('[data-option=fade]').value = 'none'",
        "document.querySelector('[data-option=colour]').value = 'label'",
        "document.querySelector('#classes button').click()",
        "zoomBy(2, canvases[0])",
        "document.getElementById('theme').click()",
    ):
        report.run(
            f"{act}; document.querySelectorAll('[data-option]').forEach("
            "one => one.dispatchEvent(new Event('change')))"
        )
        seen.append(pixels(report))
    assert len(set(seen)) == len(seen)
    assert report.complaints() == []


def test_keys_reach_the_graph_and_the_charts(report):
    report.run("canvases[0].focus()")
    report.press("Enter", 13)
    chosen = report.run("view.chosen")
    assert isinstance(chosen, int)
    assert f"Node {chosen}" in text_of(report, "#node")
    before = report.run("view.x")
    report.press("ArrowLeft", 37)
    assert report.run("view.x") > before
    report.run("document.querySelector('#pavpu-charts svg.plot').focus()")
    report.press("ArrowRight", 39)
    assert report.run("document.getElementById('tip').hidden") is False
    assert "threshold" in text_of(report, "#tip")
    unreachable = report.run(
        "[...document.querySelectorAll('button, select, input, a, summary, canvas, svg.plot')]"
        ".filter(one => one.tabIndex < 0).length"
    )
    assert unreachable == 0


def test_a_node_to_look_at_first_is_shown_beside_the_graph(report, made):
    _, (run, _), data = made
    shown = report.run(
        "[...document.querySelectorAll('#first-tables .chart')[0].querySelectorAll('tbody tr')]"
        ".map(row => [...row.children].map(cell => cell.innerText.trim()))"
    )
    assert [(row[0], row[3]) for row in shown] == [
        (n["node"], n["why"]) for n in look_first(run, data)
    ]
    report.run("document.querySelector('#first-tables tbody button').click()")
    assert f"Node {shown[0][0]}" in text_of(report, "#node")
    cells = report.run(
        "[...document.querySelectorAll('#confusion-tables .chart')[0].querySelectorAll('td')]"
        ".map(cell => Number(cell.innerText))"
    )
    assert cells == [count for row in confusion(run, data) for count in row]
    assert report.complaints() == []


def test_edges_below_the_threshold_are_counted_and_dashed(browser, made, tmp_path):
    _, (run, _), data = made
    pairs = data.edge_index[:, data.edge_index[0] < data.edge_index[1]]
    keep = torch.linspace(0.0, 1.0, pairs.shape[1])
    names = Names(tuple(f"<b>{node}</b>" for node in range(len(data.x))))
    edges = RankedEdges(pairs, keep, keep[:, None], ["cosine"], names)
    named = copy.copy(data)
    named.names = names
    write_report(tmp_path / "edges.html", [replace(run, edges=edges)], named)
    browser.open(tmp_path / "edges.html")
    first = browser.run(
        "[...document.querySelectorAll('#edge-tables tbody tr')]"
        ".map(row => [...row.children].map(cell => cell.innerText.trim()))"
    )
    assert [tuple(row[:2]) for row in first] == [edges.ends(i) for i in range(10)]
    seen = []
    for percent in (0, 50):
        browser.run(
            f"(() => {{ const s = document.getElementById('edge-threshold'); s.value = {percent};"
            "s.dispatchEvent(new Event('input')); })()"
        )
        below = int((keep < percent / 100).sum())
        assert f"\n{below}\nof {len(keep)} edges" in text_of(browser, "#doubted")
        seen.append(pixels(browser))
    assert seen[0] != seen[1]
    browser.run("document.querySelector('#edge-tables tbody button').click()")
    assert f"Node {edges.ends(0)[0]}" in text_of(browser, "#node")
    assert "edge kept" in text_of(browser, "#node")
    assert browser.complaints() == []


@pytest.mark.parametrize(("width", "dark"), [(360, True), (1600, False)])
def test_the_page_fits_windows_light_and_dark(browser, made, width, dark):
    browser.open(made[0], width=width, dark=dark)
    assert browser.run("document.documentElement.scrollWidth") <= width
    colour = browser.run("getComputedStyle(document.body).backgroundColor")
    brightness = max(int(part) for part in colour[4:-1].split(","))
    assert (brightness < 60) is dark
    assert browser.complaints() == []


def test_nodes_and_classes_are_called_by_their_names(browser, made, tmp_path):
    _, evidence, data = made
    named = copy.copy(data)
    ids = [f"paper {node}" for node in range(len(data.x))]
    ids[3] = HOSTILE
    named.names = Names(tuple(ids), tuple(f"field {c}" for c in range(CLASSES)))
    write_report(tmp_path / "named.html", evidence, named)
    browser.open(tmp_path / "named.html")
    shown = ask_for(browser, HOSTILE)
    assert f"Node {HOSTILE}" in shown
    assert f"field {int(data.y[3])}" in shown
    assert "paper " in shown  # its neighbours
    assert "field 0" in text_of(browser, "#classes")
    assert browser.run("typeof window.hacked") == "undefined"
    assert browser.complaints() == []
