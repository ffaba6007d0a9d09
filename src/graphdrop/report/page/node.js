// The chosen node: what every run predicts for it, and its neighbours.

const SHOWN_NEIGHBOURS = 40, SHOWN_CLASSES = 12;
const probabilityOf = (run, v, c) => run.probability[v * dataset.classes + c] / 65535;
const verdict = (run, v) => (graph.label[v] < 0 ? null : isWrong(run, v) ? make("span", { class: "no" }, "✗ wrong") : make("span", { class: "yes" }, "✓ right"));

function choose(v, asked = null) {
  if (v !== null && !(Number.isInteger(v) && v >= 0 && v < nodes)) {
    view.chosen = null;
    if (asked !== null) noSuchNode(asked);
    redraw();
    return;
  }
  view.chosen = v;
  if (v !== null) { reveal(v); byId("node-number").value = nodeName(v); }
  showNode();
  redraw();
}

function noSuchNode(asked) {
  const some = nodes < dataset.nodes ? ` The picture has ${nodes.toLocaleString("en")} of ${dataset.nodes.toLocaleString("en")} nodes: it may be one of the others.` : "";
  const known = graph.ids ? `Ids are such as ${nodeName(0)}.` : `Nodes have the numbers 0 to ${nodes - 1}.`;
  byId("node").replaceChildren(make("h3", {}, "No such node"), make("p", { class: "soft" }, `No node here is called ${asked}. ${known}${some}`));
}

function showNode() {
  const v = view.chosen;
  if (v === null) {
    byId("node").replaceChildren(make("h3", {}, "No node chosen"), make("p", { class: "soft" }, `Click a dot, type a node's ${graph.ids ? "id" : "number"}, or let the buttons above find a prediction worth a look.`));
    return;
  }
  const around = neighboursOf(v);
  byId("node").replaceChildren(
    make("h3", {}, `Node ${nodeName(v)}`),
    make("p", {}, dot(graph.label[v]), ` ${className(graph.label[v])}${graph.label[v] < 0 ? "" : " by its label"} · ${PARTS[graph.part[v]]}`),
    ...runs.map((run, k) => runOpinion(run, k, v)),
    make("h4", {}, `${around.length} neighbour${around.length === 1 ? "" : "s"}`),
    ...(around.length ? [...agreement(around), neighbourTable(around, SHOWN_NEIGHBOURS)] : []));
}

function runOpinion(run, k, v) {
  const order = Array.from({ length: dataset.classes }, (_, c) => c);
  if (dataset.classes > SHOWN_CLASSES) order.sort((a, b) => probabilityOf(run, v, b) - probabilityOf(run, v, a));
  const rows = order.slice(0, SHOWN_CLASSES).flatMap((c) => {
    const share = probabilityOf(run, v, c);
    const label = make("span", {}, className(c));
    if (c === run.predicted[v]) label.style.fontWeight = 700;
    return [label, make("span", { class: "track" }, make("div", { class: "fill", style: { width: `${100 * share}%`, background: classColour(c) } })), make("span", { class: "number" }, percent(share, 1))];
  });
  return make("div", { "data-run": k }, make("h4", {}, sample(k), run.name, verdict(run, v)), make("div", { class: "probability" }, rows),
    make("p", { class: "soft" }, helped("entropy"), ` ${number(run.entropy[v], 2)} nats; `, helped("mutual information"), ` ${number(run.epistemic[v], 2)}; ${isUntrusted(run, v) ? "refused by its own threshold" : "answered by its own threshold"}`),
    ...(run.sets ? [make("p", { class: "soft" }, setOf(run, v))] : []));
}

const isUntrusted = (run, v) => scoreOf(run, run.rule.by)[v] > run.rule.threshold + 1e-6;

// The classes that together should hold the true one 90 % of the time.
function setOf(run, v) {
  const members = Array.from({ length: dataset.classes }, (_, c) => c).filter((c) => run.sets[v * dataset.classes + c]);
  return `90 % set${run.sets_approximate ? " (approximate)" : ""}: ${members.map(className).join(", ")}`;
}

function agreement(around) {
  const label = graph.label[view.chosen];
  if (label < 0) return [];
  const same = around.filter((u) => graph.label[u] === label).length;
  return [make("p", { class: "soft" }, `${same} of them share${same === 1 ? "s" : ""} its label.`)];
}

