// Who guesses: the names of the drafters, how each of them looks, and the switches.

import { $, make } from "./dom.js";

// They guess where a request has a prediction or a form, and this page asks for neither.
const ELSEWHERE = ["predicted", "grammar"];
const LOOKS = 6;

let names = [];

// The class of what a drafter guessed; one that is not known has the look of all guesses.
export function look(name) {
  const place = names.indexOf(name);
  return place < 0 ? "" : `by-${place % LOOKS}`;
}

const swatch = (name) => make("span", { class: `token accepted ${look(name)}`, text: name });

// Shows the drafters that the server has.
export function meet(given) {
  names = given.filter((name) => !ELSEWHERE.includes(name));
  if (names.length) $("who").replaceChildren(...names.flatMap((name) => [swatch(name), " "]));
  $("drafters").hidden = names.length < 2;
  $("drafters").lastElementChild.replaceChildren(...names.map((name) =>
    make("label", { class: "switch" }, make("input", { type: "checkbox", value: name, checked: "" }), swatch(name))));
}

// Those that are switched on: null for all, or where there is no choice.
export function chosen() {
  const on = [...$("drafters").querySelectorAll("input:checked")].map((one) => one.value);
  return on.length === names.length ? null : on;
}
