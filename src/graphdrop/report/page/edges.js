// Edges that are not trusted: a threshold, how many lie below it, and the first of them.

function edgeFigures() {
  const known = runs.filter((run) => run.edges);
  if (!known.length) return;
  byId("edges").hidden = byId("edges-link").hidden = false;
  const slider = byId("edge-threshold");
  const update = () => {
    view.edgeThreshold = slider.value / 100;
    const text = `${slider.value} % of the time`;
    byId("edge-threshold-value").textContent = text;
    slider.setAttribute("aria-valuetext", text);
    byId("doubted").replaceChildren(...known.map((run) => make("div", { class: "tile", style: { "border-color": runColour(runs.indexOf(run)) } },
      make("div", { class: "name" }, run.name),
      make("div", { class: "big" }, run.edges.below[slider.value].toLocaleString("en")),
      make("div", { class: "what" }, `of ${run.edges.count.toLocaleString("en")} edges are kept less than ${text}`))));
    redraw();
  };
  slider.addEventListener("input", update);
  update();
  for (const run of known) {
    const rows = run.edges.first.map((edge) => [...edge.ends.map(nodeButton), percent(edge.keep), ...edge.numbers.map((value) => number(value, 2))]);
    const box = tableBox(known.length > 1 ? run.name : "Least trusted edges", ["source", "target", "kept", ...run.edges.names], rows);
    box.firstElementChild.prepend(sample(runs.indexOf(run)));
    byId("edge-tables").append(box);
  }
}
