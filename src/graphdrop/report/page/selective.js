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
    const most = Math.max(...withSets.map(([run]) => run.set_figures.sizes.reduce((last, share, size) => (share > 0 ? size : last), 1)));
    byId("set-charts").append(chart({
      title: "How many classes a set names", help: "prediction set", xLabel: "classes in the set", yLabel: "share of test nodes", x: [0, Math.max(2, most)], y: [0, 1], whole: true, legend: true, yText: percent,
      series: withSets.map(([run, k]) => ({ name: run.name, points: run.set_figures.sizes.slice(0, Math.max(2, most) + 1).map((share, size) => [size, share]), colour: runColour(k), dash: runDash(k), shape: k })),
    }).element);
  }
  const share = (part, whole) => make("td", {}, part === null ? "–" : percent(whole ? part / whole : null));
  const table = make("table", {},
    make("thead", {}, make("tr", {}, ["class", "test nodes", ...runs.flatMap((run) => [`${run.name}: right`, `${run.name}: in its set`])].map((text) => make("th", { scope: "col" }, text)))),
    make("tbody", {}, runs[0].classes.map(({ nodes: count }, c) => (count ? make("tr", {}, make("th", { scope: "row" }, dot(c), ` ${className(c)}`), make("td", {}, String(count)),
      ...runs.flatMap((run) => [share(run.classes[c].right, count), share(run.classes[c].held, count)])) : null))));
  byId("set-charts").append(make("div", { class: "chart" }, make("h3", {}, "Class by class"), make("div", { class: "scroll tall", tabindex: 0, role: "region", "aria-label": "Class by class" }, table)));
}

// For each rare class precision against recall, and the nodes to look at first by every run.
function rareFigures() {
  const labels = [...new Set(runs.flatMap((run) => run.rare.map((one) => one.label)))];
  byId("rare").hidden = byId("rare-link").hidden = !labels.length;
  for (const label of labels) {
    const found = runs.flatMap((run, k) => run.rare.filter((one) => one.label === label).map((one) => [run, k, one]));
    const { nodes: count, of } = found[0][2].figures;
    byId("rare-charts").append(chart({
      title: `Precision against recall: ${className(label)}`, xLabel: `recall: share of its ${count} test nodes that are found`, yLabel: "precision", x: [0, 1], y: [0, 1], legend: true, xText: percent, yText: percent,
      series: [
        ...found.map(([run, k, one]) => ({ name: run.name, points: zip(one.recall, one.precision), colour: runColour(k), dash: runDash(k), shape: k })),
        { name: "chance", points: [[0, count / of], [1, count / of]], colour: "var(--soft)", dash: "4 4", shape: 3, thin: true },
      ],
      marks: found.map(([, k, one]) => ({ x: one.figures.recall, y: one.figures.precision, shape: k, colour: runColour(k) })),
    }).element);
    for (const [run, , one] of found) {
      const table = make("table", {},
        make("thead", {}, make("tr", {}, ["node", "probability", "label"].map((text) => make("th", { scope: "col" }, text)))),
        make("tbody", {}, one.first.map(([id, probability, known]) => make("tr", {}, make("th", { scope: "row" }, id), make("td", {}, number(probability)), make("td", {}, className(known))))));
      const title = `Look at these first: ${className(label)}, ${run.name}`;
      byId("rare-charts").append(make("div", { class: "chart" }, make("h3", {}, title), make("div", { class: "scroll tall", tabindex: 0, role: "region", "aria-label": title }, table)));
    }
  }
}
