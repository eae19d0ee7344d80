// One answer on the page: its tokens by colour, the strip of passes, the meters.

import { $, make, meter } from "./dom.js";
import { look } from "./drafters.js";

const ORIGINS = {
  accepted: "and what the model wanted",
  forced: "the form of the answer left no choice",
  recovered: "the model's own, after a wrong guess",
  bonus: "the model's own: every guess before it was right",
};
const MOST_BOXES = 24;

const percent = (logprob) => {
  const share = 100 * Math.exp(logprob);
  return share >= 10 ? `${share.toFixed(0)} %` : share >= 0.1 ? `${share.toFixed(1)} %` : "< 0.1 %";
};
const quoted = (text) => JSON.stringify(text);
const origin = (token) => (token.origin === "accepted" && token.drafter ? `accepted, guessed by ${token.drafter}` : token.origin);

export class Answer {
  // plain: nothing was guessed, so there is nothing to colour.
  constructor(title, plain) {
    this.plain = plain;
    this.ids = [];
    this.usage = null;
    this.finish = null;
    this.content = "";
    this.tokens = [];
    this.passes = { count: 0, drafted: 0, kept: 0, by: {} };
    this.at = -1;
    this.firstMs = 0;
    this.text = make("div", {
      class: "text", tabindex: "0", role: "group",
      "aria-label": `${title}: the answer. Arrow keys move from token to token.`,
      onkeydown: (event) => this.key(event), onblur: () => this.leave(),
      onpointerover: (event) => this.hover(event), onpointerleave: () => this.leave(),
    });
    this.strip = make("div", { class: "strip", role: "img", tabindex: "0", "aria-label": "No passes yet" });
    this.meters = make("dl", { class: "meters" });
    this.said = make("p", { class: "hidden", "aria-live": "polite" });
    this.element = make("article", { class: plain ? "answer plain" : "answer" },
      make("h2", { text: title }), this.text, this.said, this.strip, this.meters);
  }

  // Adds what an event of the stream brings.
  add(event) {
    if (event.usage) {
      this.usage = event.usage;
      this.measure();
    }
    for (const choice of event.choices) {
      const told = choice.outrider;
      if (choice.delta.content) this.content += choice.delta.content;
      if (choice.finish_reason) this.finish = told?.finish ?? choice.finish_reason;
      if (!told) continue;
      const chances = choice.logprobs?.content ?? [];
      let place = 0;
      for (const token of told.tokens) {
        if (token.id === null) this.owe(token.text);
        else this.token(token, chances[place++]);
      }
      if (told.pass) this.pass(told.pass);
    }
  }

  // Text that belongs to the token before: the rest of a character, or what could have become a stop string.
  owe(text) {
    const last = this.tokens.at(-1);
    if (last) last.span.textContent += text;
    else this.text.append(text);
  }

  token(token, chance) {
    if (!this.tokens.length) this.firstMs = performance.now();
    const kind = token.origin === "accepted" ? `accepted ${look(token.drafter)}` : token.origin;
    const span = make("span", { class: `token ${kind}`, "data-place": this.tokens.length, text: token.text });
    this.ids.push(token.id);
    this.tokens.push({ ...token, chance, span });
    this.text.append(span);
  }

  pass(told) {
    this.passes.count += 1;
    this.passes.drafted += told.drafted;
    this.passes.kept += told.kept;
    const by = Object.entries(told.by);
    for (const [name, { drafted, kept }] of by) {
      const sum = (this.passes.by[name] ??= { drafted: 0, kept: 0 });
      sum.drafted += drafted;
      sum.kept += kept;
    }
    const who = by.map(([name, { drafted, kept }]) => `; ${name} ${kept} of ${drafted}`).join("");
    const column = make("span", { class: "pass", title: `${told.drafted} drafted, ${told.kept} kept${who}` });
    const boxes = by.flatMap(([name, { kept }]) => Array(kept).fill(`kept ${look(name)}`));
    while (boxes.length < told.drafted) boxes.push(boxes.length < told.kept ? "kept" : "");
    for (const box of boxes.slice(0, MOST_BOXES)) column.append(make("i", { class: box }));
    column.append(make("i", { class: `own ${told.own}` }));
    // A reader who went back to look stays there.
    const atEnd = this.strip.scrollLeft + this.strip.clientWidth >= this.strip.scrollWidth - 4;
    this.strip.append(column);
    if (atEnd) this.strip.scrollLeft = this.strip.scrollWidth;
    const { count, drafted, kept } = this.passes;
    this.strip.setAttribute("aria-label", `${count} passes: ${drafted} tokens drafted, ${kept} of them kept`);
    this.measure();
  }

