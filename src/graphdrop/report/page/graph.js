// The graph on canvases, one per run: moved, zoomed and searched together.

const nodes = graph.part.length; // of the picture: a sample of a large graph
const LEVELS = 8;
const view = { zoom: 1, x: 0, y: 0, chosen: null, hovered: null, hidden: new Set(), colour: "predicted", fade: "entropy", errors: false, edgeThreshold: 0.5 };
const canvases = [];
let frame = 0, edgesSoon = 0, moving = false;

// Neighbours: those of node v are `ends` from `starts[v]` to `starts[v + 1]`, joined to it by the pairs `pairOf`.
const starts = new Uint32Array(nodes + 1), ends = new Uint32Array(graph.pairs.length), pairOf = new Uint32Array(graph.pairs.length);
for (const node of graph.pairs) starts[node + 1]++;
for (let v = 0; v < nodes; v++) starts[v + 1] += starts[v];
{
  const next = starts.slice();
  for (let e = 0; e < graph.pairs.length; e += 2) {
    for (const [v, u] of [[graph.pairs[e], graph.pairs[e + 1]], [graph.pairs[e + 1], graph.pairs[e]]]) {
      pairOf[next[v]] = e / 2;
      ends[next[v]++] = u;
    }
  }
}
const neighboursOf = (node) => Array.from(ends.subarray(starts[node], starts[node + 1]));

// Edges fade as they cover the picture; where they would cover it many times over, only those of the
// node under the pointer are drawn, until one zooms in.
const EDGE_WIDTH = 0.7, EDGE_INK = 0.12, CROWDED = 10;
let edgeLength = 1e-9;
for (let e = 0; e < graph.pairs.length; e += 2) {
  const u = 2 * graph.pairs[e], v = 2 * graph.pairs[e + 1];
  edgeLength += Math.hypot(graph.place[u] - graph.place[v], graph.place[u + 1] - graph.place[v + 1]) / 32767.5;
}

function redraw(interacting = false) {
  if (interacting && graph.pairs.length > 30000) {
    moving = true;
    clearTimeout(edgesSoon);
    edgesSoon = setTimeout(() => { moving = false; redraw(); }, 140);
  }
  if (!frame) frame = requestAnimationFrame(() => { frame = 0; canvases.forEach(drawGraph); });
}

// Where node v stands on a canvas of this size.
function projection({ width, height }) {
  const half = (Math.min(width, height) / 2) * 0.93 * view.zoom;
  const left = width / 2 + view.x * half, top = height / 2 + view.y * half;
  return { half, x: (v) => left + (graph.place[2 * v] / 32767.5 - 1) * half, y: (v) => top + (graph.place[2 * v + 1] / 32767.5 - 1) * half };
}

const shownClass = (run, v) => (view.colour === "predicted" ? run.predicted[v] : graph.label[v]);
const isWrong = (run, v) => graph.label[v] >= 0 && run.predicted[v] !== graph.label[v];

// From 0, sure, to 1, as unsure as any node.
function fadeOf(run, v) {
  if (view.fade === "none") return 0;
  if (view.fade === "rejected") return isRefused(run, v) ? 1 : 0;
  return Math.min(1, run[view.fade][v] / (view.fade === "entropy" ? largestEntropy : largestEpistemic()));
}

let epistemicTop = 0;
function largestEpistemic() {
  epistemicTop ||= runs.reduce((top, run) => run.epistemic.reduce((a, b) => Math.max(a, b), top), 1e-9);
  return epistemicTop;
}

function mixed(colour, background, share) {
  const parts = (hex) => [1, 3, 5].map((k) => parseInt(hex.slice(k, k + 2), 16));
  const [a, b] = [parts(colour), parts(background)];
  return `rgb(${a.map((part, k) => Math.round(part * (1 - share) + b[k] * share)).join(",")})`;
}

