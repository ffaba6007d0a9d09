// What if it may refuse? And which classes are still possible? Thresholds, curves and sets.

const SCORES = { entropy: "entropy", epistemic: "mutual information", least_confidence: "probability of another class", aleatoric: "expected entropy" };
const scoreArrays = new Map();

// An uncertainty of every node in the picture.
function scoreOf(run, by) {
  if (by === "entropy" || by === "epistemic") return run[by];
  const key = `${runs.indexOf(run)} ${by}`;
  if (!scoreArrays.has(key)) {
    const { classes } = dataset;
    scoreArrays.set(key, Float32Array.from(run.entropy, (entropy, v) => {
      if (by === "aleatoric") return entropy - run.epistemic[v];
      return 1 - run.probability.subarray(v * classes, (v + 1) * classes).reduce((a, b) => Math.max(a, b), 0) / 65535;
    }));
  }
  return scoreArrays.get(key);
}

// The right end of the slider: the most uncertain that a node can be, or is.
function largestScore(by) {
  const least = { entropy: largestEntropy, least_confidence: 1 - 1 / dataset.classes }[by] ?? 1e-9;
  return runs.reduce((top, run) => scoreOf(run, by).reduce((a, b) => Math.max(a, b), top), least);
}
const isRefused = (run, v) => scoreOf(run, settings.by)[v] > settings.threshold;

// The test nodes of a run from the most certain to the least, and how many of the first k are right.
function rankedTests(run, by) {
  const score = scoreOf(run, by), nodes = [];
  graph.part.forEach((part, node) => { if (part === TEST) nodes.push(node); });
  nodes.sort((a, b) => score[a] - score[b]);
  const right = [0];
  for (const node of nodes) right.push(right.at(-1) + (run.predicted[node] === graph.label[node] ? 1 : 0));
  return { scores: nodes.map((node) => score[node]), right };
}

// How many test nodes have at most this uncertainty, and how many of them are predicted rightly.
function keptAt(ranked, threshold) {
  let low = 0, high = ranked.scores.length;
  while (low < high) {
    const middle = (low + high) >> 1;
    if (ranked.scores[middle] <= threshold) low = middle + 1; else high = middle;
  }
  return { kept: low, right: ranked.right[low], of: ranked.scores.length };
}

// The curve of the metric is of all test nodes, by entropy; of another uncertainty it is made here.
function riskCurve(run, ranked) {
  if (settings.by === "entropy") return zip(run.risk.coverage, run.risk.risk);
  const of = ranked.scores.length, stride = Math.max(1, Math.ceil(of / 400));
  return ranked.right.flatMap((right, k) => (k && (k % stride === 0 || k === of) ? [[k / of, 1 - right / k]] : []));
}

function selectiveFigures() {
  const slider = byId("threshold"), chooser = byId("refuse-by");
  const offered = ["entropy", "least_confidence", "epistemic", ...(runs.some((run) => run.rule.by === "aleatoric") ? ["aleatoric"] : [])];
  chooser.append(...offered.map((by) => make("option", { value: by }, SCORES[by])));
  let ranked, top;
  const own = () => runs.map((run, k) => ({ x: run.rule.answered / (run.rule.answered + run.rule.refused), y: run.rule.answered ? 1 - run.rule.right / run.rule.answered : null, shape: k, colour: runColour(k), solid: true, size: 3 }));
  const riskSpec = () => ({
    title: "Risk against coverage", help: "risk", xLabel: "coverage: share of test nodes answered", yLabel: "error rate of the answers", x: [0, 1], legend: true,
    series: allRuns((run) => riskCurve(run, ranked[runs.indexOf(run)])), xText: percent, yText: percent,
  });
  const steps = () => Array.from({ length: 101 }, (_, k) => (k / 100) * top);
  const coverageSpec = () => ({
    title: "Coverage and accuracy against the threshold", help: "coverage", xLabel: `threshold, ${SCORES[settings.by]}${settings.by === "least_confidence" ? "" : " in nats"}`, yLabel: "share", x: [0, top], y: [0, 1.02], yText: percent,
    xText: (x) => number(x, 2), legend: true,
    series: runs.flatMap((run, k) => {
      const at = steps().map((threshold) => ({ threshold, ...keptAt(ranked[k], threshold) }));
      return [
        { name: `${run.name}: accuracy`, points: at.map((one) => [one.threshold, one.kept ? one.right / one.kept : null]), colour: runColour(k), dash: "", shape: k },
        { name: `${run.name}: coverage`, points: at.map((one) => [one.threshold, one.kept / one.of]), colour: runColour(k), dash: "2 3", shape: k, thin: true },
      ];
    }),
  });
  const rank = () => { ranked = runs.map((run) => rankedTests(run, settings.by)); top = largestScore(settings.by); };
  rank();
  const risk = chart(riskSpec()), coverage = chart(coverageSpec());
  place("selective-charts", risk, coverage);
  const refuseBy = (by) => {
    if (by === settings.by) return;
    settings.by = chooser.value = by;
    rank();
    risk.draw(riskSpec());
    coverage.draw(coverageSpec());
  };
  slider.addEventListener("input", () => setThreshold((slider.value / 1000) * top));
  chooser.addEventListener("change", () => { refuseBy(chooser.value); slider.value = 1000; setThreshold(top); });
  const useRule = (run) => { refuseBy(run.rule.by); setThreshold(run.rule.threshold + 1e-6); };
  byId("own-rules").append(
    ...runs.map((run, k) => make("button", { type: "button", "data-rule": k, onclick: () => useRule(run) }, `Threshold of ${run.name}`)),
    make("button", { type: "button", onclick: () => setThreshold(top) }, "Refuse nothing"));
  whenThresholdMoves(() => {
    const { threshold, by } = settings;
    slider.value = Math.round((1000 * threshold) / top);
    const text = by === "least_confidence" ? percent(threshold) : `${threshold.toFixed(2)} nats, ${((100 * threshold) / Math.log(dataset.classes)).toFixed(0)} % of log(${dataset.classes})`;
    byId("threshold-value").textContent = text;
    slider.setAttribute("aria-valuetext", text);
    const now = ranked.map((one) => keptAt(one, threshold));
    byId("kept").replaceChildren(...now.map((one, k) => keptTile(one, k)));
    risk.mark([...now.map((one, k) => ({ x: one.kept / one.of, y: one.kept ? 1 - one.right / one.kept : null, shape: k, colour: runColour(k) })), ...own()]);
    coverage.mark(now.flatMap((one, k) => [one.right / one.kept, one.kept / one.of].map((y) => ({ x: threshold, y, shape: k, colour: runColour(k) }))));
  });
  if (nodes < dataset.nodes) byId("selective-note").textContent += ` The slider counts the ${ranked[0].scores.length.toLocaleString("en")} test nodes of the picture; the sentence and the filled marks are of all ${dataset.tested.toLocaleString("en")}.`;
  useRule(runs[0]);
}

