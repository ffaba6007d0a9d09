// A chart: axes, lines, bars and marks in SVG, with values under the pointer and under the arrow keys.

const MARGIN = { left: 58, right: 14, top: 10, bottom: 40 };

function niceTicks(low, high, wanted) {
  const rough = (high - low) / wanted || 1;
  const power = 10 ** Math.floor(Math.log10(rough));
  const step = power * [1, 2, 5, 10].find((factor) => factor * power >= rough * 0.999);
  const ticks = [];
  for (let k = Math.ceil(low / step - 1e-9); k * step <= high + step * 1e-9; k++) ticks.push(Number((k * step).toPrecision(12)));
  return ticks;
}

function logTicks(low, high) {
  const ticks = [];
  for (let k = Math.floor(Math.log10(low)); k <= Math.ceil(Math.log10(high)); k++) {
    for (const factor of [1, 2, 5]) if (factor * 10 ** k >= low && factor * 10 ** k <= high) ticks.push(factor * 10 ** k);
  }
  return ticks.length > 7 ? ticks.filter((tick) => Math.abs(Math.log10(tick) - Math.round(Math.log10(tick))) < 1e-9) : ticks;
}

const tickText = (value) => (value !== 0 && (Math.abs(value) >= 1e4 || Math.abs(value) < 1e-3) ? value.toExponential(0).replace("e+", "e") : String(Number(value.toPrecision(6))));

function extent(values, padding) {
  if (!values.length) return [0, 1];
  const low = values.reduce((a, b) => Math.min(a, b)), high = values.reduce((a, b) => Math.max(a, b));
  // Values that differ in a far digit only are shown as what they are: level.
  const room = padding && high - low < 0.02 * Math.abs(high) ? 0.1 * Math.abs(high) : (high - low || 1) * padding;
  return [low - room, high + room];
}

function scaleOf([low, high], [from, to], log) {
  const warp = log ? Math.log : (value) => value;
  return (value) => from + ((warp(value) - warp(low)) / (warp(high) - warp(low))) * (to - from);
}

// spec: {title, icon, xLabel, yLabel, x?: [low, high], y?: [low, high], log?, whole?, height?, diagonal?,
//   bars?: [{from, to, value, colour, opacity?}], series: [{name, points: [[x, y]], colour, dash, shape?, bars?: drawn as bars}],
//   marks?: [{x, y, shape, colour, solid?, size?}], help?: a measure, xText?, yText?, note?: (x) => a last line under the pointer}
// `draw` may be called again with another spec; `mark` moves the marks alone.
function chart(spec) {
  const box = make("div", { class: "chart" });
  const state = { spec, cursor: null };
  const redraw = () => drawChart(box, state);
  new ResizeObserver(redraw).observe(box);
  return {
    element: box,
    draw: (next) => { state.spec = next; state.cursor = null; redraw(); },
    mark: (marks) => { state.spec.marks = marks; redraw(); },
  };
}

function drawChart(box, state) {
  const { spec } = state;
  const width = Math.max(220, box.clientWidth - 36), height = spec.height ?? 260;
  const hadFocus = box.contains(document.activeElement);
  const points = spec.series.flatMap((series) => series.points);
  const known = points.map(([, y]) => y).filter((y) => y != null);
  const log = spec.log && known.length > 0 && known.every((y) => y > 0);
  const xRange = spec.x ?? extent(points.map(([x]) => x), 0);
  let yRange = spec.y ?? extent(known, log ? 0 : 0.06);
  if (log && !spec.y) yRange = [yRange[0] * 0.8, yRange[1] * 1.25];
  if (xRange[0] === xRange[1]) { xRange[0] -= 0.5; xRange[1] += 0.5; }
  const X = scaleOf(xRange, [MARGIN.left, width - MARGIN.right], false);
  const Y = scaleOf(yRange, [height - MARGIN.bottom, MARGIN.top], log);
  const svg = make("svg", {
    class: "plot", height, viewBox: `0 0 ${width} ${height}`, tabindex: 0, role: "img",
    "aria-label": `${spec.title}: ${spec.yLabel} against ${spec.xLabel}. Left and right arrow keys read values.`,
  });
  let xTicks = niceTicks(...xRange, width < 300 ? 4 : 6);
  if (spec.whole) xTicks = xTicks.filter(Number.isInteger);
  for (const tick of log ? logTicks(...yRange) : niceTicks(...yRange, 5)) {
    svg.append(make("line", { class: "rule", x1: MARGIN.left, x2: width - MARGIN.right, y1: Y(tick), y2: Y(tick) }),
      make("text", { x: MARGIN.left - 8, y: Y(tick) + 4, "text-anchor": "end" }, tickText(tick)));
  }
  for (const tick of xTicks) {
    svg.append(make("line", { class: "axis", x1: X(tick), x2: X(tick), y1: height - MARGIN.bottom, y2: height - MARGIN.bottom + 4 }),
      make("text", { x: X(tick), y: height - MARGIN.bottom + 17, "text-anchor": "middle" }, tickText(tick)));
  }
  svg.append(
    make("line", { class: "axis", x1: MARGIN.left, x2: width - MARGIN.right, y1: height - MARGIN.bottom, y2: height - MARGIN.bottom }),
    make("text", { x: (MARGIN.left + width - MARGIN.right) / 2, y: height - 4, "text-anchor": "middle" }, spec.xLabel),
    make("text", { x: 12, y: (MARGIN.top + height - MARGIN.bottom) / 2, "text-anchor": "middle", transform: `rotate(-90 12 ${(MARGIN.top + height - MARGIN.bottom) / 2})` }, spec.yLabel));
  for (const bar of spec.bars ?? []) {
    const top = Math.min(Y(bar.value), Y(yRange[0])), left = X(bar.from) + 1;
    svg.append(make("rect", { x: left, y: top, width: Math.max(1, X(bar.to) - left - 1), height: Math.max(0, Y(yRange[0]) - top), rx: 2, opacity: bar.opacity ?? 0.8, style: { fill: bar.colour } }));
  }
  if (spec.diagonal) svg.append(make("line", { class: "axis", x1: X(0), y1: Y(0), x2: X(1), y2: Y(1), "stroke-dasharray": "3 4" }));
  for (const series of spec.series) drawSeries(svg, series, X, Y);
  for (const one of spec.marks ?? []) {
    if (one.y == null || !Number.isFinite(one.y)) continue;
    svg.append(pointShape(one.shape, X(one.x), Y(one.y), one.size ?? 6, { "stroke-width": 2.5, style: { fill: one.solid ? one.colour : "var(--surface)", stroke: one.colour } }));
  }
  const keys = spec.series.filter((series) => series.name && !series.quiet);
  const legend = keys.length > 1 || spec.legend ? make("ul", { class: "keys" }, keys.map((series) => make("li", {}, sample(series.shape ?? 0, series.dash, series.colour), series.name))) : null;
  box.replaceChildren(...[make("h3", {}, spec.icon, spec.help ? helped(spec.title, spec.help) : spec.title), svg, legend].filter(Boolean));
  readValues(svg, state, X, Y, height);
  if (hadFocus) svg.focus();
}

