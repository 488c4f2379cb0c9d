// Cards that can be answered: on the inbox the one whose row is open, on other pages those of a session or a request.

import { approvalsMark } from "./approvals.js";
import { announce } from "./dom.js";
import { byDeadline, keyOf } from "./store.js";
import { Arrangement } from "./arranging.js";
import { card, comingCard } from "./card.js";
import { Extending } from "./extending.js";
import { groupCard } from "./group.js";
import { askForLock, lockComes, lockHolder } from "./lock.js";
import { everySecond } from "./clock.js";
import { send, sendMany } from "./answering.js";
import { inOneLine } from "./what.js";
import { outcomeText } from "./outcomes.js";
import { Members } from "./members.js";
import { tallyOf } from "./tally.js";
import { Screen } from "./screen.js";
import { Selection } from "./selecting.js";
import { Rows, cardPlace } from "./rows.js";

const STAYS_MS = 5000;
const USED_MS = 1500;
const MAY_ANSWER = ["approver", "admin"];
const REFUSALS = {
  unsteady: "The list has just changed. Check it, then answer again.",
  unread: "Not all of this request was on the screen yet. Nothing was sent.",
};

export class Deck {
  /**
   * `wanted(row)` selects the rows, and `order` compares them; `rows` is the element of their
   * list, beside which one card is open; `isNarrow()` tells whether list and card take turns; `onopen(place, isAuto)`
   * is called with the address of the open card, or null; `onchange(waiting, shown)` with their counts.
   */
  constructor(root, { requests, me, wanted = () => true, order = byDeadline, rows = null, isNarrow = () => false, onopen = () => {}, onchange = () => {} }) {
    Object.assign(this, { root, requests, me, wanted, order, isNarrow, onopen, onchange });
    this.arrangement = new Arrangement();
    this.mayAnswer = MAY_ANSWER.includes(me.role);
    this.members = new Members(this);
    this.controller = new AbortController();
    const { signal } = this.controller;
    /** The items in their order, and the cards that are drawn, by item. */
    this.keys = [];
    this.cards = new Map();
    /** The item whose card is open, and one of its requests. */
    this.opened = null;
    this.openedRow = null;
    this.extending = this.mayAnswer ? (requests.extending ??= new Extending(requests)) : null;
    this.screen = this.mayAnswer ? new Screen(root, () => [...this.cards.values()].filter(({ isComing }) => !isComing), signal, (element) => this.#wasRead(element)) : null;
    this.list = rows ? new Rows(rows, this) : null;
    this.selection = this.mayAnswer && rows ? new Selection(this) : null;
    requests.addEventListener("change", () => this.#soon(), { signal });
    requests.addEventListener("local", ({ detail }) => {
      this.cards.get(this.itemOf(detail))?.refoot();
      this.list?.refresh(this.itemOf(detail));
    }, { signal });
    requests.addEventListener("card", ({ detail }) => this.#came(this.itemOf(detail)), { signal });
    root.addEventListener("click", (event) => this.#guard(event), { capture: true, signal });
    root.addEventListener("input", (event) => this.#write(event), { signal });
    root.addEventListener("pointerdown", () => { this.usedAt = performance.now(); }, { signal });
    this.stopTicking = everySecond(() => this.#tick());
    this.draw();
  }

  destroy() {
    this.controller.abort();
    this.stopTicking();
  }

  rowOf(key) {
    return this.requests.rows.get(key) ?? this.requests.local.get(key)?.row;
  }

  localOf(key) {
    return this.requests.local.get(key);
  }

  draftOf(key) {
    return this.requests.drafts.of(key);
  }

  /** Keep what is being written on a card. */
  #write(event) {
    const key = event.target.closest("[data-key]")?.dataset.key;
    const [row] = key && event.target.matches("textarea") ? this.members.of(key) : [];
    if (!row) return;
    this.requests.drafts.keep(key, inOneLine(row));
    this.extending?.once(this.#pendingOf(key), "typing");
  }

  /** Return the pending requests of an item with their present deadlines. */
  #pendingOf(item) {
    return this.members.waiting(item).map((row) => this.rowOf(keyOf(row)) ?? row);
  }

  /** Give the requests of an item, or of the focused one, five minutes more. */
  extend(item = this.focused()) {
    if (item !== null) this.extending?.byHand(this.#pendingOf(item));
  }

  waiting() {
    return [...this.requests.rows.values()];
  }

  itemOf(key) {
    return this.arrangement.itemOfRow.get(key) ?? key;
  }

  /** Put all alike requests together, on the person's own wish. */
  gather(likeness) {
    this.arrangement.gather(likeness);
    this.draw();
  }

  answer(item, answer) {
    const element = this.cards.get(item);
    const isBusy = (row) => ["held", "sending", "unsure", "settled"].includes(this.localOf(keyOf(row))?.phase);
    const digests = element.digests ?? new Map([[item, element.digest]]);
    // The answer is for the requests as drawn, even if another request has taken an id since.
    const rows = (element.digests ? this.members.waiting(item) : this.members.of(item)).filter((row) => digests.has(keyOf(row)) && !isBusy(row)).map((row) => ({ ...row, digest: digests.get(keyOf(row)) }));
    if (!rows.length) return;
    element.focus({ preventScroll: true });
    this.sendTo(rows, answer.reply === "always" ? { ...answer, cascade_always: "project" } : answer);
    this.#goOn(item);
  }

  /** Open the next item that waits, after an answer. */
  #goOn(item) {
    const next = this.list && this.members.phase(item) !== "waiting" ? this.#waitingNear(this.keys.indexOf(item)) : null;
    if (next) this.open(next, { isFocused: true });
  }

  /** Return the item that waits after a place of the list, else the last one before it; null if none waits. */
  #waitingNear(index) {
    const waits = (key) => this.members.phase(key) === "waiting" && this.members.waiting(key).length > 0;
    return this.keys.slice(Math.max(0, index + 1)).find(waits) ?? this.keys.slice(0, Math.max(0, index)).findLast(waits) ?? null;
  }

  /** Open the card of an item; null closes it, which shows the list of a narrow page. */
  open(item, { isFocused = false } = {}) {
    if (!this.list || item === this.opened) return isFocused ? this.focus(item) : undefined;
    this.#remember(item);
    this.#place();
    scrollTo(0, 0);
    this.screen?.stir();
    this.list.reveal(item);
    if (isFocused) this.focus(item);
  }

  #remember(item, isAuto = false) {
    const row = item === null ? null : (this.members.waiting(item)[0] ?? this.members.of(item)[0] ?? null);
    Object.assign(this, { opened: item, isAuto });
    this.openedRow = row && keyOf(row);
    this.onopen(row && cardPlace(row), isAuto);
  }

  /** Send one answer to requests with the digests that were shown, after its hold. */
  sendTo(rows, answer) {
    if (!this.requests.holding?.begin(rows, answer, (left) => this.#leave(left, answer))) this.#leave(rows, answer);
  }

  #leave(rows, answer) {
    const tell = (row, phase, detail) => this.#went(keyOf(row), row, answer, phase, detail);
    if (rows.length === 1) return send(rows[0], answer, (phase, detail) => tell(rows[0], phase, detail));
    return sendMany(rows, answer, tell).then(() => this.#announceMany(rows));
  }

  #announceMany(rows) {
    const told = tallyOf(this.members.resultsOf(rows), this.me.name);
    if (told) announce(`${told.text}.`);
    this.requests.dispatchEvent(new CustomEvent("told", { detail: told?.text }));
  }

  /** Check every press of an answer button, by pointer or key. */
  #guard(event) {
    const name = event.target.closest("[data-answer]")?.dataset.answer;
    if (!name || name === "back" || !this.#isRefused(event.target.closest("[data-key]").dataset.key, name, event)) return;
    event.preventDefault();
    event.stopPropagation();
  }

  /** Return whether to refuse a press; a refusal is announced, and the unread part is shown. */
  #isRefused(key, name, event) {
    const element = this.cards.get(key);
    const refusal = this.screen.refusal(element, name, event);
    if (refusal === null) return false;
    announce(REFUSALS[refusal]);
    element.classList.add("moved");
    if (refusal === "unread") this.showUnread(element);
    return true;
  }

  /** Scroll to the unread part; folds stay closed. */
  showUnread(element) {
    const block = this.screen.unread(element);
    block?.scrollIntoView({ block: "start" });
    block?.querySelector(".unfold")?.focus({ preventScroll: true });
  }

  /** Request the input lock of a request's session, and show when it has passed. */
  async takeLock(row) {
    const key = keyOf(row);
    try {
      const { held } = await askForLock(row.session);
      if (!held) this.requests.setLocal(key, { phase: "waiting", offer: null, note: "You have asked for the lock. It passes to you when its holder hands it over or leaves, after 10 s at the latest." });
      const isMine = held || (await lockComes(row.session, this.controller.signal));
      if (this.localOf(key)?.phase === "waiting" || held) this.requests.setLocal(key, { phase: "waiting", offer: null, note: isMine ? "You hold the lock now: answer again." : "You do not have the lock yet: answer again in a moment." });
    } catch (problem) {
      if (problem.name !== "AbortError") this.requests.setLocal(key, { phase: "failed", problem });
    }
    this.cards.get(this.itemOf(key))?.refoot();
  }

  #went(key, row, answer, phase, detail) {
    if (phase === "sending" || phase === "unsure") this.requests.setLocal(key, { phase, answer, row });
    if (phase === "unsure") this.requests.dispatchEvent(new Event("doubt"));
    if (phase === "failed") {
      this.requests.setLocal(key, { phase, problem: detail, answer: null, holder: undefined, row });
      announce(`Not sent: ${detail.message}`);
      if (detail.code === "NO_INPUT_LOCK") this.#nameHolder(key, row, detail);
    }
    if (phase === "agreed") {
      this.requests.patch(key, { approvals: detail.approvals });
      this.requests.drafts.drop(this.itemOf(key));
      this.requests.setLocal(key, { phase: "waiting", note: null });
      announce(`${inOneLine(row)}: ${detail.message}`);
    }
    if (phase === "settled") {
      this.requests.settle(row, { ...detail, isOwn: true });
      if (!detail.wasFirst && detail.reply) this.requests.drafts.drop(this.itemOf(key));
      if (this.itemOf(key) === key) announce(`${inOneLine(row)}: ${outcomeText(detail, this.me.name)}`);
      this.requests.setLocal(key, {});
    }
  }

  /** Add the name of the lock's holder: the refusal contains only the device. */
  async #nameHolder(key, row, problem) {
    const holder = await lockHolder(row.session).catch(() => undefined);
    if (holder === undefined || this.localOf(key)?.problem !== problem) return;
    this.requests.setLocal(key, { holder });
  }

  #render(key) {
    const group = this.arrangement.groups.get(key);
    for (const one of group?.rows.keys() ?? []) if (this.requests.rows.has(one)) group.rows.set(one, this.requests.rows.get(one));
    const rows = this.members.of(key);
    const whole = rows.map((row) => this.requests.cards.of(keyOf(row)));
    const isThere = whole.every(Boolean);
    if (!isThere) this.requests.cards.want(rows);
    const element = Object.assign(!isThere ? comingCard(rows[0]) : group ? groupCard(group, whole, this) : card(whole[0], this), { key, digest: rows[0].digest, drawn: rows.map(keyOf).join() });
    element.dataset.key = key;
    element.refoot();
    return element;
  }

