// The pending requests of the page. A request's key is its session and id, joined by a line feed.

import { approvalsMark } from "./approvals.js";
import { Drafts } from "./drafts.js";

const LINES_MAX = 60;
const ENDED = new Set(["settled", "gone"]);

export const keyOf = (row) => `${row.session}\n${row.request_id}`;

export class Requests extends EventTarget {
  constructor() {
    super();
    this.rows = new Map();
    /** The progress of answers given on this page: by key, `{phase, …}`. */
    this.local = new Map();
    this.drafts = new Drafts();
    /** Recently settled requests, newest first. */
    this.lines = [];
    this.asOf = null;
    this.changed = false;
  }

  /** Replace all rows by a complete list of pending requests; return the rows that are no longer pending. */
  replace(rows) {
    // An unchanged row stays the same object; if all do, nothing is redrawn.
    const now = new Map(rows.map((row) => [keyOf(row), this.#known(row)]));
    const isSame = now.size === this.rows.size && [...now].every(([key, row]) => this.rows.get(key) === row);
    if (isSame && this.isFilled) return [];
    this.isFilled = true;
    const gone = [...this.rows].filter(([key]) => !now.has(key)).map(([, row]) => row);
    for (const row of gone) this.#leave(row);
    for (const row of now.values()) this.#comeBack(row);
    this.rows = now;
    this.#tell();
    return gone;
  }

  add(row) {
    this.#comeBack(row);
    this.rows.set(keyOf(row), row);
    this.#tell();
  }

  patch(key, members) {
    const row = this.rows.get(key);
    if (row) this.add({ ...row, ...members });
  }

  /** Set the times at which askers were last present, by key; other requests have a present asker. */
  goneAskers(gone) {
    for (const [key, row] of this.rows) {
      const at = gone.get(key) ?? null;
      if ((row.asker_gone_at ?? null) !== at) this.patch(key, { asker_gone_at: at });
    }
  }

  /** Settle a request; `result` is its outcome if it is known. */
  settle(row, result) {
    const key = keyOf(row);
    const known = this.rows.get(key) ?? row;
    this.rows.delete(key);
    const mine = this.local.get(key);
    // While an answer of this page is in flight, its response sets the outcome.
    if ((mine || known !== row) && (mine?.phase !== "sending" || result?.isOwn)) {
      this.local.set(key, { ...mine, phase: "settled", row: known, result: result ?? mine?.result ?? null, since: performance.now() });
    }
    this.line(known, result);
    this.#tell();
  }

  /** Add a line on a request to the recent list; a better known outcome replaces its earlier line. */
  line(row, result) {
    if (!result) return;
    const key = keyOf(row);
    this.lines = [{ key, row, result }, ...this.lines.filter((one) => one.key !== key)].slice(0, LINES_MAX);
    this.#tell();
  }

  setLocal(key, members) {
    this.local.set(key, { ...this.local.get(key), ...members });
    this.dispatchEvent(new CustomEvent("local", { detail: key }));
  }

  drop(key) {
    this.local.delete(key);
    this.#tell();
  }

  #known(row) {
    const known = this.rows.get(keyOf(row));
    // Events do not contain the asker; the pending row does.
    const at = row.asker_gone_at === undefined ? known?.asker_gone_at : row.asker_gone_at;
    if (!known || known.digest !== row.digest || known.deadline !== row.deadline || known.tier !== row.tier || approvalsMark(known) !== approvalsMark(row)) return { ...row, asker_gone_at: at };
    return (known.asker_gone_at ?? null) === (at ?? null) ? known : { ...known, asker_gone_at: at };
  }

  #leave(row) {
    const key = keyOf(row);
    const mine = this.local.get(key);
    if (mine?.phase === "settled") return;
    this.local.set(key, { ...mine, phase: mine?.phase ?? "gone", row, since: performance.now() });
  }

  /** Forget how a request ended that is pending again, with another digest. */
  #comeBack(row) {
    const { phase, row: ended } = this.local.get(keyOf(row)) ?? {};
    if (ENDED.has(phase) && ended.digest !== row.digest) this.local.delete(keyOf(row));
  }

  /** Combine simultaneous changes into one redraw. */
  #tell() {
    if (this.changed) return;
    this.changed = true;
    queueMicrotask(() => {
      this.changed = false;
      this.dispatchEvent(new Event("change"));
    });
  }
}

/** Order by nearest deadline; requests without one come last, in order of asking. */
export function byDeadline(a, b) {
  const [left, right] = [a.deadline ?? "~", b.deadline ?? "~"];
  if (left !== right) return left < right ? -1 : 1;
  return a.asked_at < b.asked_at ? -1 : a.asked_at > b.asked_at ? 1 : keyOf(a) < keyOf(b) ? -1 : 1;
}
