// The list of requests: a row for each item, all of them in the page, so that the browser's own search finds them. A row
// opens its card; it answers nothing.

import { serverNow, spell } from "./clock.js";
import { announce, button, h } from "./dom.js";
import { effectSign, graveWord } from "./effects.js";
import { LABELS } from "./labels.js";
import { outcomeKind, outcomeText } from "./outcomes.js";
import { reveal } from "./reveal.js";
import { selectBox } from "./selecting.js";
import { isOneLine, mayGoTogether } from "./shape.js";
import { keyOf } from "./store.js";
import { inOneLine } from "./what.js";

const SOON_MS = 15_000;
const HOUR_MS = 3_600_000;
const HOLD_MS = 500;
const STEADY_MS = 500;
const SLIP_PX = 10; // a finger that moves further scrolls or swipes
const SWIPE_PX = 56;
const PROGRESS = { held: "allowing …", sending: "sending …", unsure: "no connection", failed: "not sent", gone: "ended" };

export class Rows {
  /** `page` is the deck that has the requests; it is told of the row that a person opens or selects. */
  constructor(root, page) {
    Object.assign(this, { root, page });
    /** The rows by item, as elements with the `digests` of their requests. */
    this.shown = new Map();
    const { signal } = page.controller;
    root.addEventListener("click", (event) => this.#guard(event), { capture: true, signal });
    root.addEventListener("click", (event) => this.#click(event), { signal });
    root.addEventListener("pointerdown", (event) => this.#touch(event), { signal });
    root.addEventListener("contextmenu", (event) => { if (this.touched) event.preventDefault(); }, { signal });
  }

  /** Draw the rows of these items, in their order; `opened` is the item whose card is open. */
  draw(items, opened) {
    const before = [...this.root.children];
    const keys = new Set(items.map(({ key }) => key));
    for (const [key, element] of this.shown) if (!keys.has(key)) this.#remove(key, element);
    const focused = this.root.contains(document.activeElement) ? document.activeElement : null;
    let place = this.root.firstElementChild;
    for (const item of items) {
      const isNext = this.shown.get(item.key) === place;
      const element = this.#drawn(item);
      if (isNext) place = element; // it may have been drawn again
      if (element === place) place = place.nextElementSibling;
      else this.root.insertBefore(element, place);
    }
    [...this.root.children].forEach((element, index) => {
      if (before[index] && before[index] !== element) element.movedAt = performance.now();
    });
    // A row that moves loses the focus.
    if (focused?.isConnected && document.activeElement !== focused && !this.root.contains(document.activeElement)) focused.focus({ preventScroll: true });
    this.mark(opened);
  }

  /** Mark the row whose card is open; the keys of the list begin there. */
  mark(opened) {
    const first = this.shown.has(opened) ? opened : this.root.firstElementChild?.dataset.key;
    for (const [key, element] of this.shown) {
      const isOpen = key === opened;
      if (isOpen) element.link.setAttribute("aria-current", "true");
      else element.link.removeAttribute("aria-current");
      for (const one of element.querySelectorAll("a, input")) one.tabIndex = key === first ? 0 : -1;
    }
  }

  reveal(key) {
    this.shown.get(key)?.scrollIntoView({ block: "nearest" });
  }

  focus(key) {
    this.shown.get(key)?.link.focus({ preventScroll: true });
    this.reveal(key);
  }

  /** Update the time left. */
  tick() {
    for (const element of this.shown.values()) element.tick();
  }

  refresh(key) {
    this.shown.get(key)?.tick();
  }

  #remove(key, element) {
    element.remove();
    this.shown.delete(key);
  }

  #drawn({ key, rows }) {
    const mark = rows.map((row) => row.digest).join();
    const known = this.shown.get(key);
    if (known?.mark === mark) {
      known.tick();
      return known;
    }
    const element = Object.assign(rowElement(key, rows, this.page), { mark });
    if (known) {
      const isFocused = known.contains(document.activeElement);
      known.replaceWith(element);
      if (isFocused) element.link.focus({ preventScroll: true });
    }
    this.shown.set(key, element);
    return element;
  }

  /** Refuse a press on the box of a row where another row was just before: that one was meant. A key addresses the box with the focus. */
  #guard(event) {
    const row = event.detail > 0 && event.target.closest(".select")?.closest("[data-key]");
    if (!row || !this.#hasMoved(row, event)) return;
    event.preventDefault();
    event.stopPropagation();
  }

  /** Return whether a row had just moved at a press, and say so. */
  #hasMoved(row, { timeStamp }) {
    const isJust = timeStamp < row.movedAt + STEADY_MS;
    if (isJust) announce("The list has just changed. Check it, then select again.");
    return isJust;
  }

