// What of each card has been on the screen, and for how long it has stood still there. An answer counts only for what
// could be seen: an allow waits until all of the card was on the screen, and every answer waits for half a second after
// the card came, moved or changed its buttons. A key waits for half a second of quiet after anything came or went.

import { byId } from "./dom.js";

const STEADY_MS = 500;
const SLACK_PX = 2;
const CLOSED = ".folded:not(.open)";
const BLOCKS = ".what > :not(.members), .members > *, .facts > *, .granting";
const ALLOWS = ["once", "session", "always", "send-edit"];

export class Screen {
  /** `cards()` are the elements of a list's cards, as far as they are in the page. */
  constructor(root, cards, signal) {
    Object.assign(this, { root, cards });
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
    observer.observe(byId("main"));
    signal.addEventListener("abort", () => { observer.disconnect(); clearTimeout(this.timer); });
  }

  /** Something came, went or took the focus without being asked to: keys wait until it was quiet for a moment. */
  stir(now = performance.now()) {
    this.quietFrom = Math.max(this.quietFrom, now);
    this.look();
  }

  /** The buttons of a card are others than before: a second click of a double click is not for them. */
  changeFoot(card) {
    const known = this.known.get(card);
    if (known) known.footAt = performance.now();
    this.look();
  }

  /** Why an answer by this event does not count: `unsteady`, `unread`, or null. `name` is that of its button. */
  refusal(card, name, event) {
    this.look();
    const known = this.known.get(card);
    // A key tells the card by the focus, a pointer by its place.
    const since = event.detail > 0 ? Math.max(known.since, known.footAt) : Math.max(known.since, this.quietFrom);
    if (event.timeStamp < since + STEADY_MS) return "unsteady";
    if (!ALLOWS.includes(name)) return null;
    if (!known.isRead) return "unread";
    return event.timeStamp < known.readAt + STEADY_MS ? "unsteady" : null;
  }

  /** The keys of the cards of which something is on the screen, from top to bottom. */
  visible() {
    const ceiling = ceilingOf();
    return [...this.cards()].filter((card) => isIn(card.getBoundingClientRect(), ceiling)).map((card) => card.dataset.key);
  }

  /** The first block of a card that was not on the screen as a whole, or null. */
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

  /** Give back in how many ms the card takes answers that it does not take yet; 0 or less is now. */
  #lookAt(card, ceiling, now) {
    const box = card.getBoundingClientRect();
    const known = this.known.get(card) ?? { since: Infinity, readAt: Infinity, footAt: -Infinity, isIn: false };
    const wasIn = known.isIn;
    known.isIn = isIn(box, ceiling);
    // Scrolling moves a card on the screen and not on the page, keeping it in view while others come does the reverse.
    const hasMoved = Math.abs(box.top - known.top) >= 1 && Math.abs(box.top + scrollY - known.place) >= 1;
    if (!known.isIn) known.since = Infinity;
    else if (!wasIn || hasMoved) known.since = now;
    Object.assign(known, { top: box.top, place: box.top + scrollY });
    const isRead = this.#isRead(card, ceiling, known.isIn);
    if (isRead && !known.isRead) known.readAt = now;
    known.isRead = isRead;
    this.known.set(card, known);
    const steadyIn = Math.max(known.since, known.footAt) + STEADY_MS - now;
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

  /** Note what of a block is on the screen; whether all of it was by now. */
  #readOn(block, ceiling) {
    const { top, bottom, width, height } = block.getBoundingClientRect();
    const size = `${width} ${height}`;
    const known = this.read.get(block);
    // A block that was unfolded, or is of another width, has its words elsewhere.
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
      if (known) known.isIn = false;
    }
    this.stir();
  }

  /** Whoever types on when a form has gone under their hands answers nothing with it. */
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

/** Below it the head of the page covers nothing. */
function ceilingOf() {
  return Math.max(0, byId("top").getBoundingClientRect().bottom);
}

/** A stretch added to those seen before; they stay apart from each other. */
function joined(stretches, from, to) {
  const touches = ([a, b]) => b >= from - SLACK_PX && a <= to + SLACK_PX;
  const met = stretches.filter(touches);
  const whole = [Math.min(from, ...met.map(([a]) => a)), Math.max(to, ...met.map(([, b]) => b))];
  return [...stretches.filter((one) => !touches(one)), whole];
}
