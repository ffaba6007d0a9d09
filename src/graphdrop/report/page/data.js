// The report's content, its arrays unpacked, and what every part of the page uses.

const KINDS = { uint8: Uint8Array, uint16: Uint16Array, int16: Int16Array, uint32: Uint32Array, float32: Float32Array };

function unpack(_, value) {
  if (value === null || typeof value !== "object" || typeof value.base64 !== "string") return value;
  const bytes = Uint8Array.from(atob(value.base64), (character) => character.charCodeAt(0));
  return new KINDS[value.kind](bytes.buffer);
}

const report = JSON.parse(document.getElementById("data").textContent, unpack);
const { dataset, graph, runs } = report;
const PARTS = ["not in the split", "training", "validation", "test"];
const TEST = 3;
const byId = (id) => document.getElementById(id);

// An element with attributes and children; strings become text, never markup.
function make(tag, attributes = {}, ...children) {
  const svg = ["svg", "g", "path", "line", "rect", "circle", "text", "polygon"].includes(tag);
  const element = svg ? document.createElementNS("http://www.w3.org/2000/svg", tag) : document.createElement(tag);
  for (const [name, value] of Object.entries(attributes)) {
    if (name.startsWith("on")) element.addEventListener(name.slice(2), value);
    else if (name === "style") for (const [key, part] of Object.entries(value)) element.style.setProperty(key, part);
    else if (value === true) element.setAttribute(name, "");
    else if (value !== false && value != null) element.setAttribute(name, value);
  }
  element.append(...children.flat().filter((child) => child != null));
  return element;
}

// How figures are written; one that is undefined is a dash.
const number = (value, digits = 3) => (value == null || !Number.isFinite(value) ? "–" : value.toFixed(digits));
const percent = (value, digits = 1) => (value == null || !Number.isFinite(value) ? "–" : (100 * value).toFixed(digits) + " %");

// Runs differ in colour, in dashes and in the shape of their points: no one has to tell colours apart.
const DASHES = ["", "7 4", "2 3", "9 3 2 3", "5 2", "1 4", "12 4", "4 2 1 2"];
const runColour = (index) => `var(--run${index % 8})`;
const runDash = (index) => DASHES[index % 8];

function pointShape(index, x, y, size, attributes = {}) {
  const corners = [null, [[-1, -1], [1, -1], [1, 1], [-1, 1]], [[0, -1.3], [1.2, .9], [-1.2, .9]], [[0, -1.35], [1.35, 0], [0, 1.35], [-1.35, 0]]][index % 4];
  if (corners === null) return make("circle", { cx: x, cy: y, r: size, ...attributes });
  return make("polygon", { points: corners.map(([dx, dy]) => `${x + dx * size},${y + dy * size}`).join(" "), ...attributes });
}

// A short piece of a run's line, as it looks in every chart.
function sample(index, dash = runDash(index), colour = runColour(index)) {
  return make("svg", { width: 26, height: 12, "aria-hidden": "true" },
    make("line", { x1: 0, x2: 26, y1: 6, y2: 6, "stroke-width": 2.5, "stroke-dasharray": dash, style: { stroke: colour } }),
    pointShape(index, 13, 6, 3.5, { style: { fill: colour } }));
}

// Classes: the colours of Okabe and Ito, then others at equal distances around the circle of hues.
const OKABE_ITO = ["#0072B2", "#E69F00", "#009E73", "#CC79A7", "#56B4E9", "#D55E00", "#B8A800", "#7F7FCC"];
function classColour(index) {
  if (dataset.classes <= OKABE_ITO.length) return OKABE_ITO[index];
  const hue = (index * 360) / dataset.classes;
  const light = [0.42, 0.62, 0.52][index % 3], strength = 0.62;
  const channel = (k) => {
    const at = (k + hue / 30) % 12;
    return Math.round(255 * (light - strength * Math.min(light, 1 - light) * Math.max(-1, Math.min(at - 3, 9 - at, 1))));
  };
  return "#" + [0, 8, 4].map((k) => channel(k).toString(16).padStart(2, "0")).join("");
}
const className = (index) => (index < 0 ? "no label" : dataset.class_names?.[index] ?? `class ${index}`);
const shortClass = (index) => dataset.class_names?.[index] ?? String(index);
// Nodes are called by their id where the data has ids, and by their number otherwise.
const nodeName = (v) => graph.ids?.[v] ?? String(v);
const nodeCalled = (name) => (graph.ids ? graph.ids.indexOf(name) : /^\d+$/.test(name) ? Number(name) : -1);
const dot = (index) => make("span", { class: "dot", "aria-hidden": "true", style: { background: index < 0 ? "transparent" : classColour(index) } });

// Most uncertain of all is log(classes); rounding may carry an entropy past it.
const largestEntropy = runs.reduce((top, run) => run.entropy.reduce((a, b) => Math.max(a, b), top), Math.log(dataset.classes));
const settings = { by: "entropy", threshold: largestEntropy };
const listeners = [];
const whenThresholdMoves = (listener) => listeners.push(listener);
function setThreshold(value) {
  settings.threshold = value;
  for (const listener of listeners) listener();
}

const tip = byId("tip");
function showTip(text, x, y) {
  tip.textContent = text;
  tip.hidden = false;
  const { width, height } = tip.getBoundingClientRect();
  tip.style.left = `${Math.max(8, Math.min(x + 16, innerWidth - width - 8))}px`;
  tip.style.top = `${y + height + 24 > innerHeight ? y - height - 14 : y + 16}px`;
}
const hideTip = () => { tip.hidden = true; };
