// All of a request, which its card draws. The list has only what its rows show, so a card is fetched when it is opened.

import { NoConnection, Problem, get } from "./api.js";
import { keyOf } from "./store.js";

const KEPT_MOST = 200;
const PROJECT_MOST = 500;
const AGED_MS = 5000;
/** What changes of a request while it waits. */
const MOVING = ["deadline", "latest_deadline", "tier", "approvals", "asker_gone_at"];

export class Cards {
  constructor(requests) {
    this.requests = requests;
    /** The requests as they were fetched, by key. */
    this.known = new Map();
    this.asked = new Set();
  }

  /** Return all of a request as it is now; undefined until it is there. */
  of(key) {
    const whole = this.known.get(key);
    const row = this.requests.rows.get(key);
    const shown = row ?? this.requests.local.get(key)?.row;
    if (!whole || (shown && shown.digest !== whole.digest)) return undefined;
    return row ? { ...whole, ...Object.fromEntries(MOVING.filter((name) => name in row).map((name) => [name, row[name]])) } : whole;
  }

  /** Keep a row that has all of its request. */
  keep(row) {
    const key = keyOf(row);
    this.known.delete(key);
    this.known.set(key, row);
    if (this.known.size > KEPT_MOST) this.known.delete(this.known.keys().next().value);
  }

  /** Fetch what is not there of these requests; `card` on the requests tells of each that has come. */
  want(rows) {
    for (const row of rows) if (!this.of(keyOf(row)) && !this.asked.has(keyOf(row))) this.#fetch(row);
  }

  async #fetch({ session, request_id }) {
    const key = keyOf({ session, request_id });
    this.asked.add(key);
    try {
      const { pending: [row], settled: [result] } = await get("/v1/pending", { session, request: request_id });
      // How a request ended is told by its hint; this may be older.
      if (row ?? result) this.keep(row ?? { ...result.request, session, project: result.project, lineage: result.lineage });
      this.requests.dispatchEvent(new CustomEvent("card", { detail: key }));
    } catch (error) {
      if (!(error instanceof NoConnection) && !(error instanceof Problem)) throw error;
    } finally {
      this.asked.delete(key);
    }
  }
}

const projects = new Map();

/** Return all of the requests that wait in these projects, the first of each, at most some seconds old; a project that cannot be read is left out. */
export async function waitingIn(names) {
  const now = performance.now();
  for (const [name, one] of projects) if (now > one.until) projects.delete(name);
  const lists = [...new Set(names)].map((name) => {
    if (!projects.has(name)) projects.set(name, { until: now + AGED_MS, list: get("/v1/pending", { project: name, limit: PROJECT_MOST }).then(({ pending }) => pending, () => []) });
    return projects.get(name).list;
  });
  return (await Promise.all(lists)).flat();
}
