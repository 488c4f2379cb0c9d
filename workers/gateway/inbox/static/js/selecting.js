// Several requests answered at once: only those that a person has read, as they were then. The bar with their buttons
// is in the page's head, which covers no card.

import { announce, byId, button, h } from "./dom.js";
import { grantList, patternsOf, picksOf, releasedByAll } from "./selection-grants.js";
import { mayGoTogether } from "./shape.js";
import { keyOf } from "./store.js";

const STEADY_MS = 500;
const TOLD_MS = 8000;

export class Selection {
  constructor(deck) {
    this.deck = deck;
    /** The digests of requests all of which was on the screen, by key. */
    this.read = new Map();
    /** The digests of the selected requests, by key. */
    this.chosen = new Map();
    this.isRejecting = this.isGranting = false;
    this.bar = byId("chosen");
    deck.requests.addEventListener("told", ({ detail }) => this.#tell(detail), { signal: deck.controller.signal });
    deck.controller.signal.addEventListener("abort", () => this.#hide());
  }

  /** Note that all of a card was on the screen. */
  note(card) {
    for (const [key, digest] of digestsOf(card)) this.read.set(key, digest);
  }

  /** Select or deselect the requests of a card; return whether they are selected. */
  toggle(card) {
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

  /** Return whether a card can be selected now. */
  mayHave(card) {
    return [...digestsOf(card).keys()].some((key) => this.#isReady(key));
  }

  /** Return the keys of a list's requests that were read and can be answered together. */
  readOf(rows) {
    return rows.map(keyOf).filter((key) => this.#isReady(key));
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
    this.changedAt = performance.now();
    if (!this.chosen.size) return this.#hide();
    this.#drawBar();
  }

  #drawBox(card) {
    const box = card.querySelector(".select input");
    if (!box) return;
    box.checked = this.has(card);
    box.setAttribute("aria-disabled", String(!box.checked && !this.mayHave(card)));
  }

  #drawBar() {
    if (this.isGranting) return this.#drawGrants();
    const count = this.chosen.size;
    const text = this.isRejecting ? h("input", { class: "instructions", maxlength: "4000", placeholder: "What should the agents do instead? (optional)", "aria-label": "What the agents should do instead (optional)" }) : null;
    const act = (answer) => (event) => this.#answer(event, answer());
    const buttons = this.isRejecting
      ? [button(`Reject ${count}`, act(() => ({ reply: "reject", message: text.value.trim() || null })), { kind: "reject small" }), button("Back", () => this.#reject(false), { kind: "quiet small" })]
      : [button(`Allow ${count} once`, act(() => ({ reply: "once" })), { kind: "once small" }), button(`Remember ${count}…`, () => this.#grant(true), { kind: "more small" }), button(`Reject ${count}…`, () => this.#reject(true), { kind: "reject small" }), button("Clear", () => { this.chosen.clear(); this.draw(); }, { kind: "quiet small" })];
    this.bar.hidden = false;
    this.bar.replaceChildren(h("span", {}, h("strong", {}, `${count} selected`)), text ?? "", ...buttons);
    text?.focus();
    this.deck.screen?.look();
  }

  /** Draw what the selected requests would have remembered, and the buttons that do so. */
  #drawGrants() {
    const rows = this.#rows();
    const picks = picksOf(rows);
    const back = button("Back", () => this.#grant(false), { kind: "quiet small" });
    const without = picks.filter(({ chosen }) => chosen === null).length;
    this.bar.hidden = false;
    if (without) {
      this.bar.replaceChildren(h("span", { role: "status" }, `${without} of ${rows.length} can only be allowed once here. Deselect ${without === 1 ? "it" : "them"} to remember the others.`), back);
    } else {
      const { list, isRead } = grantList(picks);
      const act = (reply) => (event) => {
        if (!isRead()) return announce("Scroll through all of the grants first.");
        this.#answer(event, { reply, patternsOf: patternsOf(picks), ...(reply === "always" ? { cascade_always: "project" } : {}) });
      };
      const many = rows.length > 1 ? "their sessions" : "its session";
      const isProject = rows.every((row) => row.always_scope === "project");
      const released = isProject ? releasedByAll(picks, this.deck.waiting()) : 0;
      this.bar.replaceChildren(h("span", {}, h("strong", {}, `${rows.length} selected`), " Grants:"), list,
        button(`Allow ${rows.length} in ${many}`, act("session"), { kind: "more small" }),
        isProject ? button(`Always allow ${rows.length} in ${new Set(rows.map((row) => row.project)).size > 1 ? "their projects" : "this project"}${released ? `: releases ${released} more` : ""}`, act("always"), { kind: "more small" }) : "",
        back);
    }
    this.deck.screen?.look();
  }

  #grant(isGranting) {
    this.isGranting = isGranting;
    this.changedAt = performance.now();
    this.#drawBar();
  }

  #reject(isRejecting) {
    this.isRejecting = isRejecting;
    this.changedAt = performance.now();
    this.#drawBar();
  }

  /** Answer the selected requests, unless the selection has changed right before the press. */
  #answer(event, answer) {
    if (event.timeStamp < this.changedAt + STEADY_MS) return announce("The selection has just changed. Check it, then answer again.");
    const rows = this.#rows();
    this.chosen.clear();
    this.isRejecting = this.isGranting = false;
    this.deck.sendTo(rows, answer);
    this.draw();
  }

  #rows() {
    return [...this.chosen].map(([key, digest]) => ({ ...this.deck.requests.rows.get(key), digest }));
  }

  #tell(text) {
    if (!text || this.chosen.size) return;
    this.bar.hidden = false;
    this.bar.replaceChildren(h("span", { role: "status" }, text));
    clearTimeout(this.telling);
    this.telling = setTimeout(() => { if (!this.chosen.size) this.#hide(); }, TOLD_MS);
  }

  #hide() {
    this.isRejecting = this.isGranting = false;
    this.bar.hidden = true;
    this.bar.replaceChildren();
    this.deck.screen?.look();
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

const digestsOf = (card) => card.digests ?? new Map([[card.key, card.digest]]);
