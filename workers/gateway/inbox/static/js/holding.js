// A moment to take an answer back: an answer that allows is held in this page for some seconds, and nothing is sent
// until they have passed. Closing the page within them sends nothing, and the request stays pending.

import { serverNow } from "./clock.js";
import { ifAllowed } from "./device.js";
import { keyOf } from "./store.js";

export const HOLDS_S = [0, 3, 5, 10];
const SETTING = "permission-ledger.hold";
const USUAL_S = 3;
const SENDING_MS = 2000; // kept free before a deadline, for the answer to arrive
const OVERSLEPT_MS = 5000;
const ALLOWS = ["once", "session", "always"];

/** Return for how many seconds this browser holds an answer that allows. */
export function holdSeconds() {
  const kept = ifAllowed(() => localStorage.getItem(SETTING));
  return kept !== null && HOLDS_S.includes(Number(kept)) ? Number(kept) : USUAL_S;
}

export function keepHold(seconds) {
  ifAllowed(() => localStorage.setItem(SETTING, String(seconds)));
}

class Holding {
  constructor(requests) {
    this.requests = requests;
    this.held = new Set();
    addEventListener("pagehide", () => {
      for (const one of this.held) this.#back(one, "Nothing was sent, because the page was left. Answer again.");
    });
  }

  /** Hold an answer and return true; false if it must leave at once. `go(rows)` sends it. */
  begin(rows, answer, go) {
    const ms = holdSeconds() * 1000;
    const ends = rows.map((row) => Date.parse(this.requests.rows.get(keyOf(row))?.deadline ?? row.deadline ?? ""));
    const isNear = ends.some((end) => end - serverNow() < ms + SENDING_MS);
    // Browsers let a page ask for a passkey right after a press only.
    if (!ms || isNear || rows.some((row) => row.by_passkey) || !ALLOWS.includes(answer.reply)) return false;
    const one = { rows, answer, until: Date.now() + ms };
    one.timer = setTimeout(() => this.#leave(one, go), ms);
    this.held.add(one);
    for (const row of rows) this.requests.setLocal(keyOf(row), { phase: "held", answer, row, hold: one, note: null });
    return true;
  }

  /** Take an answer back, the newest one if none is named; return it, or null. */
  undo(hold = [...this.held].at(-1)) {
    if (!hold || !this.held.has(hold)) return null;
    this.#back(hold, null);
    return hold;
  }

  /** Return the requests for which an answer is still held: others may have been answered elsewhere. */
  #still(hold) {
    return hold.rows.filter((row) => {
      const local = this.requests.local.get(keyOf(row));
      return local?.phase === "held" && local.hold === hold;
    });
  }

  #leave(hold, go) {
    // A device that slept runs the timer when it wakes, when nobody expects an answer any more.
    if (Date.now() > hold.until + OVERSLEPT_MS) return this.#back(hold, "Nothing was sent, because this device slept. Answer again.");
    this.held.delete(hold);
    const rows = this.#still(hold);
    this.#tell(hold, { isBack: false });
    if (rows.length) go(rows);
  }

  #back(hold, note) {
    clearTimeout(hold.timer);
    this.held.delete(hold);
    for (const row of this.#still(hold)) this.requests.setLocal(keyOf(row), { phase: "waiting", hold: null, answer: null, note });
    this.#tell(hold, { isBack: true, note });
  }

  /** Tell that an answer is held no more: it leaves, or was taken back. */
  #tell(hold, how) {
    this.requests.dispatchEvent(new CustomEvent("unheld", { detail: { hold, ...how } }));
  }
}

/** Return the holding of a page's answers. */
export function holdingOf(requests) {
  return new Holding(requests);
}