  #click(event) {
    const link = event.target.closest("a");
    if (!link || event.button || event.metaKey || event.ctrlKey || event.shiftKey || event.altKey) return;
    event.preventDefault();
    if (this.wasHeld) return;
    this.page.open(link.closest("[data-key]").dataset.key, { isFocused: event.detail === 0 });
  }

  /** Select a row by a finger that stays on it, or moves sideways. */
  #touch(event) {
    this.wasHeld = false;
    this.touched = event.pointerType === "mouse" || event.target.closest("label, button") ? null : event.target.closest("[data-key]");
    if (!this.touched) return;
    const { clientX: x, clientY: y } = event;
    const ending = new AbortController();
    const end = () => {
      clearTimeout(timer);
      ending.abort();
    };
    const select = () => {
      end();
      this.wasHeld = true;
      if (!this.#hasMoved(this.touched, event)) this.page.selection?.toggle(this.touched);
    };
    const timer = setTimeout(select, HOLD_MS);
    const { signal } = ending;
    addEventListener("pointermove", (moved) => {
      const [across, along] = [Math.abs(moved.clientX - x), Math.abs(moved.clientY - y)];
      if (across > SWIPE_PX && across > 2 * along) select();
      else if (Math.max(across, along) > SLIP_PX) clearTimeout(timer);
    }, { signal });
    for (const name of ["pointerup", "pointercancel"]) addEventListener(name, end, { signal });
  }
}

/** Return the address of a request's card in the inbox. */
export function cardPlace({ session, request_id: id }) {
  return `#${encodeURIComponent(session)}/${encodeURIComponent(id)}`;
}

function rowElement(key, rows, page) {
  const [first] = rows;
  const left = h("span", { class: "left" });
  const undo = button("Undo", () => page.undo(key), { kind: "small", "aria-keyshortcuts": "u", hidden: true, data: { undo: "" } });
  const link = h("a", { class: "entry-link", href: cardPlace(first) },
    effectSign(first), graveWord(first),
    h("span", { class: "what" }, rows.length > 1 ? h("span", { class: "alike" }, `${rows.length} alike`) : null, h("code", {}, ...reveal(inOneLine(first)))),
    h("span", { class: "who" }, ...[first.project, rows.length > 1 ? null : (first.agent ?? first.by)].filter(Boolean).flatMap((name, index) => [index ? " · " : null, h("bdi", {}, ...reveal(name))])),
    left);
  const isSelectable = page.selection && rows.every(mayGoTogether);
  const element = h("li", { class: "entry", data: { key } }, isSelectable ? selectBox(page, () => element) : h("span", { class: "select" }), link, undo);
  element.digests = new Map(rows.map((row) => [keyOf(row), row.digest]));
  element.link = link;
  const shown = link.querySelector(".what");
  element.isWhole = () => isOneLine(rows) && shown.clientWidth > 0 && shown.scrollWidth <= shown.clientWidth;
  element.tick = () => tick(key, page, { element, left, undo });
  element.tick();
  return element;
}

function tick(key, page, { element, left, undo }) {
  const phase = page.members.phase(key);
  const local = page.members.of(key).map((row) => page.localOf(keyOf(row))).find((one) => one?.phase && one.phase !== "waiting");
  const shown = phase === "waiting" && local?.phase !== "failed" ? "waiting" : (local?.phase ?? phase);
  element.dataset.phase = shown;
  // An answer to more than this row is taken back in the bar.
  undo.hidden = shown !== "held" || local?.hold?.rows.length > page.members.of(key).length;
  const ends = page.members.waiting(key).map((row) => Date.parse(page.rowOf(keyOf(row))?.deadline ?? row.deadline)).filter((end) => !Number.isNaN(end));
  const ms = ends.length ? Math.min(...ends) - serverNow() : Infinity;
  const result = shown === "settled" ? (page.members.tally(key) ?? null) : null;
  const text = shown === "waiting" ? leftText(ms) : shown === "settled" ? settledText(key, page, result) : (PROGRESS[shown] ?? shown);
  if (left.textContent !== text) left.textContent = text;
  left.classList.toggle("soon", shown === "waiting" && ms < SOON_MS);
  const [only] = page.members.resultsOf(page.members.of(key));
  element.dataset.outcome = shown === "settled" ? outcomeKind(only?.outcome) : "";
}

function leftText(ms) {
  if (ms === Infinity) return LABELS.no_deadline;
  if (ms <= 0) return LABELS.deadline_passed;
  return ms < HOUR_MS ? spell(ms).split(" ")[0] : spell(ms);
}

function settledText(key, page, tally) {
  const results = page.members.resultsOf(page.members.of(key));
  return results.length === 1 ? outcomeText(results[0], page.me.name) : (tally?.text ?? "Settled");
}
