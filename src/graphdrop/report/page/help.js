// What measures mean: a sentence each, under the pointer, on focus, and all of them in one list.

const MEANING = {
  ...Object.fromEntries(report.metrics.map((metric) => [metric.title, metric.help])),
  "ECE, uncalibrated": "The calibration error before the calibrator; good is that the calibrated one is lower, or that there was little to correct.",
  "NLL, uncalibrated": "The negative log-likelihood before the calibrator; good is that the calibrated one is lower.",
  "ECE by chance alone": "What a perfect forecaster would show on so few test nodes, simulated; neither good nor bad, it is what to read the calibration error against.",
  seconds: "How long the training took; good is what you can wait for.",
  "drop rate": "The share of connections that a layer leaves out at random, learned or fixed; no value is good by itself, but near 0 a layer has no uncertainty of its own and near 1 it sees nothing.",
  entropy: `How uncertain a prediction is, in nats: 0 is certain and ${number(Math.log(dataset.classes), 2)}, the logarithm of ${dataset.classes} classes, a blind guess; good is low where the network is right and high where it is wrong.`,
  "mutual information": "The part of the entropy that samples of the network disagree about; good is low, but to find errors the entropy is the better guide.",
  "probability of another class": "One minus the probability of the predicted class; good is low where the network is right and high where it is wrong.",
  "prediction set": "The classes that together should hold the true one 90 % of the time; good is small sets that keep this promise.",
  coverage: "The share of nodes that are answered and not refused; good is high at the accuracy you need.",
  risk: "The error rate of the nodes that are answered; good is low, and falling as fewer are answered.",
  "reliability diagram": "Accuracy against confidence, in bins; good is on the diagonal, while below it the network is too sure and above it too cautious.",
  "p(accurate | certain)": "Of the nodes counted as certain, the share that is right; good is near 100 %.",
  "p(uncertain | inaccurate)": "Of the nodes that are wrong, the share counted as uncertain; good is near 100 %.",
  "total variation": "How much neighbours differ in a layer's output, divided by its size; good is that it does not fall to 0, where all nodes look alike.",
  "Dirichlet energy": "How much neighbours differ in a layer's output, growing with its size; good is that it does not fall to 0 layer by layer.",
  "mean average distance": "One minus the cosine of neighbours' outputs, averaged; good is that it does not fall to 0, where nodes point the same way.",
};

function explain(element, text) {
  const { left, bottom } = element.getBoundingClientRect();
  showTip(text, left - 16, bottom - 10);
}

// Text that says what it means when pointed at, focused or pressed.
function helped(text, measure = text) {
  const meaning = MEANING[measure];
  if (!meaning) return text;
  const show = (event) => explain(event.currentTarget, meaning);
  return make("button", { type: "button", class: "help", "data-measure": measure, "aria-description": meaning, onpointerenter: show, onfocus: show, onclick: show, onpointerleave: hideTip, onblur: hideTip, onkeydown: (event) => { if (event.key === "Escape") hideTip(); } }, text);
}

function measureList() {
  byId("measures").lastElementChild.append(...Object.entries(MEANING).filter(([, meaning]) => meaning).flatMap(([measure, meaning]) => [make("dt", {}, measure), make("dd", {}, meaning)]));
}

// What the figures of each section say.
function conclude() {
  for (const box of document.querySelectorAll("[data-says]")) {
    const texts = report.conclusions[box.dataset.says] ?? [];
    box.append(...texts.map((text) => make("p", {}, text.replaceAll(" %", "\u00a0%"))));
    box.hidden = !texts.length;
  }
}
