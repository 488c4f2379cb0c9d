// Time to think: who writes an answer or has a card open extends an attended request once; “+5 min” does it by hand.

import { NoConnection, Problem, call, path } from "./api.js";
import { serverNow } from "./clock.js";
import { clientId } from "./device.js";
import { announce } from "./dom.js";
import { keyOf } from "./store.js";

const SHORT_MS = 5 * 60_000;
const GAIN_MS = 1000; // the gateway gives no less
const OPEN_MS = 5000; // a card that is passed over was not opened

/** Return whether a person can give a request more time. */
export function isExtendable(row) {
  return row.tier === "attended" && row.extending !== "never" && Date.parse(row.latest_deadline) - Date.parse(row.deadline) >= GAIN_MS;
}

/** Return whether “+5 min” is offered for a request: it has little time left, and can have more. */
export function isOffered(row) {
  const ms = Date.parse(row.deadline) - serverNow();
  return isExtendable(row) && ms > 0 && ms < SHORT_MS;
}

/** Extends the requests of a page; the new deadline comes to all viewers as an event. */
export class Extending {
  constructor(requests) {
    this.requests = requests;
    this.done = new Set();
    this.open = { item: null, since: 0 };
  }

  /** Give these requests five minutes more, by hand. */
  async byHand(rows) {
    const able = rows.filter(isExtendable);
    if (!able.length) return announce("No more time: the request cannot be extended further.");
    const failed = (await Promise.all(able.map((row) => this.#send(row, "by_hand")))).find(Boolean);
    announce(failed ? `Not extended: ${failed.message}` : "Five minutes more.");
  }

  /** Extend these requests once, because a person is writing about them or has them open. */
  once(rows, reason) {
    for (const row of rows) {
      const mark = `${keyOf(row)}\n${row.round ?? 1}`;
      if (this.done.has(mark) || row.extending !== "automatic" || !isExtendable(row)) continue;
      this.done.add(mark);
      this.#send(row, reason).then((problem) => { if (problem instanceof NoConnection) this.done.delete(mark); });
    }
  }

  /** Note once a second which item is open, null for none; return whether it has been open for long enough. */
  isOpen(item) {
    if (item !== this.open.item) this.open = { item, since: performance.now() };
    return item !== null && performance.now() - this.open.since >= OPEN_MS;
  }

  /** Return the problem, or null. A refusal is shown where a person has pressed; typing goes on regardless. */
  async #send(row, reason) {
    const key = keyOf(row);
    const body = { reason, ...(reason === "by_hand" ? { deadline: row.deadline } : {}), ...(row.answering === "lock-holder" ? { client_id: clientId() } : {}) };
    try {
      const { request } = await call("POST", path("/v1/sessions/{}/asks/{}/extend", row.session, row.request_id), { body });
      this.requests.patch(key, { deadline: request.deadline, tier: request.tier });
      return null;
    } catch (error) {
      if (!(error instanceof NoConnection) && !(error instanceof Problem)) throw error;
      if (reason === "by_hand") this.requests.setLocal(key, { ...(this.requests.local.get(key) ?? { phase: "waiting" }), note: `Not extended: ${error.message}.` });
      return error;
    }
  }
}
