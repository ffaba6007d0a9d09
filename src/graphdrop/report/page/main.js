// The page put together: heading, summary, provenance, light and dark.

// The columns of two tables, since all of them would not fit a window.
const SCORED = report.metrics.map((metric) => [
  metric.title, (run) => run.scores[metric.name], metric.percent ? percent : number, metric.higher_is_better ? 1 : -1,
]);
const BESIDE = [
  ...(runs.some((run) => run.uncalibrated) ? [
    ["ECE, uncalibrated", (run) => run.uncalibrated?.ece ?? null, percent, 0],
    ["NLL, uncalibrated", (run) => run.uncalibrated?.nll ?? null, number, 0],
    ["ECE by chance alone", (run) => run.floor, percent, 0],
  ] : []),
  ["seconds", (run) => run.seconds, (value) => number(value, 0), 0],
];

function heading() {
  const count = (value) => value.toLocaleString("en");
  byId("title").textContent = dataset.title;
  byId("lead").textContent = `${runs.length === 1 ? "A network" : `${runs.length} networks`}, the uncertainty of ${runs.length === 1 ? "its" : "their"} predictions, and the graph they were made on: ${count(dataset.nodes)} nodes, ${count(dataset.edges)} edges, ${[...new Set(runs.map((run) => count(run.features)))].join(" or ")} features, ${dataset.classes} classes.${nodes < dataset.nodes ? ` The picture and the list of nodes show ${count(nodes)} of them: some test nodes and what they are joined to. Scores and curves are of all.` : ""}`;
  byId("runs").append(...runs.map((run, k) => make("li", {}, sample(k), make("strong", {}, run.name), make("span", { class: "soft" }, `${run.method}, ${run.layers} layers, seed ${run.seed}`))));
}

function rateCells(run, k) {
  if (run.drop_rates.every((rate) => rate === null)) return "none";
  return make("span", { class: "rates", style: { "--rate-colour": runColour(k) } }, run.drop_rates.map((rate) => make("span", { style: { "--rate": `${Math.round(70 * (rate ?? 0))}%` } }, number(rate, 2))));
}

function summary() {
  const arrow = (sign) => (sign ? (sign > 0 ? "\u00a0↑" : "\u00a0↓") : "");
  const method = runs.some((run) => run.method !== run.name); // else it is said already
  const table = (columns, withMethod, extraHead, extraCell) => {
    const values = columns.map(([, value]) => runs.map(value));
    const best = columns.map(([, , , sign], c) => (sign && runs.length > 1 ? values[c].reduce((a, b) => (sign * b > sign * a ? b : a)) : null));
    const head = ["run", ...(withMethod ? ["method"] : []), ...columns.map(([name, , , sign]) => helped(name + arrow(sign), name)), ...extraHead];
    return make("div", { class: "scroll" }, make("table", {},
      make("thead", {}, make("tr", {}, head.map((text, c) => make("th", { scope: "col", class: withMethod && c === 1 ? "left" : null }, text)))),
      make("tbody", {}, runs.map((run, k) => make("tr", {}, make("th", { scope: "row" }, sample(k), ` ${run.name}`), ...(withMethod ? [make("td", { class: "left" }, run.method)] : []),
        ...columns.map(([, , text], c) => make("td", { class: values[c][k] === best[c] ? "best" : null }, text(values[c][k]))),
        ...extraCell(run, k))))));
  };
  byId("summary-table").append(
    table(SCORED, method, [], () => []),
    table(BESIDE, false, [helped("drop rate by layer", "drop rate")], (run, k) => [make("td", {}, rateCells(run, k))]));
  const how = (run) => (run.masks === "off" || run.masks === "expected" ? "one pass without sampling" : `${run.samples} Monte Carlo samples${run.standard_error === null ? "" : ` (standard error of a probability at most ${run.standard_error.toFixed(3)})`} with ${run.masks} masks, decided by ${run.uncalibrated ? "the mean, calibrated on the validation nodes" : run.decision}`);
  const certain = (run) => `certain up to ${run.pavpu_threshold} as a ${run.pavpu_axis.replaceAll("-", " ")} entropy`;
  byId("summary-note").textContent = runs.map((run) => `${run.name}: ${how(run)}; PAvPU ${certain(run)}.`).join(" ") + " One run of each; differences between runs of one seed are no evidence that one method is better.";
  if (!report.differences.length) return;
  byId("differences").hidden = false;
  byId("differences").lastElementChild.append(make("table", {}, make("thead", {}, make("tr", {}, ["setting", ...runs.map((run) => run.name)].map((text) => make("th", { scope: "col" }, text)))),
    make("tbody", {}, report.differences.map(([key, ...rest]) => make("tr", {}, make("td", {}, make("code", {}, key)), rest.map((value) => make("td", {}, value)))))));
}

function provenance() {
  const list = (rows) => make("dl", {}, rows.flatMap(([what, value]) => [make("dt", {}, what), make("dd", {}, value)]));
  const code = (text) => make("code", {}, text);
  const files = Object.entries(dataset.files);
  byId("provenance-content").append(list([
    ...(report.command ? [["Command", code(report.command)]] : []),
  ]), ...runs.map((run) => make("div", {}, make("h3", {}, run.name), list([
    ["Folder", code(run.folder)], ["Method", `${run.method}, ${run.layers} layers`], ["Seed", String(run.seed)], ["Data as trained on, sha256", code(run.sha256)],
    ["Selected", `after epoch ${run.selected_epoch}, on the validation nodes`],
    ["Duration", run.seconds === null ? "not finished" : `${run.seconds.toFixed(1)} seconds of training`],
    ["Versions", Object.entries(run.versions).map(([name, version]) => `${name} ${version}`).join(", ")],
  ]))));
  if (files.length) byId("provenance-content").append(make("details", {}, make("summary", {}, "Checksums of the dataset's files"), list(files.map(([name, sha]) => [name, code(sha)]))));
}

function theming() {
  const root = document.documentElement, button = byId("theme"), wished = matchMedia("(prefers-color-scheme: dark)");
  const apply = (theme) => {
    root.dataset.theme = theme;
    button.textContent = theme === "dark" ? "☀ light" : "☾ dark";
    redraw();
  };
  button.addEventListener("click", () => apply(root.dataset.theme === "dark" ? "light" : "dark"));
  wished.addEventListener("change", () => apply(wished.matches ? "dark" : "light"));
  apply(wished.matches ? "dark" : "light");
  // On paper: light, and with everything that is folded away.
  let before = null;
  addEventListener("beforeprint", () => {
    before = { theme: root.dataset.theme, folded: [...document.querySelectorAll("details:not([open])")] };
    before.folded.forEach((one) => { one.open = true; });
    apply("light");
    canvases.forEach(drawGraph);
  });
  addEventListener("afterprint", () => {
    before?.folded.forEach((one) => { one.open = false; });
    apply(before?.theme ?? "light");
  });
}

theming();
conclude();
measureList();
heading();
summary();
graphControls();
edgeFigures();
selectiveFigures();
lookFirst();
confusionTables();
setFigures();
rankingFigures();
calibrationFigures();
trainingFigures();
smoothingFigures();
provenance();
