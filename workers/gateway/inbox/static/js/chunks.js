// The events of a session, fetched in pages as they come into view and dropped again when there are many: a session
// may have any length.

import { NoConnection, Problem, get, path } from "./api.js";

export const CHUNK = 200;
export const LANES = 6;
const REST_MS = 60; // a list that is scrolled fast skips pages
const KEPT_CHUNKS = 60;
const WAITS_AT_ONCE = 1000;

export class Chunks extends EventTarget {
  constructor(session) {
    super();
    this.session = session;
    this.chunks = new Map();
    /** Waits by request: `{asked, ended, until, lane, deadline, …}`, from the gateway's outline. */
    this.waits = new Map();
    this.wanted = new Map();
    this.total = 0;
  }

  /** Return `{line, entry}` of a version: the sentence of the views and the event of the log, each if it is loaded. */
  at(version) {
    return this.chunks.get(this.#of(version))?.rows[(version - 1) % CHUNK];
  }

  /** Set the number of events; the last chunk may have grown, and waits may have ended. */
  grow(total) {
    if (total === this.total) return;
    const before = this.total;
    this.total = total;
    const last = this.#of(before || 1);
    const known = this.chunks.get(last);
    if (known && known.rows.length < CHUNK) this.#fetch(last);
    else if (before) this.#fetchWaits(last, Math.max(before, total - WAITS_AT_ONCE), Math.min(WAITS_AT_ONCE, total - before));
  }

  /** Set the versions in view at the named place. Earlier wanted pages that are out of view are not fetched. */
  want(name, from, to) {
    this.wanted.set(name, [this.#of(from), this.#of(to)]);
    clearTimeout(this.resting);
    this.resting = setTimeout(() => this.#fetchWanted(), REST_MS);
  }

  async #fetchWanted() {
    if (this.fetching) return;
    this.fetching = true;
    for (let missing = this.#missing(); missing !== undefined; missing = this.#missing()) {
      if (!(await this.#fetch(missing))) break;
    }
    this.fetching = false;
    this.#forget();
  }

  #missing() {
    for (const [from, to] of this.wanted.values()) {
      for (let index = from; index <= to; index += 1) if (!this.chunks.has(index)) return index;
    }
    return undefined;
  }

  /** Drop the pages furthest from all views. */
  #forget() {
    if (this.chunks.size <= KEPT_CHUNKS) return;
    const distance = (index) => Math.min(...[...this.wanted.values()].map(([from, to]) => Math.max(from - index, index - to, 0)));
    const far = [...this.chunks.keys()].sort((a, b) => distance(b) - distance(a));
    for (const index of far.slice(0, this.chunks.size - KEPT_CHUNKS)) this.chunks.delete(index);
  }

  /** Return the waits that overlap these versions. */
  waitsBetween(from, to) {
    return [...this.waits.values()].filter((one) => one.asked <= to && (one.until ?? Infinity) >= from);
  }

  #of(version) {
    return Math.floor((Math.max(1, version) - 1) / CHUNK);
  }

  async #fetch(index) {
    const known = this.chunks.get(index) ?? { rows: [] };
    this.chunks.set(index, known);
    const query = { after: index * CHUNK, limit: CHUNK };
    try {
      const [{ events }, { lines }, { waits }] = await Promise.all([
        get(path("/v1/sessions/{}/log", this.session), query),
        get(path("/v1/sessions/{}/timeline", this.session), query),
        get(path("/v1/sessions/{}/outline", this.session), { ...query, lanes: LANES }),
      ]);
      const byVersion = new Map(lines.map((line) => [line.version, line]));
      known.rows = events.map((entry) => ({ entry, line: byVersion.get(entry.version) }));
      for (const one of waits) this.waits.set(one.request_id, one);
    } catch (error) {
      this.chunks.delete(index);
      if (!(error instanceof NoConnection) && !(error instanceof Problem)) throw error;
    }
    this.dispatchEvent(new CustomEvent("loaded", { detail: index }));
    return this.chunks.has(index);
  }

  async #fetchWaits(index, after, limit) {
    try {
      const { waits } = await get(path("/v1/sessions/{}/outline", this.session), { after, limit, lanes: LANES });
      for (const one of waits) this.waits.set(one.request_id, one);
      this.dispatchEvent(new CustomEvent("loaded", { detail: index }));
    } catch (error) {
      if (!(error instanceof NoConnection) && !(error instanceof Problem)) throw error;
    }
  }
}