function drawSeries(svg, series, X, Y) {
  if (series.bars) return;
  let path = "", pen = false;
  for (const [x, y] of series.points) {
    if (y == null) { pen = false; continue; }
    path += `${pen ? "L" : "M"}${X(x).toFixed(1)} ${Y(y).toFixed(1)}`;
    pen = true;
  }
  svg.append(make("path", { d: path, fill: "none", "stroke-width": series.thin ? 1.4 : 2.3, "stroke-linejoin": "round", "stroke-dasharray": series.dash ?? "", opacity: series.thin ? 0.6 : 1, style: { stroke: series.colour } }));
  if (series.points.length > 24) return;
  for (const [x, y] of series.points) if (y != null) svg.append(pointShape(series.shape ?? 0, X(x), Y(y), 4, { style: { fill: series.colour } }));
}

// The values of every series at one x: under the pointer, or step by step with the arrow keys.
function readValues(svg, state, X, Y, height) {
  const { spec } = state;
  const places = [...new Set(spec.series.flatMap((series) => series.points.map(([x]) => x)))].sort((a, b) => a - b);
  if (!places.length) return;
  const line = make("line", { class: "axis", y1: MARGIN.top, y2: height - MARGIN.bottom, visibility: "hidden", "stroke-dasharray": "2 3" });
  svg.append(line);
  const hide = () => { hideTip(); line.setAttribute("visibility", "hidden"); };
  const show = (index, clientY) => {
    state.cursor = Math.max(0, Math.min(places.length - 1, index));
    const x = places[state.cursor], frame = svg.getBoundingClientRect(), factor = frame.width / svg.viewBox.baseVal.width;
    line.setAttribute("x1", X(x)); line.setAttribute("x2", X(x)); line.setAttribute("visibility", "visible");
    const rows = spec.series.filter((series) => series.name).map((series) => [series.name, nearest(series.points, x)]).filter(([, y]) => y != null);
    const text = [`${spec.xLabel} ${(spec.xText ?? tickText)(x)}`, ...rows.map(([name, y]) => `${name}: ${(spec.yText ?? ((v) => tickText(Number(v.toPrecision(4)))))(y)}`), ...(spec.note ? [spec.note(x)] : [])].join("\n");
    showTip(text, frame.left + X(x) * factor, clientY ?? frame.top + 20);
  };
  svg.addEventListener("pointermove", (event) => {
    const frame = svg.getBoundingClientRect(), at = ((event.clientX - frame.left) / frame.width) * svg.viewBox.baseVal.width;
    show(places.reduce((best, x, k) => (Math.abs(X(x) - at) < Math.abs(X(places[best]) - at) ? k : best), 0), event.clientY);
  });
  svg.addEventListener("pointerleave", hide);
  svg.addEventListener("blur", hide);
  svg.addEventListener("keydown", (event) => {
    const step = { ArrowLeft: -1, ArrowRight: 1 }[event.key];
    if (!step) return;
    event.preventDefault();
    const stride = Math.max(1, Math.round(places.length / 50));
    show((state.cursor ?? (step > 0 ? -stride : places.length)) + step * stride);
  });
}

function nearest(points, x) {
  const known = points.filter(([, y]) => y != null);
  if (!known.length) return null;
  return known.reduce((best, point) => (Math.abs(point[0] - x) < Math.abs(best[0] - x) ? point : best))[1];
}
