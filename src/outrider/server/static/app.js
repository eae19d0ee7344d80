// The page: settings, the conversation, and the comparison with plain decoding.

import { Answer } from "./answer.js";
import { Refused, chat, get, useKey } from "./api.js";
import { $, make, meter, tabs } from "./dom.js";
import { chosen, meet } from "./drafters.js";
import { openPlanner } from "./planner.js";

const UNBOUND = 17; // the draft length's right end: no bound but what pays
const ALTERNATIVES = 5;

let history = [];
let running = null;

function settings() {
  const length = Number($("length").value);
  const temperature = Number($("temperature").value);
  const seed = $("seed").value === "" ? Math.floor(Math.random() * 2 ** 32) : Number($("seed").value);
  const body = { temperature, seed, max_tokens: Number($("most").value) || 160, story: true };
  Object.assign(body, { logprobs: true, top_logprobs: ALTERNATIVES });
  if (length < UNBOUND) body.max_draft = length;
  const drafters = chosen();
  if (drafters?.length) body.drafters = drafters;
  return body;
}

function messages(question) {
  const system = $("system").value.trim();
  const before = system ? [{ role: "system", content: system }] : [];
  return [...before, ...history, { role: "user", content: question }];
}

// One answer, streamed into the page.
async function stream(answer, body, signal) {
  const page = document.scrollingElement;
  for await (const event of chat(body, signal)) {
    // Whoever reads further up stays there.
    const atEnd = page.scrollTop + innerHeight >= page.scrollHeight - 80;
    answer.add(event);
    if (atEnd) page.scrollTop = page.scrollHeight;
  }
}

const same = (one, other) => one.length === other.length && one.every((id, place) => id === other[place]);

function verdict(turn, fast, plain) {
  const equal = same(fast.ids, plain.ids);
  const place = fast.ids.findIndex((id, index) => id !== plain.ids[index]);
  const passes = `${fast.usage.passes} passes instead of ${plain.usage.passes}`;
  turn.append(make("p", {
    class: `verdict ${equal ? "yes" : "no"}`, role: "status",
    text: equal
      ? `identical: yes (${fast.ids.length} token ids compared, ${passes})`
      : `identical: no, they part at token ${(place < 0 ? Math.min(fast.ids.length, plain.ids.length) : place) + 1}`,
  }));
  if (fast.usage.tokens_per_s && plain.usage.tokens_per_s) {
    const gain = fast.usage.tokens_per_s / plain.usage.tokens_per_s;
    meter(fast.meters, "speed-up, measured", `${gain.toFixed(2)} ×`);
  }
}

async function ask(question) {
  const turn = make("section", { class: "turn" }, make("p", { class: "question", text: question }));
  const answers = make("div", { class: "answers" });
  turn.append(answers);
  $("log").append(turn);
  const body = { ...settings(), messages: messages(question) };
  const compared = $("compare").checked;
  const speculate = chosen()?.length !== 0 && (compared || $("speculate").checked);
  const answer = new Answer(speculate ? "With speculation" : "Plain decoding", !speculate);
  answers.append(answer.element);
  document.scrollingElement.scrollTop = document.scrollingElement.scrollHeight;
  const { max_draft: _, drafters: __, ...plainly } = body;
  await stream(answer, speculate ? body : { ...plainly, speculate }, running.signal);
  if (body.temperature > 0) meter(answer.meters, "seed", body.seed);
  history = [...messages(question).filter((one) => one.role !== "system"), { role: "assistant", content: answer.content }];
  if (!compared) {
    meter(answer.meters, "speed-up, measured", "–");
    return;
  }
  // One after the other: side by side they would take each other's time.
  const plain = new Answer("Plain decoding, the same question", true);
  answers.append(plain.element);
  await stream(plain, { ...plainly, speculate: false }, running.signal);
  verdict(turn, answer, plain);
}

function busy(now) {
  $("send").disabled = now;
  $("stop").hidden = !now;
  document.body.dataset.busy = now;
}

async function send() {
  const question = $("question").value.trim();
  if (!question || running) return;
  running = new AbortController();
  busy(true);
  $("notice").textContent = "";
  $("question").value = "";
  try {
    await ask(question);
  } catch (error) {
    if (error.name === "AbortError") $("notice").textContent = "Stopped.";
    else complain(error);
  } finally {
    running = null;
    busy(false);
  }
}

function complain(error) {
  if (error instanceof Refused && error.status === 401) $("key-box").hidden = false;
  $("notice").textContent = `${error.message}`;
  $("notice").classList.toggle("error", true);
}

function fresh() {
  running?.abort();
  history = [];
  $("log").replaceChildren();
  $("notice").textContent = "";
  $("question").focus();
}

function outputs() {
  const length = Number($("length").value);
  $("length-out").textContent = length === UNBOUND ? "as much as pays" : length === 1 ? "1 token" : `${length} tokens`;
  $("temperature-out").textContent = Number($("temperature").value).toFixed(2).replace(/\.?0+$/, "");
}

async function about() {
  try {
    const server = await get("/server.json");
    $("model").textContent = server.model;
    $("model").title = server.fingerprint;
    $("drafter").textContent = server.drafter;
    meet(server.drafters);
    $("rule").textContent = server.rule;
    $("most").max = server.most_tokens;
    $("notice").classList.remove("error");
    $("notice").textContent = "";
  } catch (error) {
    complain(error);
  }
}

function begin() {
  $("ask").addEventListener("submit", (event) => {
    event.preventDefault();
    send();
  });
  $("question").addEventListener("keydown", (event) => {
    if (event.key === "Enter" && !event.shiftKey && !event.isComposing) {
      event.preventDefault();
      send();
    }
  });
  $("stop").addEventListener("click", () => running?.abort());
  $("fresh").addEventListener("click", fresh);
  $("key").addEventListener("change", () => {
    useKey($("key").value.trim());
    about();
  });
  for (const id of ["length", "temperature"]) $(id).addEventListener("input", outputs);
  outputs();
  if (matchMedia("(max-width: 860px)").matches) $("settings").open = false;
  tabs((name) => name === "planner" && openPlanner());
  about();
}

begin();
