// The requests of an item of the list, and what has become of each.

import { keyOf } from "./store.js";
import { tallyOf } from "./tally.js";

const UNDER_WAY = ["sending", "unsure"];

export class Members {
  constructor(page) {
    this.page = page;
    /** Results of requests whose entry in the store was cleared, by key. */
    this.past = new Map();
  }

  /** Return the requests of an item: those of a group as they are drawn, or the one. */
  of(item) {
    const group = this.page.arrangement.groups.get(item);
    if (group) return [...group.rows.values()];
    const row = this.page.rowOf(item);
    return row ? [row] : [];
  }

  /** Return the requests of an item that are pending, as they are drawn. */
  waiting(item) {
    return this.of(item).filter((row) => this.result(keyOf(row)) === null);
  }

  /** Return how a request ended, also after its entry was cleared; null while it is pending, `{}` if it is not known. */
  result(key) {
    const local = this.page.localOf(key);
    if (local?.phase === "settled") this.past.set(key, local.result ?? {});
    if (this.page.requests.rows.has(key)) return null;
    return local?.phase === "gone" ? {} : (this.past.get(key) ?? {});
  }

  /** Return the known results of these requests. */
  resultsOf(rows) {
    return rows.map((row) => this.result(keyOf(row))).filter((one) => one?.outcome);
  }

  /** Return the phase of a group, by the request that is furthest from its end. */
  phase(item) {
    const phases = this.of(item).map((row) => this.page.localOf(keyOf(row))?.phase);
    if (phases.includes("held")) return "held";
    if (phases.some((one) => UNDER_WAY.includes(one))) return "sending";
    return this.waiting(item).length ? "waiting" : "settled";
  }

  /** Return the entry of the request whose answer is held or on its way. */
  underWay(item) {
    return this.of(item).map((row) => this.page.localOf(keyOf(row))).find((one) => one?.phase === "held" || UNDER_WAY.includes(one?.phase));
  }

  /** Return a text that changes with each change of a group's requests. */
  state(item) {
    const later = this.page.arrangement.groups.get(item)?.later;
    return `${later} ${this.of(item).map((row) => `${this.page.requests.rows.has(keyOf(row))} ${this.page.localOf(keyOf(row))?.phase}`)}`;
  }

  /** Return in words how the requests of a group ended; null while none has. */
  tally(item) {
    return tallyOf(this.resultsOf(this.of(item)), this.page.me.name);
  }
}