function drawGraph(canvas) {
  const ratio = devicePixelRatio || 1, width = canvas.clientWidth, height = canvas.clientHeight;
  if (!width) return;
  if (canvas.width !== Math.round(width * ratio) || canvas.height !== Math.round(height * ratio)) {
    canvas.width = Math.round(width * ratio);
    canvas.height = Math.round(height * ratio);
  }
  const run = runs[canvas.dataset.run], pen = canvas.getContext("2d"), at = projection({ width, height });
  const theme = getComputedStyle(document.documentElement), read = (name) => theme.getPropertyValue(name).trim();
  pen.setTransform(ratio, 0, 0, ratio, 0, 0);
  pen.clearRect(0, 0, width, height);
  const inside = (x, y) => x > -20 && y > -20 && x < width + 20 && y < height + 20;
  const ink = edgeLength * EDGE_WIDTH / (4 * at.half);
  if (canvas === canvases[0]) noteOnGraph(ink > CROWDED);
  if (!moving && ink <= CROWDED) {
    const strength = Math.max(0.012, Math.min(0.4, EDGE_INK / ink)) * (view.chosen === null ? 1 : 0.6);
    drawEdges(pen, run, at, inside, `rgba(${read("--edge")}, ${strength})`, mixed(read("--bad"), read("--surface"), Math.min(0.9, 4 * strength)));
  }
  const size = Math.max(0.9, Math.min(4.5, 0.2 * Math.sqrt((width * height) / nodes))) * Math.sqrt(Math.max(1, view.zoom));
  drawNodes(pen, run, at, inside, size, read("--surface"));
  if (view.errors) drawErrors(pen, run, at, inside, size, read("--ink"));
  if (view.chosen !== null) drawChosen(pen, run, at, size, read("--ink"), read("--surface"), read("--bad"));
  if (view.hovered !== null && ink > CROWDED) drawEdgesOf(pen, at, view.hovered, read("--accent"));
  if (view.hovered !== null) drawRing(pen, at, view.hovered, size + 3, read("--accent"));
}

function noteOnGraph(crowded) {
  const count = (value) => value.toLocaleString("en");
  const note = [
    ...(nodes < dataset.nodes ? [`Of ${count(dataset.nodes)} nodes the picture shows ${count(nodes)}: some test nodes and what they are joined to.`] : []),
    ...(crowded ? ["There are too many edges to draw them all at this size: point at a node to see its own, or zoom in."] : []),
  ].join(" ");
  if (byId("graph-note").textContent !== note) byId("graph-note").textContent = note;
  byId("graph-note").hidden = !note;
}

function drawEdgesOf(pen, at, v, colour) {
  pen.beginPath();
  for (const u of neighboursOf(v)) { pen.moveTo(at.x(v), at.y(v)); pen.lineTo(at.x(u), at.y(u)); }
  pen.strokeStyle = colour;
  pen.lineWidth = 0.9;
  pen.stroke();
}

const isDoubted = (run, pair) => run.edges !== null && run.edges.keep[pair] < 65535 * view.edgeThreshold;

// Edges that are kept less often than the threshold are dashed, and drawn in another colour.
function drawEdges(pen, run, at, inside, colour, doubt) {
  for (const dashed of run.edges ? [false, true] : [false]) {
    pen.beginPath();
    for (let e = 0; e < graph.pairs.length; e += 2) {
      const u = graph.pairs[e], v = graph.pairs[e + 1];
      const ux = at.x(u), uy = at.y(u), vx = at.x(v), vy = at.y(v);
      if (isDoubted(run, e / 2) !== dashed || (!inside(ux, uy) && !inside(vx, vy))) continue;
      pen.moveTo(ux, uy);
      pen.lineTo(vx, vy);
    }
    pen.setLineDash(dashed ? [4, 4] : []);
    pen.strokeStyle = dashed ? doubt : colour;
    pen.lineWidth = EDGE_WIDTH * (dashed ? 1.6 : 1);
    pen.stroke();
  }
  pen.setLineDash([]);
}

