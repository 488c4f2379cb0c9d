// Several requests answered at once: only those that a person has read, as they were then. One bar has what they would
// do, their buttons, and the way back after the answer; it covers no card.

import { waitingIn } from "./cards.js";
import { announce, byId, button, h } from "./dom.js";
import { holdSeconds } from "./holding.js";
import { ANSWERS } from "./labels.js";
import { grantList, patternsOf, picksOf, releasedByAll } from "./selection-grants.js";
import { isGrave, mayGoTogether } from "./shape.js";
import { keyOf } from "./store.js";
import { factsOf } from "./tally.js";

const STEADY_MS = 500;
const TOLD_MS = 8000;

export class Selection {
  constructor(deck) {
    this.deck = deck;
    /** The digests of requests all of which was on the screen, by key. */
    this.read = new Map();
    /** The digests of the selected requests, by key. */
    this.chosen = new Map();
    this.mode = null;
    /** The answer to a selection while it can be taken back, and what became of the last one. */
    this.held = this.#holdOf(({ rows }) => rows.length > 1);
    this.said = "";
    this.bar = byId("chosen");
    const { signal } = deck.controller;
    deck.requests.addEventListener("card", () => { if (this.mode === "remember") this.#drawBar(); }, { signal });
    deck.requests.addEventListener("told", ({ detail }) => this.#tell(detail), { signal });
    deck.requests.addEventListener("unheld", ({ detail }) => this.#unheld(detail), { signal });
    signal.addEventListener("abort", () => this.#hide());
  }

  /** Note that all of a card was on the screen. */
  note(card) {
    for (const [key, digest] of digestsOf(card)) this.read.set(key, digest);
  }

  /** Select or deselect the requests of a card or a row; return whether they are selected. */
  toggle(card) {
    if (card.isWhole?.()) this.note(card);
    const keys = [...digestsOf(card).keys()].filter((key) => this.#isReady(key));
    if (!keys.length) announce("Only what was read can be selected.");
    const isOn = keys.length > 0 && !keys.every((key) => this.chosen.has(key));
    for (const key of keys) {
      if (isOn) this.chosen.set(key, this.read.get(key));
      else this.chosen.delete(key);
    }
    this.draw();
    return isOn;
  }

  has(card) {
    const keys = [...digestsOf(card).keys()].filter((key) => this.deck.requests.rows.has(key));
    return keys.length > 0 && keys.every((key) => this.chosen.has(key));
  }

  /** Return whether a card or a row can be selected now. */
  mayHave(card) {
    return [...digestsOf(card).keys()].some((key) => this.#isReady(key)) || Boolean(card.isWhole?.());
  }

  /** Return the keys of a list's requests that were read and can be answered together; those that are grave are added by hand. */
  readOf(rows) {
    return rows.filter((row) => this.#isReady(keyOf(row)) && !isGrave(row)).map(keyOf);
  }

  chooseAll(keys) {
    for (const key of keys) this.chosen.set(key, this.read.get(key));
    this.draw();
  }

  /** Drop what has ended or changed; draw the bar and the boxes of the cards. */
  draw() {
    for (const [key, digest] of this.chosen) {
      if (!this.#isReady(key) || this.read.get(key) !== digest) this.chosen.delete(key);
    }
    for (const card of this.deck.list.shown.values()) this.#drawBox(card);
    const names = [...this.chosen.keys()].sort().join();
    if (names === this.drawn) return;
    this.drawn = names;
    if (!this.chosen.size) this.mode = null;
    this.#drawBar();
  }

  #drawBox(card) {
    const box = card.querySelector(".select input");
    if (!box) return;
    box.checked = this.has(card);
    box.setAttribute("aria-disabled", String(!box.checked && !this.mayHave(card)));
  }

  #drawBar() {
    this.changedAt = performance.now();
    const parts = [...this.#past(), ...(this.chosen.size ? this.#present() : [])];
    this.bar.hidden = !parts.length;
    this.bar.replaceChildren(...parts);
    this.bar.querySelector(".instructions")?.focus();
    this.deck.screen?.look();
  }

  /** Return the way back from the last answer, or what became of it. */
  #past() {
    if (this.held) return [h("span", { class: "facts-of", role: "status" }, `${ANSWERS[this.held.answer.reply]} (${this.held.rows.length}): sent within ${holdSeconds()} s.`), button("Undo", () => this.deck.requests.holding.undo(this.held), { kind: "small", "aria-keyshortcuts": "u", data: { undo: "" } })];
    return this.said && !this.chosen.size ? [h("span", { role: "status" }, this.said)] : [];
  }

  #present() {
    const rows = this.#rows();
    const what = h("p", { class: "facts-of", role: "status" }, h("strong", {}, `${rows.length} selected`), ...factsOf(rows).flatMap(({ text, isGrave: grave }, index) => [index ? ", " : ": ", grave ? h("b", { class: "grave" }, text) : text]));
    return [what, ...(this.mode === "remember" ? this.#grants(rows) : this.mode === "reject" ? this.#rejecting(rows) : this.#answering(rows))];
  }

  #answering({ length: count }) {
    return [button(`Allow ${count} once`, this.#act(() => ({ reply: "once" })), { kind: "once small" }),
      button(`Remember ${count}…`, () => this.#turn("remember"), { kind: "more small" }),
      button(`Reject ${count}…`, () => this.#turn("reject"), { kind: "reject small" }),
      button("Clear", () => { this.chosen.clear(); this.draw(); }, { kind: "quiet small" })];
  }

  #rejecting({ length: count }) {
    const text = h("input", { class: "instructions", maxlength: "4000", placeholder: "What should the agents do instead? (optional)", "aria-label": "What the agents should do instead (optional)" });
    return [text, button(`Reject ${count}`, this.#act(() => ({ reply: "reject", message: text.value.trim() || null })), { kind: "reject small" }), this.#back()];
  }

  /** Return what the selected requests would have remembered, and the buttons that do so. */
  #grants(selected) {
    const rows = selected.map((row) => this.deck.requests.cards.of(keyOf(row)));
    if (!rows.every(Boolean)) {
      this.deck.requests.cards.want(selected);
      return [h("span", { role: "status" }, "Loading …"), this.#back()];
    }
    const picks = picksOf(rows);
    const without = picks.filter(({ chosen }) => chosen === null).length;
    if (without) return [h("span", { role: "status" }, `${without} of ${rows.length} can only be allowed once here. Deselect ${without === 1 ? "it" : "them"} to remember the others.`), this.#back()];
    const { list, isRead } = grantList(picks);
    const isProject = rows.every((row) => row.always_scope === "project");
    const always = (released) => `Always allow ${rows.length} in ${new Set(rows.map((row) => row.project)).size > 1 ? "their projects" : "this project"}${released ? `: releases ${released} more` : ""}`;
    const remember = (text, reply, more = {}) => button(text, (event) => {
      if (!isRead()) return announce("Scroll through all of the grants first.");
      this.#answer(event, { reply, patternsOf: patternsOf(picks), ...more });
    }, { kind: "more small" });
    const inProject = isProject ? remember(always(0), "always", { cascade_always: "project" }) : "";
    if (isProject) waitingIn(rows.map((row) => row.project)).then((others) => {
      const released = releasedByAll(picks, others);
      if (!released || !inProject.isConnected) return;
      inProject.textContent = always(released);
      this.changedAt = performance.now();
    });
    return [list,
      remember(`Allow ${rows.length} in ${rows.length > 1 ? "their sessions" : "its session"}`, "session"),
      inProject,
      this.#back()];
  }

  #back() {
    return button("Back", () => this.#turn(null), { kind: "quiet small" });
  }

  #turn(mode) {
    this.mode = mode;
    this.#drawBar();
  }

  #act(answer) {
    return (event) => this.#answer(event, answer());
  }

  /** Answer the selected requests, unless the selection has changed right before the press. */
  #answer(event, answer) {
    if (event.timeStamp < this.changedAt + STEADY_MS) return announce("The selection has just changed. Check it, then answer again.");
    const rows = this.#rows();
    this.chosen.clear();
    this.deck.sendTo(rows, answer);
    this.held = this.#holdOf((one) => one.rows === rows);
    this.said = sending(rows);
    this.draw();
    if (this.held && event.detail === 0) this.bar.querySelector("[data-undo]")?.focus();
  }

  /** Return the held answer that meets a condition; a visit of another page leaves it held. */
  #holdOf(isWanted) {
    return [...(this.deck.requests.holding?.held ?? [])].find(isWanted) ?? null;
  }

  /** Go on after the time to take an answer back; a selection that was taken back is selected again. */
  #unheld({ hold, isBack, note }) {
    if (hold !== this.held) return;
    this.held = null;
    this.said = isBack ? (note ?? "") : sending(hold.rows);
    if (isBack) this.chooseAll(hold.rows.map(keyOf));
    this.#drawBar();
  }

  #rows() {
    return [...this.chosen].map(([key, digest]) => ({ ...this.deck.requests.rows.get(key), digest }));
  }

  #tell(text) {
    if (this.held) return;
    this.said = text ?? "";
    this.#drawBar();
    clearTimeout(this.telling);
    this.telling = setTimeout(() => {
      if (this.held || this.said !== text) return;
      this.said = "";
      if (!this.chosen.size) this.#drawBar();
    }, TOLD_MS);
  }

  #hide() {
    this.bar.hidden = true;
    this.bar.replaceChildren();
  }

  #isReady(key) {
    const row = this.deck.requests.rows.get(key);
    const phase = this.deck.localOf(key)?.phase ?? "waiting";
    return row !== undefined && ["waiting", "failed"].includes(phase) && this.read.get(key) === row.digest && mayGoTogether(row);
  }
}

/** Return the box that selects a card. */
export function selectBox(page, card) {
  const box = h("input", { type: "checkbox", "aria-label": "Select", "aria-keyshortcuts": "x" });
  box.addEventListener("change", () => { box.checked = page.selection.toggle(card()); });
  return h("label", { class: "select", title: "Select, to answer several at once (x)" }, box);
}

/** Return what is said until several requests are settled; a single one has its own card. */
const sending = (rows) => (rows.length > 1 ? "Sending …" : "");

const digestsOf = (card) => card.digests ?? new Map([[card.key, card.digest]]);