function neighbourTable(around, limit) {
  const prediction = (run, u) => {
    const c = run.predicted[u];
    return make("td", {}, dot(c), ` ${shortClass(c)} · ${percent(probabilityOf(run, u, c), 0)}`);
  };
  const fitted = runs.filter((run) => run.edges), keptBy = fitted.map((run) => (fitted.length > 1 ? `edge kept by ${run.name}` : "edge kept"));
  const rows = around.slice(0, limit).map((u, i) => make("tr", {},
    make("td", {}, make("button", { type: "button", onclick: () => choose(u) }, nodeName(u))),
    ...fitted.map((run) => make("td", {}, percent(run.edges.keep[pairOf[starts[view.chosen] + i]] / 65535, 0))),
    make("td", {}, dot(graph.label[u]), graph.label[u] < 0 ? " –" : ` ${shortClass(graph.label[u])}`),
    ...runs.map((run) => prediction(run, u))));
  const table = make("table", {}, make("thead", {}, make("tr", {}, ["node", ...keptBy, "label", ...runs.map((run) => run.name)].map((text) => make("th", { scope: "col" }, text)))), make("tbody", {}, rows));
  const box = make("div", { class: "scroll" }, table);
  if (around.length > limit) {
    box.append(make("button", { type: "button", onclick: () => box.replaceWith(neighbourTable(around, around.length)) }, `Show all ${around.length}`));
  }
  return box;
}

// Test nodes in the order in which they are worth a look.
function tour(key, wanted) {
  const order = [];
  for (let v = 0; v < nodes; v++) if (graph.part[v] === TEST && wanted(v)) order.push(v);
  order.sort((a, b) => key(a) - key(b));
  let at = -1;
  return () => { if (order.length) choose(order[(at = (at + 1) % order.length)]); };
}

function graphControls() {
  const select = (label, key, options) => make("label", {}, `${label} `, make("select", { "data-option": key, onchange: (event) => { view[key] = event.target.value; redraw(); } },
    Object.entries(options).map(([value, text]) => make("option", { value, selected: view[key] === value }, text))));
  const most = (name) => (v) => -runs.reduce((sum, run) => sum + run[name][v], 0);
  const sure = (v) => runs.reduce((sum, run) => sum + run.entropy[v], 0);
  const button = (text, act, label) => make("button", { type: "button", onclick: act, "aria-label": label }, text);
  const disputed = (v) => runs.some((run) => run.predicted[v] !== runs[0].predicted[v]);
  byId("graph-controls").append(
    select("Colour", "colour", { predicted: "predicted class", label: "label" }),
    select("Fade by", "fade", { entropy: "entropy: all uncertainty", epistemic: "mutual information: the network's share", rejected: "refusal, threshold below", none: "nothing" }),
    make("label", {}, make("input", { type: "checkbox", onchange: (event) => { view.errors = event.target.checked; redraw(); } }), " ring wrong test nodes"),
    make("label", {}, "Node ", make("input", { ...(graph.ids ? { type: "text" } : { type: "number", min: 0, max: nodes - 1 }), id: "node-number", onchange: (event) => { const asked = event.target.value.trim(); choose(asked === "" ? null : nodeCalled(asked), asked); } })),
    button("Most unsure", tour(most("entropy"), () => true)),
    button("Sure but wrong", tour(sure, (v) => runs.some((run) => isWrong(run, v)))),
    ...(runs.length > 1 ? [button("Runs disagree", tour(sure, disputed))] : []),
    button("+", () => zoomBy(1.4, canvases[0]), "Zoom in"), button("−", () => zoomBy(1 / 1.4, canvases[0]), "Zoom out"), button("Reset", resetView, "Show the whole graph"));
  byId("classes").append(...Array.from({ length: dataset.classes }, (_, c) => make("li", {}, make("button", {
    type: "button", "aria-pressed": "true",
    onclick: (event) => {
      if (!view.hidden.delete(c)) view.hidden.add(c);
      event.currentTarget.setAttribute("aria-pressed", String(!view.hidden.has(c)));
      redraw();
    },
  }, dot(c), className(c)))));
  for (const [k, run] of runs.entries()) {
    const canvas = make("canvas", { tabindex: 0, role: "img", "data-run": k, "aria-label": `The graph as ${run.name} sees it. Arrow keys move it, plus and minus zoom, Enter chooses the node in the middle.` });
    canvases.push(canvas);
    byId("views").append(make("figure", { class: "view" }, canvas, make("figcaption", {}, sample(k), run.name)));
    listenTo(canvas);
    new ResizeObserver(() => redraw()).observe(canvas);
  }
  whenThresholdMoves(() => { if (view.fade === "rejected") redraw(); });
  showNode();
}