  // While it runs, by the clock of this page; at the end, by the server's.
  measure() {
    const seconds = (performance.now() - this.firstMs) / 1000;
    const speed = this.usage ? this.usage.tokens_per_s : seconds > 0.05 ? (this.ids.length - 1) / seconds : 0;
    const perPass = this.usage ? this.usage.tokens_per_pass : this.ids.length / Math.max(1, this.passes.count);
    meter(this.meters, "tokens/s", speed ? speed.toFixed(1) : "…");
    meter(this.meters, "tokens a pass", perPass.toFixed(2));
    const { drafted, kept } = this.passes;
    meter(this.meters, "kept of drafted", drafted ? `${kept} of ${drafted}` : "none drafted");
    const by = Object.entries(this.passes.by);
    for (const [name, sum] of by.length > 1 ? by : []) meter(this.meters, `${name}: kept of drafted`, `${sum.kept} of ${sum.drafted}`);
    if (this.usage) meter(this.meters, "tokens", `${this.usage.completion_tokens}`);
  }

  key(event) {
    const moves = { ArrowRight: 1, ArrowLeft: -1, ArrowDown: 10, ArrowUp: -10, Home: -Infinity, End: Infinity };
    if (event.key === "Escape") this.leave();
    const step = moves[event.key];
    if (step === undefined || !this.tokens.length) return;
    event.preventDefault();
    this.show(Math.max(0, Math.min(this.tokens.length - 1, this.at + step)), true);
  }

  hover(event) {
    const place = event.target.dataset?.place;
    if (place === undefined) this.leave();
    else this.show(Number(place), false);
  }

  show(place, aloud) {
    this.leave();
    this.at = place;
    const token = this.tokens[place];
    token.span.classList.add("at");
    const tip = $("tip");
    tip.replaceChildren(...this.details(token));
    tip.hidden = false;
    const box = token.span.getBoundingClientRect();
    const above = box.top > tip.offsetHeight + 12;
    tip.style.left = `${Math.max(8, Math.min(box.left, innerWidth - tip.offsetWidth - 8))}px`;
    tip.style.top = `${above ? box.top - tip.offsetHeight - 8 : box.bottom + 8}px`;
    if (aloud) {
      token.span.scrollIntoView({ block: "nearest" });
      const chance = token.chance ? `, ${percent(token.chance.logprob)}` : "";
      this.said.textContent = `${quoted(token.text)}, ${this.plain ? "plain" : origin(token)}${chance}`;
    }
  }

  details(token) {
    const [name, says] = this.plain ? ["plain", "the model's own; nothing was guessed"] : [origin(token), ORIGINS[token.origin]];
    const head = make("div", {}, make("strong", { text: name }), ` · ${says}`);
    if (!token.chance) return [head];
    const rows = token.chance.top_logprobs.map((one) =>
      make("tr", one.token === token.chance.token ? { class: "chosen" } : {},
        make("td", { class: "mono", text: quoted(one.token) }), make("td", { text: percent(one.logprob) })));
    const own = make("div", { class: "quiet", text: `id ${token.id} · probability ${percent(token.chance.logprob)}` });
    return [head, own, make("table", {}, make("tbody", {}, ...rows))];
  }

  leave() {
    this.tokens[this.at]?.span.classList.remove("at");
    $("tip").hidden = true;
  }
}