function keptTile({ kept, right, of }, k) {
  const { name, rule } = runs[k];
  const figure = (value, what, figureName) => make("div", {}, make("div", { class: "big", "data-figure": figureName }, percent(value)), make("div", { class: "what" }, what));
  return make("div", { class: "tile", style: { "border-color": runColour(k) } }, make("div", { class: "name" }, name),
    make("div", { class: "pair" }, figure(kept ? right / kept : null, "accuracy of the answers", "accuracy"), figure(kept / of, "coverage", "coverage")),
    make("div", { class: "what" }, `${of - kept} of ${of} refused; ${kept - right} wrong answers are left`),
    make("div", { class: "what rule" }, `Its own threshold: ${SCORES[rule.by] ?? rule.by} ${number(rule.threshold)}, which keeps ${percent(rule.coverage, 0)} of ${rule.chosen_on === "validation" ? "the validation nodes" : "all nodes"}`));
}

function setFigures() {
  const withSets = runs.map((run, k) => [run, k]).filter(([run]) => run.set_figures);
  if (withSets.length) {
    const most = Math.max(2, ...withSets.map(([run]) => run.set_figures.counts.findLastIndex((count) => count > 0) + 1));
    const width = 0.8 / withSets.length;
    byId("set-charts").append(chart({
      title: "How many classes a set names", help: "prediction set", xLabel: "classes in the set", yLabel: "test nodes", x: [0.5, most + 0.5], y: [0, 1.05 * Math.max(...withSets.flatMap(([run]) => run.set_figures.counts))], whole: true, legend: true,
      bars: withSets.flatMap(([run, k], at) => run.set_figures.counts.slice(0, most).map((count, size) => ({ from: size + 0.6 + at * width, to: size + 0.6 + (at + 1) * width, value: count, colour: runColour(k) }))),
      series: withSets.map(([run, k]) => ({ name: run.name, points: run.set_figures.counts.slice(0, most).map((count, size) => [size + 1, count]), colour: runColour(k), bars: true })),
    }).element);
  }
  const share = (part, whole) => make("td", {}, part === null ? "–" : percent(whole ? part / whole : null));
  const table = make("table", {},
    make("thead", {}, make("tr", {}, ["class", "test nodes", ...runs.flatMap((run) => [`${run.name}: right`, `${run.name}: in its set`])].map((text) => make("th", { scope: "col" }, text)))),
    make("tbody", {}, runs[0].classes.map(({ nodes: count }, c) => (count ? make("tr", {}, make("th", { scope: "row" }, named(c)), make("td", {}, String(count)),
      ...runs.flatMap((run) => [share(run.classes[c].right, count), share(run.classes[c].held, count)])) : null))));
  byId("set-charts").append(make("div", { class: `chart${runs.length > 2 ? " row" : ""}` }, make("h3", {}, "Class by class"), make("div", { class: "scroll tall", tabindex: 0, role: "region", "aria-label": "Class by class" }, table)));
}

// A class by its dot and its name.
const named = (c) => make("span", { class: "named" }, dot(c), make("span", {}, className(c)));