// One path for each colour and level of fading, the faded ones first, so that sure ones lie on top.
function drawNodes(pen, run, at, inside, size, background) {
  const groups = Array.from({ length: LEVELS * (dataset.classes + 1) }, () => []);
  for (let v = 0; v < nodes; v++) {
    const shown = shownClass(run, v);
    if (view.hidden.has(shown)) continue;
    const level = LEVELS - 1 - Math.min(LEVELS - 1, Math.floor(fadeOf(run, v) * LEVELS));
    groups[level * (dataset.classes + 1) + (shown < 0 ? dataset.classes : shown)].push(v);
  }
  groups.forEach((group, key) => {
    if (!group.length) return;
    const level = Math.floor(key / (dataset.classes + 1)), shown = key % (dataset.classes + 1);
    const share = 0.88 * (1 - level / (LEVELS - 1));
    pen.fillStyle = mixed(shown === dataset.classes ? "#888888" : classColour(shown), background, share);
    pen.beginPath();
    for (const v of group) {
      const x = at.x(v), y = at.y(v);
      if (!inside(x, y)) continue;
      const radius = radiusOf(v, size);
      if (radius < 1.1) pen.rect(x - radius, y - radius, 2 * radius, 2 * radius);
      else { pen.moveTo(x + radius, y); pen.arc(x, y, radius, 0, 7); }
    }
    pen.fill();
  });
}

const radiusOf = (v, size) => size * (0.75 + 0.14 * Math.log2(1 + starts[v + 1] - starts[v]));

function drawErrors(pen, run, at, inside, size, colour) {
  pen.beginPath();
  for (let v = 0; v < nodes; v++) {
    if (graph.part[v] !== TEST || !isWrong(run, v)) continue;
    const x = at.x(v), y = at.y(v), radius = radiusOf(v, size) + 1;
    if (inside(x, y)) { pen.moveTo(x + radius, y); pen.arc(x, y, radius, 0, 7); }
  }
  pen.strokeStyle = colour;
  pen.lineWidth = 1.1;
  pen.stroke();
}

function drawChosen(pen, run, at, size, ink, surface, doubt) {
  const v = view.chosen, around = neighboursOf(v);
  for (const dashed of [false, true]) {
    pen.beginPath();
    for (let i = starts[v]; i < starts[v + 1]; i++) {
      if (isDoubted(run, pairOf[i]) !== dashed) continue;
      pen.moveTo(at.x(v), at.y(v));
      pen.lineTo(at.x(ends[i]), at.y(ends[i]));
    }
    pen.setLineDash(dashed ? [5, 4] : []);
    pen.strokeStyle = dashed ? doubt : ink;
    pen.lineWidth = 1.3;
    pen.stroke();
  }
  pen.setLineDash([]);
  for (const u of [...around, v]) {
    const shown = shownClass(run, u), radius = Math.max(4, radiusOf(u, size) + (u === v ? 4 : 1.5));
    pen.beginPath();
    pen.arc(at.x(u), at.y(u), radius, 0, 7);
    pen.fillStyle = mixed(shown < 0 ? "#888888" : classColour(shown), surface, 0.88 * fadeOf(run, u));
    pen.fill();
    pen.strokeStyle = ink;
    pen.lineWidth = u === v ? 2.5 : 1.2;
    pen.stroke();
  }
}

function drawRing(pen, at, v, radius, colour) {
  pen.beginPath();
  pen.arc(at.x(v), at.y(v), Math.max(6, radius), 0, 7);
  pen.strokeStyle = colour;
  pen.lineWidth = 2;
  pen.stroke();
}

function nodeAt(canvas, clientX, clientY, reach = 16) {
  const box = canvas.getBoundingClientRect(), at = projection(box);
  let best = null, distance = reach * reach;
  for (let v = 0; v < nodes; v++) {
    if (view.hidden.has(shownClass(runs[canvas.dataset.run], v))) continue;
    const away = (at.x(v) - clientX + box.left) ** 2 + (at.y(v) - clientY + box.top) ** 2;
    if (away < distance) { distance = away; best = v; }
  }
  return best;
}

// Zoom so that what is under the point stays there.
function zoomBy(factor, canvas, clientX, clientY) {
  const zoom = Math.max(0.5, Math.min(60, view.zoom * factor)), box = canvas.getBoundingClientRect();
  const before = projection(box).half, real = zoom / view.zoom;
  const dx = ((clientX ?? box.left + box.width / 2) - box.left - box.width / 2) / before;
  const dy = ((clientY ?? box.top + box.height / 2) - box.top - box.height / 2) / before;
  view.x = (view.x - dx) + dx / real;
  view.y = (view.y - dy) + dy / real;
  view.zoom = zoom;
  redraw(true);
}

