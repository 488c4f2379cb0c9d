// The parts of each card that have been on the screen, and the time since it last moved. An answer counts only for a
// card that could be read: an allow needs all of the card to have been on the screen, and every answer needs half a
// second since the card appeared, moved or changed its buttons. A key needs half a second without any such change.

import { byId } from "./dom.js";

const STEADY_MS = 500;
const SLACK_PX = 2;
const CLOSED = ".folded:not(.open)";
const BLOCKS = ".what > :not(.members), .members > *, .facts > *, .group-members > *, .granting, .choices";
const ALLOWS = ["once", "session", "always", "send-edit", "grant"];

export class Screen {
  /** `cards()` returns the cards of a list that are in the page; `onread` is called with one all of which was shown. */
  constructor(root, cards, signal, onread = () => {}) {
    Object.assign(this, { root, cards, onread });
    this.known = new WeakMap();
    this.read = new WeakMap();
    this.quietFrom = performance.now();
    const look = () => this.#soon();
    addEventListener("scroll", look, { passive: true, signal });
    addEventListener("resize", look, { passive: true, signal });
    addEventListener("focus", () => this.stir(), { signal });
    document.addEventListener("visibilitychange", () => this.#comeBack(), { signal });
    addEventListener("keydown", (event) => this.#keyed(event), { capture: true, signal });
    const observer = new ResizeObserver(look);
    // Beside a long list the page keeps its height when a card grows.
    for (const element of [byId("main"), root]) observer.observe(element);
    signal.addEventListener("abort", () => { observer.disconnect(); clearTimeout(this.timer); });
  }

  /** Delay keys after a card appeared, disappeared or took the focus by itself. */
  stir(now = performance.now()) {
    this.quietFrom = Math.max(this.quietFrom, now);
    this.look();
  }

  /** Delay answers after a card's buttons changed, against the second click of a double click. */
  changeFoot(card) {
    const known = this.known.get(card);
    if (known) known.footAt = performance.now();
    this.look();
  }

  /** Return the reason to refuse an answer by this event: `unsteady`, `unread`, or null. `name` is its button's. */
  refusal(card, name, event) {
    this.look();
    const known = this.known.get(card);
    // A key addresses the card with the focus, a pointer the card at its position.
    const since = event.detail > 0 ? Math.max(known.since, known.footAt) : Math.max(known.since, this.quietFrom);
    if (event.timeStamp < since + STEADY_MS) return "unsteady";
    if (!ALLOWS.includes(name)) return null;
    if (!known.isRead) return "unread";
    return event.timeStamp < known.readAt + STEADY_MS ? "unsteady" : null;
  }

  /** Return the keys of the cards that are partly on the screen, from top to bottom. */
  visible() {
    const ceiling = ceilingOf();
    return [...this.cards()].filter((card) => isIn(card.getBoundingClientRect(), ceiling)).map((card) => card.dataset.key);
  }

  isVisible(card) {
    return isIn(card.getBoundingClientRect(), ceilingOf());
  }

  /** Return whether a person may be reading a card: it is on the screen, and was still there for a while, moved since or not. */
  mayBeRead(card) {
    return this.known.get(card)?.wasSteady === true && this.isVisible(card);
  }

  /** Return the first block of a card that was not shown completely, or null. */
  unread(card) {
    return blocksOf(card).find((block) => this.read.get(block) !== true) ?? null;
  }

  look(now = performance.now()) {
    if (document.hidden) return;
    clearTimeout(this.timer);
    const ceiling = ceilingOf();
    const waits = [this.quietFrom + STEADY_MS - now];
    this.root.toggleAttribute("data-quiet", waits[0] <= 0);
    for (const card of this.cards()) waits.push(this.#lookAt(card, ceiling, now));
    const next = Math.min(...waits.filter((wait) => wait > 0));
    if (next < Infinity) this.timer = setTimeout(() => this.look(), next + 1);
  }

  /** Return the time in ms until the card accepts further answers; 0 or less is now. */
  #lookAt(card, ceiling, now) {
    const box = card.getBoundingClientRect();
    const known = this.known.get(card) ?? { since: Infinity, readAt: Infinity, footAt: -Infinity, isIn: false };
    const wasIn = known.isIn;
    known.isIn = isIn(box, ceiling);
    // Scrolling moves a card on the screen, not on the page; keeping it in view while others appear does the reverse.
    const hasMoved = Math.abs(box.top - known.top) >= 1 && Math.abs(box.top + scrollY - known.place) >= 1;
    if (!known.isIn) known.since = Infinity;
    else if (!wasIn || hasMoved) known.since = now;
    Object.assign(known, { top: box.top, place: box.top + scrollY });
    const isRead = this.#isRead(card, ceiling, known.isIn);
    const isNews = isRead && !known.isRead;
    if (isNews) known.readAt = now;
    known.isRead = isRead;
    this.known.set(card, known);
    if (isNews) this.onread(card);
    const steadyIn = Math.max(known.since, known.footAt) + STEADY_MS - now;
    known.wasSteady = known.isIn && (known.wasSteady || steadyIn <= 0);
    const allowIn = isRead ? Math.max(steadyIn, known.readAt + STEADY_MS - now) : Infinity;
    draw(card, { isSteady: steadyIn <= 0, isRead, mayAllow: allowIn <= 0 });
    return known.isIn ? (steadyIn > 0 ? steadyIn : allowIn) : Infinity;
  }

  #isRead(card, ceiling, isNear) {
    let isAll = true;
    for (const block of blocksOf(card)) {
      if (this.read.get(block) === true) continue;
      isAll &&= isNear && this.#readOn(block, ceiling);
    }
    return isAll;
  }

  /** Record the visible part of a block; return whether all of it has been visible by now. */
  #readOn(block, ceiling) {
    const { top, bottom, width, height } = block.getBoundingClientRect();
    const size = `${width} ${height}`;
    const known = this.read.get(block);
    // Unfolding or another width moves the text of a block.
    const seen = known?.size === size ? known.seen : [];
    const from = Math.max(0, ceiling - top);
    const to = Math.min(height, innerHeight - top);
    const now = bottom > ceiling && top < innerHeight && to >= from ? joined(seen, from, to) : seen;
    const isWhole = now.length === 1 && now[0][0] <= SLACK_PX && now[0][1] >= height - SLACK_PX && !isClosed(block);
    this.read.set(block, isWhole ? true : { size, seen: now });
    return isWhole;
  }

