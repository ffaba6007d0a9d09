// The figures: training, calibration, PAvPU, over-smoothing.

const zip = (xs, ys) => xs.map((x, k) => [x, ys[k]]);
const allRuns = (values) => runs.map((run, k) => ({ name: run.name, points: values(run), colour: runColour(k), dash: runDash(k), shape: k }));
const place = (id, ...charts) => byId(id).append(...charts.map((one) => one.element));

function trainingFigures() {
  const epochs = [0, runs.reduce((last, run) => Math.max(last, run.training.epoch.at(-1) ?? 1), 1)];
  const selected = (values) => runs.map((run, k) => {
    const at = run.training.evaluated.indexOf(run.selected_epoch);
    return { x: run.selected_epoch, y: at < 0 ? null : run.training[values][at], shape: k, colour: runColour(k) };
  });
  const evaluated = (title, yLabel, values, yText) => chart({
    title, yLabel, help: yLabel, yText, xLabel: "epoch", x: epochs, marks: selected(values), legend: true,
    series: allRuns((run) => zip(run.training.evaluated, run.training[values])),
  });
  const TERMS = { loss: "loss, all terms", nll: "NLL", kl: "weighted KL of the rates", l2: "weighted L2", agree: "weighted consistency loss" };
  const terms = byId("term");
  terms.append(...Object.entries(TERMS).map(([term, text]) => make("option", { value: term, selected: term === "nll" }, text)));
  const termSpec = () => ({
    title: `Training: ${TERMS[terms.value]}`, xLabel: "epoch", x: epochs, yLabel: TERMS[terms.value], legend: true, log: terms.value === "nll",
    series: allRuns((run) => zip(run.training.epoch, run.training[terms.value])).map((series) => ({ ...series, dash: "" })),
  });
  const termChart = chart(termSpec());
  terms.addEventListener("change", () => termChart.draw(termSpec()));
  place("training-charts", evaluated("Validation accuracy", "accuracy", "accuracy", percent), evaluated("Validation NLL", "NLL", "validation_nll", number), termChart);
  const known = runs.flatMap((run) => run.training.drop_rates.flat()).filter((rate) => rate != null);
  const [low, high] = extent(known, 0.15);
  for (const [k, run] of runs.entries()) {
    const layers = run.training.drop_rates;
    place("rate-charts", chart({
      title: run.name, icon: sample(k), help: "drop rate", xLabel: "epoch", x: epochs, yLabel: "drop rate", y: [Math.max(0, low), Math.min(1, high)], yText: number,
      legend: true,
      series: layers.map((rates, layer) => ({
        name: `layer ${layer + 1}`, points: zip(run.training.evaluated, rates), dash: DASHES[layer % 8], shape: layer,
        colour: layerColour(k, layers.length > 1 ? (2 * layer) / (layers.length - 1) - 1 : 0),
      })),
    }));
  }
}

// From darker than the run's own colour, at -1, to paler, at 1.
function layerColour(run, shift) {
  return `color-mix(in srgb, ${runColour(run)} ${100 - 50 * Math.abs(shift)}%, var(${shift < 0 ? "--ink" : "--surface"}))`;
}

function calibrationFigures() {
  for (const [k, run] of runs.entries()) {
    const { confidence, accuracy, examples } = run.reliability, bins = examples.length;
    const most = examples.reduce((a, b) => Math.max(a, b));
    const filled = examples.map((count, bin) => bin).filter((bin) => examples[bin] > 0);
    const raw = run.raw_reliability, before = raw ? raw.examples.map((count, bin) => bin).filter((bin) => raw.examples[bin] > 0) : [];
    const nodesAt = (x) => examples[filled.find((bin) => confidence[bin] === x)];
    place("reliability-charts", chart({
      title: run.name, icon: sample(k), help: "reliability diagram", xLabel: "confidence", yLabel: "accuracy", x: [0, 1], y: [0, 1], diagonal: true,
      yText: percent, xText: (x) => number(x), note: (x) => (nodesAt(x) == null ? "a bin of the uncalibrated" : `${nodesAt(x)} test nodes`),
      bars: filled.map((bin) => ({ from: bin / bins, to: (bin + 1) / bins, value: accuracy[bin], colour: runColour(k), opacity: 0.2 + 0.6 * Math.sqrt(examples[bin] / most) })),
      series: [
        { name: raw ? "calibrated" : "accuracy", points: filled.map((bin) => [confidence[bin], accuracy[bin]]), colour: runColour(k), dash: "", shape: k },
        ...(raw ? [{ name: "uncalibrated", points: before.map((bin) => [raw.confidence[bin], raw.accuracy[bin]]), colour: "var(--soft)", dash: "4 4", shape: 3, thin: true }] : []),
      ],
    }));
  }
  const axes = byId("pavpu-axis");
  axes.append(...Object.keys(runs[0].pavpu).map((axis) => make("option", { value: axis, selected: axis === runs[0].pavpu_axis }, axis.replaceAll("-", " ") + " entropy")));
  const OF = { pavpu: "PAvPU", accurate_given_certain: "p(accurate | certain)", uncertain_given_inaccurate: "p(uncertain | inaccurate)" };
  const spec = (measure) => ({
    title: OF[measure], help: OF[measure], xLabel: `threshold, ${axes.selectedOptions[0].textContent}`, yLabel: OF[measure], x: [0, 1], legend: true,
    series: allRuns((run) => zip(run.pavpu[axes.value].thresholds, run.pavpu[axes.value][measure])), yText: percent,
  });
  const charts = Object.keys(OF).map((measure) => [measure, chart(spec(measure))]);
  axes.addEventListener("change", () => charts.forEach(([measure, one]) => one.draw(spec(measure))));
  place("pavpu-charts", ...charts.map(([, one]) => one));
}

function smoothingFigures() {
  for (const measure of Object.keys(runs[0].smoothing)) {
    place("smoothing-charts", chart({
      title: measure[0].toUpperCase() + measure.slice(1), help: measure, xLabel: "hidden layer", yLabel: measure, whole: true, legend: true,
      log: measure === "Dirichlet energy", series: allRuns((run) => run.smoothing[measure].map((value, k) => [k + 1, value])),
    }));
  }
  if (runs.every((run) => run.layers < 2)) byId("smoothing-charts").replaceChildren(make("p", { class: "note" }, "Networks of one layer have no hidden layer."));
}