function resetView() {
  Object.assign(view, { zoom: 1, x: 0, y: 0 });
  redraw();
}

// Bring a node into the middle if it is out of sight.
function reveal(v) {
  const box = canvases[0].getBoundingClientRect(), at = projection(box);
  if (at.x(v) > 30 && at.y(v) > 30 && at.x(v) < box.width - 30 && at.y(v) < box.height - 30) return;
  view.x = 1 - graph.place[2 * v] / 32767.5;
  view.y = 1 - graph.place[2 * v + 1] / 32767.5;
}

function listenTo(canvas) {
  const pointers = new Map();
  let travelled = 0;
  canvas.addEventListener("pointerdown", (event) => {
    canvas.setPointerCapture(event.pointerId);
    pointers.set(event.pointerId, event);
    travelled = 0;
  });
  canvas.addEventListener("pointermove", (event) => {
    if (!pointers.has(event.pointerId)) { hover(canvas, event); return; }
    const last = pointers.get(event.pointerId), half = projection(canvas.getBoundingClientRect()).half;
    const dx = event.clientX - last.clientX, dy = event.clientY - last.clientY;
    travelled += Math.abs(dx) + Math.abs(dy);
    const other = [...pointers.values()].find((one) => one.pointerId !== event.pointerId);
    if (other) {
      const apart = (one) => Math.hypot(one.clientX - other.clientX, one.clientY - other.clientY);
      zoomBy(apart(event) / Math.max(1, apart(last)), canvas, other.clientX, other.clientY);
    } else {
      view.x += dx / half;
      view.y += dy / half;
      redraw(true);
    }
    pointers.set(event.pointerId, event);
  });
  const release = (event) => {
    const single = pointers.delete(event.pointerId) && !pointers.size;
    if (event.type === "pointerup" && single && travelled < 6) choose(nodeAt(canvas, event.clientX, event.clientY));
  };
  canvas.addEventListener("pointerup", release);
  canvas.addEventListener("pointercancel", release);
  canvas.addEventListener("pointerleave", () => { view.hovered = null; hideTip(); redraw(); });
  canvas.addEventListener("wheel", (event) => {
    // The page goes on scrolling past a picture that nobody has clicked into.
    if (document.activeElement !== canvas && !event.ctrlKey) return;
    event.preventDefault();
    zoomBy(Math.exp(-event.deltaY * 0.0016), canvas, event.clientX, event.clientY);
  }, { passive: false });
  canvas.addEventListener("keydown", (event) => {
    const step = 0.12 / view.zoom * 2, box = canvas.getBoundingClientRect();
    const act = {
      ArrowLeft: () => { view.x += step; }, ArrowRight: () => { view.x -= step; },
      ArrowUp: () => { view.y += step; }, ArrowDown: () => { view.y -= step; },
      "+": () => zoomBy(1.3, canvas), "=": () => zoomBy(1.3, canvas), "-": () => zoomBy(1 / 1.3, canvas), 0: resetView,
      Enter: () => choose(nodeAt(canvas, box.left + box.width / 2, box.top + box.height / 2, 1e9)),
      Escape: () => choose(null),
    }[event.key];
    if (!act) return;
    event.preventDefault();
    act();
    redraw(true);
  });
}

function hover(canvas, event) {
  const found = nodeAt(canvas, event.clientX, event.clientY), run = runs[canvas.dataset.run];
  if (found !== view.hovered) { view.hovered = found; redraw(); }
  canvas.style.cursor = found === null ? "grab" : "pointer";
  if (found === null) hideTip();
  else showTip(`node ${nodeName(found)}: ${className(run.predicted[found])}, ${percent(probabilityOf(run, found, run.predicted[found]), 0)}\nlabel: ${className(graph.label[found])}`, event.clientX, event.clientY);
}