  /** Draw the card of an item whose requests are all there now. */
  #came(item) {
    const isThere = this.members.of(item).every((row) => this.requests.cards.of(keyOf(row)));
    if (!this.cards.get(item)?.isComing || !isThere) return;
    this.refresh(item);
    this.screen?.stir();
    this.#fetchNext();
  }

  /** Fetch what an answer leads to, once the open card is there. */
  #fetchNext() {
    const next = this.list && this.cards.get(this.opened)?.isComing === undefined ? this.#waitingNear(this.keys.indexOf(this.opened)) : null;
    if (next) this.requests.cards.want(this.members.of(next));
  }

  #soon() {
    if (this.drawing) return;
    this.drawing = requestAnimationFrame(() => {
      this.drawing = null;
      this.draw();
    });
  }

  #wasRead(element) {
    this.selection?.note(element);
    this.selection?.draw();
  }

  draw() {
    const rows = [...this.requests.rows.values()].filter(this.wanted);
    for (const [key, local] of this.requests.local) {
      if (local.row && !this.requests.rows.has(key) && this.wanted(local.row)) rows.push(local.row);
    }
    rows.sort(this.order);
    const isOver = (key) => !this.requests.rows.has(key);
    const items = this.arrangement.arrange(rows, { isGrouping: this.list !== null, isFixed: (key) => this.#isFixed(key), isOver });
    const index = this.keys.indexOf(this.opened);
    this.keys = items.map(({ key }) => key);
    if (this.list) this.#keepOpen(index);
    this.list?.draw(items, this.opened);
    this.#place();
    this.#refootChanged();
    this.listed = rows;
    this.selection?.draw();
    this.onchange(rows.filter((row) => this.requests.rows.has(keyOf(row))).length, rows.length);
  }

  /** Keep a card open: the one that was, what its request is part of now, or beside the list the next one. */
  #keepOpen(index) {
    const card = this.cards.get(this.opened);
    // What opened by itself makes way for what comes first, until somebody may be reading it.
    const isLoose = this.isAuto && card && !this.screen?.mayBeRead(card) && !card.contains(document.activeElement);
    if (this.opened !== null && this.keys.includes(this.opened) && !isLoose) return;
    const moved = isLoose ? null : this.openedRow && this.itemOf(this.openedRow);
    const next = this.isNarrow() ? null : (this.#waitingNear(isLoose ? -1 : index - 1) ?? this.keys[0] ?? null);
    const item = this.keys.includes(moved) ? moved : next;
    if (item !== this.opened) this.#remember(item, true);
  }

  /** Draw the cards: of the open item, or of all where there is no list. */
  #place() {
    const keys = this.list ? this.keys.filter((key) => key === this.opened) : this.keys;
    const before = this.#onScreen();
    for (const [key, element] of this.cards) {
      if (keys.includes(key)) continue;
      element.remove();
      this.cards.delete(key);
    }
    keys.forEach((key, index) => {
      if (!this.cards.has(key)) this.cards.set(key, this.#render(key));
      const element = this.cards.get(key);
      if (this.root.children[index] !== element) this.root.insertBefore(element, this.root.children[index] ?? null);
    });
    this.list?.mark(this.opened);
    if (this.#onScreen() !== before) this.screen?.stir();
    this.#fetchNext();
  }

  /** Draw the card of an item again. */
  refresh(key) {
    const [before, element] = [this.cards.get(key), this.#render(key)];
    const isFocused = before.contains(document.activeElement);
    before.replaceWith(element);
    this.cards.set(key, element);
    if (isFocused) element.focus({ preventScroll: true });
  }

  #onScreen() {
    return JSON.stringify(this.screen?.visible());
  }

  /** Return whether a person may be reading or answering an item: nothing is added to it, nor put into a group. */
  #isFixed(item) {
    const isHeld = this.members.of(item).some((row) => ["sending", "unsure", "failed", "held"].includes(this.localOf(keyOf(row))?.phase));
    const element = this.cards.get(item);
    if (isHeld || this.requests.drafts.all.get(item)?.mode) return true;
    // A newcomer above moves the others: those that were being read are read on.
    return element !== undefined && (this.screen?.mayBeRead(element) || element.contains(document.activeElement));
  }

  #refootChanged() {
    for (const [key, element] of this.cards) {
      const group = this.arrangement.groups.get(key);
      if (element.isComing) this.#came(key);
      else if (group) this.#refootGroup(key, element, group);
      else if (this.requests.rows.has(key) && this.rowOf(key).digest !== element.digest) this.refresh(key);
      else if ((this.localOf(key)?.phase ?? "waiting") !== element.dataset.phase) element.refoot();
      else if (approvalsMark(this.rowOf(key)) !== element.dataset.approvals && !this.requests.drafts.all.get(key)?.mode) element.refoot();
    }
  }

  #refootGroup(key, element, group) {
    const isAnother = ([one, row]) => (this.requests.rows.get(one) ?? row).digest !== element.digests.get(one);
    if (element.drawn !== [...group.rows.keys()].join() || [...group.rows].some(isAnother)) this.refresh(key);
    else if (element.dataset.state !== this.members.state(key)) element.refoot();
  }

  #tick() {
    for (const [key, element] of this.cards) {
      element.tick();
      if (element.isComing) this.requests.cards.want(this.members.of(key));
    }
    this.list?.tick();
    const item = this.focused();
    if (this.extending?.isOpen(item)) this.extending.once(this.#pendingOf(item), "open_card");
    this.#clear();
  }

  /** Remove what has ended after a while, but not while it is in use. */
  #clear() {
    const now = performance.now();
    if (now - (this.usedAt ?? -Infinity) < USED_MS) return;
    const isListUsed = this.list?.root.matches(":hover");
    for (const [key, local] of this.requests.local) {
      const item = this.itemOf(key);
      const element = this.cards.get(item);
      // A group stays whole until all of it has ended.
      if (item !== key && this.members.waiting(item).length) continue;
      const isOld = now - local.since > STAYS_MS && (local.phase === "settled" || local.phase === "gone");
      const isInUse = isListUsed || (element && (element.matches(":hover") || element.contains(document.activeElement)));
      if (isOld && !(isInUse && now - local.since < 6 * STAYS_MS)) {
        if (element?.contains(document.activeElement)) this.#focusBeside(item);
        this.requests.drop(key);
      }
    }
  }

  #focusBeside(key) {
    const index = this.keys.indexOf(key);
    this.focus(this.list ? this.#waitingNear(index) : (this.keys[index + 1] ?? this.keys[index - 1]));
    this.screen?.stir();
  }

  /** Put the focus on an item: its row where the focus is in the list, else its card. */
  focus(key) {
    if (key === undefined || key === null) return;
    if (this.list && key !== this.opened) this.open(key);
    if (this.list?.root.contains(document.activeElement)) return this.list.focus(key);
    const element = this.cards.get(key);
    if (!this.list) element?.scrollIntoView({ block: "nearest" });
    element?.focus({ preventScroll: true });
  }

  /** Return the item that keys address: the open one while the focus is on it or in the list, else the card with the focus. */
  focused() {
    if (this.list?.root.contains(document.activeElement)) return this.opened;
    const item = document.activeElement?.closest?.("[data-key]");
    return item && this.root.contains(item) ? item.dataset.key : null;
  }

  /** Return whether a key moves in the list: arrows scroll a card that has the focus. */
  walks({ key, target }) {
    return !key.startsWith("Arrow") || (this.list !== null && !this.root.contains(target) && !target.matches?.("input[type=radio], input[type=range]"));
  }

  /** Open the next or the previous item. */
  step(by) {
    const current = this.list ? this.opened : this.focused();
    if (current === null) return this.focus(this.keys[0]);
    if (this.focused() === null) return this.focus(current);
    const next = this.keys[this.keys.indexOf(current) + by];
    if (next !== undefined) this.focus(next);
  }

  /** Select the open item, or deselect it. */
  select() {
    const element = this.list?.shown.get(this.focused());
    if (element) this.selection?.toggle(element);
  }

  /** Show more of the focused request, or less. */
  explain() {
    this.cards.get(this.focused())?.querySelector("[data-more]")?.click();
  }

  /** Take back the held answer of an item, or the newest one, and open it again. */
  undo(item = this.focused()) {
    const local = item === null ? null : (this.members.underWay(item) ?? null);
    const hold = this.requests.holding?.undo(local?.hold ?? undefined);
    if (hold) this.open(this.itemOf(keyOf(hold.rows[0])), { isFocused: true });
  }

  /** Press the focused card's button for a key; what a grant needs is behind *Remember…*. */
  press(name, event) {
    const key = this.focused();
    if (key === null) {
      this.step(1);
      return this.screen?.stir();
    }
    const found = (one) => this.cards.get(key)?.querySelector(`[data-answer${one === "send" ? "^" : ""}="${one}"]`);
    const button = found(name) ?? (["session", "always"].includes(name) ? found("remember") : null);
    if (button && !this.#isRefused(key, button.dataset.answer, event)) button.click();
  }
}