// A table in a box of its own that scrolls; a row is its cells, the first of them its head.
function tableBox(title, head, rows, classes = "") {
  const table = make("table", {},
    make("thead", {}, make("tr", {}, head.map((text) => make("th", { scope: "col" }, text)))),
    make("tbody", {}, rows.map(([first, ...rest]) => make("tr", {}, make("th", { scope: "row" }, first), rest.map((cell) => (cell instanceof Element && cell.tagName === "TD" ? cell : make("td", {}, cell)))))));
  return make("div", { class: `chart ${classes}` }, make("h3", {}, title), make("div", { class: "scroll tall", tabindex: 0, role: "region", "aria-label": title }, table));
}

// The id of a node; pressed, it shows the node beside the graph if the picture has it.
function nodeButton(id) {
  const v = nodeCalled(id);
  if (v < 0) return id;
  return make("button", { type: "button", onclick: () => { choose(v); byId("graph").scrollIntoView(); } }, id);
}

function lookFirst() {
  for (const [k, run] of runs.entries()) {
    const rows = run.first.map((one) => [nodeButton(one.node), make("td", { class: "left" }, named(one.predicted)), number(one.probability), make("td", { class: "left why" }, one.why)]);
    byId("first-tables").append(tableBox(runs.length > 1 ? run.name : "Nodes", ["node", "predicted", "probability", "why"], rows, "reasons"));
    byId("first-tables").lastElementChild.firstElementChild.prepend(sample(k));
  }
}

function confusionTables() {
  for (const [k, run] of runs.entries()) {
    const rows = run.confusion === null
      ? run.mistakes.map((one) => [className(one.label), className(one.predicted), String(one.nodes)])
      : run.confusion.map((counts, label) => {
        const all = counts.reduce((a, b) => a + b, 0);
        return [named(label), ...counts.map((count, c) => make("td", {
          class: "cell", title: `${count} of ${all} test nodes of ${className(label)} are predicted as ${className(c)}`,
          style: { "--part": `${all ? Math.round((70 * count) / all) : 0}%`, "--cell": c === label ? "var(--good)" : "var(--bad)" },
        }, String(count)))];
      });
    const head = run.confusion === null ? ["label", "predicted", "test nodes"] : ["label \u2193 predicted \u2192", ...run.confusion.map((_, c) => shortClass(c))];
    const box = tableBox(run.name, head, rows, run.confusion === null ? "" : `confusion${run.confusion.length > 8 ? " row" : ""}`);
    box.firstElementChild.prepend(sample(k));
    byId("confusion-tables").append(box);
  }
  if (runs[0].confusion === null) byId("confusion-note").textContent = "The most frequent mistakes on the test nodes; a matrix of so many classes could not be read.";
}

// How the probability of a class ranks the test nodes, and of rare ones the nodes to look at first.
function rankingFigures() {
  const labels = [...new Set(runs.flatMap((run) => run.ranking.map((one) => one.label)))];
  byId("ranking").hidden = byId("ranking-link").hidden = !labels.length;
  byId("rare-note").hidden = !runs.some((run) => run.rare.length);
  for (const label of labels) {
    const found = runs.flatMap((run, k) => run.ranking.filter((one) => one.label === label).map((one) => [run, k, one]));
    const lines = (x, y, figure) => found.map(([run, k, one]) => ({ name: `${run.name} (${number(one[figure])})`, points: zip(one[x], one[y]), colour: runColour(k), dash: runDash(k), shape: k }));
    const chance = (points) => ({ name: "chance", points, colour: "var(--soft)", dash: "4 4", shape: 3, thin: true });
    const share = found[0][2].nodes / dataset.tested;
    const budgets = runs.flatMap((run, k) => run.rare.filter((one) => one.label === label).map((one) => [k, one.figures]));
    place("ranking-charts", chart({
      title: `Precision against recall: ${className(label)} (average precision)`, xLabel: `recall: share of its ${found[0][2].nodes} test nodes that are found`, yLabel: "precision", x: [0, 1], y: [0, 1], legend: true, xText: percent, yText: percent,
      series: [...lines("recall", "precision", "average_precision"), chance([[0, share], [1, share]])],
      marks: budgets.map(([k, figures]) => ({ x: figures.recall, y: figures.precision, shape: k, colour: runColour(k) })),
    }), chart({
      title: `ROC curve: ${className(label)} (AUROC)`, xLabel: "false positive rate", yLabel: "true positive rate", x: [0, 1], y: [0, 1], legend: true, xText: percent, yText: percent,
      series: [...lines("false_positives", "true_positives", "auroc"), chance([[0, 0], [1, 1]])],
    }));
    for (const run of runs) {
      for (const one of run.rare.filter((rare) => rare.label === label)) {
        byId("ranking-charts").append(tableBox(`Likeliest nodes of ${className(label)}, ${run.name}`, ["node", "probability", "label"], one.first.map(([id, probability, known]) => [nodeButton(id), number(probability), className(known)])));
      }
    }
  }
}
