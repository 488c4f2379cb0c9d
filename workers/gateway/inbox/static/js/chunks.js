// The events of a session, of which a page at a time is fetched when it comes into view.

import { NoConnection, Problem, get, path } from "./api.js";

export const CHUNK = 200;
const REST_MS = 60; // a list that is scrolled fast passes what nobody looks at
const STRIP_CHUNKS = 15; // so many are fetched without being looked at, for the drawing over the slider

export class Chunks extends EventTarget {
  constructor(session) {
    super();
    this.session = session;
    this.chunks = new Map();
    this.total = 0;
  }

  /** `{line, entry}` of a version: the sentence of the views and the event of the log, each when it is there. */
  at(version) {
    return this.chunks.get(this.#of(version))?.rows[(version - 1) % CHUNK];
  }

  /** There are so many now; the last chunk may have grown. */
  grow(total) {
    if (total === this.total) return;
    const last = this.#of(this.total || 1);
    this.total = total;
    const known = this.chunks.get(last);
    if (known && known.rows.length < CHUNK) this.#fetch(last);
  }

  /** These versions are in view. What was wanted before and is out of view by now is not fetched. */
  want(from, to) {
    this.wanted = [this.#of(from), this.#of(to)];
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
  }

  #missing() {
    const [from, to] = this.wanted;
    for (let index = from; index <= to; index += 1) if (!this.chunks.has(index)) return index;
    return undefined;
  }

  async wantForDrawing() {
    for (let index = 0; index < Math.min(STRIP_CHUNKS, this.#of(this.total) + 1); index += 1) {
      if (!this.chunks.has(index)) await this.#fetch(index);
    }
  }

  /** Every loaded event of the log in order. */
  *entries() {
    for (const index of [...this.chunks.keys()].sort((a, b) => a - b)) {
      for (const row of this.chunks.get(index).rows) if (row.entry) yield row.entry;
    }
  }

  /** The loaded events of a chunk and of those beside it. */
  *entriesNear(index) {
    for (const near of [index - 1, index, index + 1]) {
      for (const row of this.chunks.get(near)?.rows ?? []) if (row.entry) yield row.entry;
    }
  }

  #of(version) {
    return Math.floor((Math.max(1, version) - 1) / CHUNK);
  }

  async #fetch(index) {
    const known = this.chunks.get(index) ?? { rows: [] };
    this.chunks.set(index, known);
    const query = { after: index * CHUNK, limit: CHUNK };
    try {
      const [{ events }, { lines }] = await Promise.all([
        get(path("/v1/sessions/{}/log", this.session), query),
        get(path("/v1/sessions/{}/timeline", this.session), query),
      ]);
      const byVersion = new Map(lines.map((line) => [line.version, line]));
      known.rows = events.map((entry) => ({ entry, line: byVersion.get(entry.version) }));
    } catch (error) {
      this.chunks.delete(index);
      if (!(error instanceof NoConnection) && !(error instanceof Problem)) throw error;
    }
    this.dispatchEvent(new CustomEvent("loaded", { detail: index }));
    return this.chunks.has(index);
  }
}
