// The planner: sliders and lists in, the server's own figures out.

import { get } from "./api.js";
import { draw } from "./chart.js";
import { $, make, meter } from "./dom.js";

const DEFAULTS = { target: "llama-70b", draft: "llama-1b", machine: "h100", weights: "fp16" };
const WAIT_MS = 60;

let opened = false;
let shown = null;
let asked = null;
let timer = 0;

export function openPlanner() {
  if (opened) return;
  opened = true;
  $("plan").addEventListener("input", later);
  $("plan").addEventListener("submit", (event) => event.preventDefault());
  addEventListener("resize", () => shown && show(shown));
  ask();
}

function later() {
  clearTimeout(timer);
  outputs();
  timer = setTimeout(ask, WAIT_MS);
}

const batch = () => 2 ** Number($("batch").value);

function outputs() {
  for (const output of document.querySelectorAll("#plan output")) {
    const id = output.htmlFor[0];
    output.textContent = id === "batch" ? batch() : id === "context" ? Number($(id).value).toLocaleString("en") : $(id).value;
  }
}

async function ask() {
  outputs();
  asked?.abort();
  asked = new AbortController();
  const query = new URLSearchParams({ batch: batch() });
  for (const [name, value] of new FormData($("plan"))) if (value !== "") query.set(name, value);
  try {
    show(await get(`/planner.json?${query}`, asked.signal));
    $("plan-notice").textContent = "";
  } catch (error) {
    if (error.name !== "AbortError") $("plan-notice").textContent = error.message;
  }
}

function lists(choices) {
  if ($("machine").options.length) return;
  const fill = (id, items) => {
    for (const { name, title } of items) $(id).append(make("option", { value: name, text: title ?? name }));
    $(id).value = DEFAULTS[id];
  };
  fill("machine", choices.machines);
  fill("target", choices.models);
  fill("draft", [...choices.models, { name: "ngram", title: "n-gram lookup (free)" }]);
  fill("weights", choices.weights.map((name) => ({ name })));
}

const times = (value) => `${value.toFixed(2)} ×`;
const share = (value) => (value === null ? "never" : value.toFixed(2));

function show(found) {
  shown = found;
  lists(found.choices);
  const numbers = $("numbers");
  meter(numbers, "break-even alpha", share(found.break_even));
  meter(numbers, "speed-up", times(found.speedup));
  meter(numbers, "tokens a pass", found.tokens_per_pass.toFixed(2));
  meter(numbers, "best draft length", found.best_gamma ? `${found.best_gamma}, ${times(found.best_speedup)}` : "0: do not");
  acceptance(found);
  lengths(found);
  batches(found);
}

function acceptance(found) {
  const even = found.break_even;
  const says = even === null ? "It never pays." : `Below alpha ${share(even)} speculation slows down.`;
  $("alpha-caption").textContent = `Speed-up by acceptance, gamma ${found.gamma}, c ${found.c}. ${says}`;
  draw($("alpha-plot"), {
    says: `Speed-up by acceptance: ${times(found.speedup)} at alpha ${found.alpha}. ${says}`,
    x: { low: 0, high: 1, name: "alpha" },
    y: { name: "speed-up" },
    curves: [{ points: found.by_alpha }],
    level: 1,
    mark: even === null || even === 0 ? null : { at: even, says: `break-even ${share(even)}` },
    point: [found.alpha, found.speedup],
  });
}

function lengths(found) {
  const best = found.best_gamma;
  $("gamma-caption").textContent = `Speed-up by draft length, alpha ${found.alpha}, c ${found.c}. Best: ${best}.`;
  draw($("gamma-plot"), {
    says: `Speed-up by draft length; the best is ${best} with ${times(found.best_speedup)}.`,
    x: { low: 0, high: found.choices.most_gamma, name: "gamma" },
    y: { name: "speed-up" },
    curves: [{ points: found.by_gamma }],
    level: 1,
    mark: best ? { at: best, says: `best: ${best}` } : null,
    point: [found.gamma, found.speedup],
  });
}

function batches(found) {
  const { here, best, points, stops_paying: stops, pays_from: from, largest_batch_that_fits: fits } = found.batch;
  let says = `With gamma ${found.gamma} it pays up to batch ${points.at(-1)[0]} and beyond.`;
  if (from === null) says = `With gamma ${found.gamma} it pays at no batch size.`;
  else if (stops !== null) says = `With gamma ${found.gamma} it stops paying at batch ${stops}.`;
  const room = fits === 0 ? " The weights do not fit this machine's memory." : here.fits ? "" : " So many sequences do not fit its memory.";
  $("batch-caption").textContent =
    `Speed-up by batch size. ${says} At ${here.batch}: ${times(here.speedup)}; at best ${times(best.speedup)} with gamma ${best.gamma}.${room}`;
  draw($("batch-plot"), {
    says,
    x: { low: 1, high: points.at(-1)[0], log: true, name: "sequences at once; dashed: best gamma" },
    y: { name: "speed-up" },
    curves: [{ points: points.map(([size, fixed]) => [size, fixed]) },
      { points: points.map(([size, , longest]) => [size, longest]), second: true }],
    level: 1,
    mark: stops === null || from === null ? null : { at: stops, says: `stops paying: ${stops}` },
    point: [here.batch, here.speedup],
  });
}