  #soon() {
    if (this.waiting) return;
    this.waiting = requestAnimationFrame(() => {
      this.waiting = null;
      this.look();
    });
  }

  #comeBack() {
    for (const card of this.cards()) {
      const known = this.known.get(card);
      if (known) Object.assign(known, { isIn: false, wasSteady: false });
    }
    this.stir();
  }

  /** Restart the delay at a key within it: somebody may type on after a form has disappeared. */
  #keyed(event) {
    const isWriting = event.target.matches?.("input, textarea, select");
    if (!isWriting && event.timeStamp < this.quietFrom + STEADY_MS) this.stir(event.timeStamp);
  }
}

function draw(card, { isSteady, isRead, mayAllow }) {
  card.toggleAttribute("data-steady", isSteady);
  card.toggleAttribute("data-armed", mayAllow);
  for (const button of card.querySelectorAll("[data-answer]")) {
    const mayPress = ALLOWS.includes(button.dataset.answer) ? mayAllow : isSteady || button.dataset.answer === "back";
    if (mayPress) button.removeAttribute("aria-disabled");
    else button.setAttribute("aria-disabled", "true");
  }
  card.showLock?.(isRead);
}

const blocksOf = (card) => [...card.querySelectorAll(BLOCKS)];
const isClosed = (block) => block.matches(CLOSED) || block.querySelector(CLOSED) !== null;
const isIn = ({ top, bottom }, ceiling) => bottom > ceiling && top < innerHeight;

/** Return the lower edge of the page's head, which covers what is above. */
function ceilingOf() {
  return Math.max(0, byId("top").getBoundingClientRect().bottom);
}

/** Return the visible ranges with one added; overlapping ranges are merged. */
function joined(stretches, from, to) {
  const touches = ([a, b]) => b >= from - SLACK_PX && a <= to + SLACK_PX;
  const met = stretches.filter(touches);
  const whole = [Math.min(from, ...met.map(([a]) => a)), Math.max(to, ...met.map(([, b]) => b))];
  return [...stretches.filter((one) => !touches(one)), whole];
}
