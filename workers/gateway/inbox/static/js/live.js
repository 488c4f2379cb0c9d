// Keeps the page current: by the hints of the event stream, behind which it asks, or by polling where there is none.

import { NoConnection, Problem, get, path } from "./api.js";
import { keyOf } from "./store.js";
import { eventStream } from "./stream.js";

const POLL_MS = 2000;
const HIDDEN_POLL_MS = 30_000;
const HIDDEN_CLOSE_MS = 60_000;
const STREAM_RETRY_MS = [1000, 2000, 5000, 10_000];
const CHECK_MS = 20_000;
const ASKERS_MS = 5000;
const LOOKED_UP_MAX = 25;
const CHANGING = ["asked", "agreed", "decided", "deadline_moved", "replied", "timeout", "cancelled"];

/** Return the request of an outcome, with its project and lineage. */
const rowOf = (data) => ({ evaluation: data.evaluation, ...data.request, project: data.project, lineage: data.lineage });

export class Live extends EventTarget {
  constructor(requests) {
    super();
    this.requests = requests;
    this.state = "connecting";
    this.attempt = 0;
    this.asOf = null;
    this.rebuilding = false; // nothing was found, but the views are not complete
    this.problems = []; // streams that cannot be read; their pending requests are not shown
    this.hinted = new Map(); // requests that have changed, by key
    this.turn = Promise.resolve(); // one answer after the other, so that an older one never comes later
    document.addEventListener("visibilitychange", () => this.#visible());
    addEventListener("online", () => this.start());
    requests.addEventListener("doubt", () => this.doubt());
    addEventListener("offline", () => this.doubt());
    setInterval(() => { if (this.state === "live" && !document.hidden) this.doubt(); }, CHECK_MS);
    setInterval(() => this.askers(), ASKERS_MS);
  }

  /** Poll for absent askers, for which there is no event. */
  async askers() {
    if (this.state !== "live" || document.hidden || !this.requests.rows.size) return;
    try {
      const { pending } = await get("/v1/pending?gone=true&form=row");
      this.requests.goneAskers(new Map(pending.map((row) => [keyOf(row), row.asker_gone_at])));
    } catch (error) {
      if (!(error instanceof NoConnection) && !(error instanceof Problem)) throw error;
    }
  }

  /** Check the connection: a stream stays open when the connection is lost without a close. */
  async doubt() {
    try {
      await get("/healthz");
    } catch (error) {
      if (!(error instanceof NoConnection) || this.ended) return;
      this.#close();
      this.#become("offline");
      this.#again(STREAM_RETRY_MS[0]);
    }
  }

  /** Begin, or begin again; `isPart` tells that the first of many requests are shown, until all of them are known. */
  start({ isPart = false } = {}) {
    if (this.ended) return;
    this.#close();
    this.noStream = false;
    if (isPart && !document.hidden) return this.#stream();
    this.poll().then((ok) => { if (ok) this.#stream(); });
  }

  end() {
    this.ended = true;
    this.#close();
  }

  /** Fetch the pending requests once; return whether that succeeded. */
  poll() {
    const done = this.turn.then(() => this.#poll());
    this.turn = done.catch(() => {});
    return done;
  }

  async #poll() {
    const begun = performance.now();
    try {
      const { pending, problems, rebuilding = false } = await get("/v1/pending?form=row");
      this.problems = problems;
      this.rebuilding = rebuilding;
      this.dispatchEvent(new Event("problems"));
      const gone = this.requests.replace(pending);
      this.#become(this.source ? "live" : "asking");
      await this.#howTheyEnded(gone);
      this.lastPollMs = performance.now() - begun;
      this.#again(Math.max(POLL_MS, this.lastPollMs * 5));
      return true;
    } catch (error) {
      if (error instanceof Problem && error.status === 401) return false;
      if (!(error instanceof NoConnection) && !(error instanceof Problem)) throw error;
      this.#become("offline");
      this.#again(STREAM_RETRY_MS[Math.min(this.attempt++, STREAM_RETRY_MS.length - 1)]);
      return false;
    }
  }

  #again(ms) {
    clearTimeout(this.timer);
    if (this.ended || (this.source && this.state === "live")) return;
    this.timer = setTimeout(() => this.poll().then((ok) => { if (ok && !this.source) this.#stream(); }), document.hidden ? Math.max(ms, HIDDEN_POLL_MS) : ms);
  }

  #become(state) {
    if (state !== "offline") {
      this.asOf = Date.now();
      this.attempt = 0;
    }
    if (state === this.state) return;
    this.state = state;
    this.dispatchEvent(new Event("state"));
  }

  #stream() {
    if (this.noStream || this.source || document.hidden) return;
    const source = eventStream("/v1/events");
    this.source = source;
    const on = (type, handle) => source.addEventListener(type, (event) => {
      if (this.source === source) handle(event.data ? JSON.parse(event.data) : {});
      this.asOf = Date.now();
    });
    source.addEventListener("error", () => this.#streamFailed(source));
    // Every later change is hinted, so what waits by then is read once.
    for (const type of ["stream.open", "resync"]) on(type, () => this.poll());
    for (const type of CHANGING) on(`permission.${type}`, (hint) => this.#changed(hint, type));
    on("client.lock_requested", (hint) => this.#lockRequested(hint));
    for (const type of ["grant.created", "grant.used", "grant.revoked"]) on(type, () => this.dispatchEvent(new Event("grant")));
  }

  /** Look at the requests behind the hints, in the next turn. */
  #changed({ session, request_id }, type) {
    if (!this.hinted.size) this.turn = this.turn.then(() => this.#look());
    this.hinted.set(keyOf({ session, request_id }), { session, request_id, isByRule: type === "decided" });
  }

  async #look() {
    const hinted = [...this.hinted.values()];
    this.hinted.clear();
    if (hinted.length > LOOKED_UP_MAX) {
      await this.#poll();
      return new Promise((done) => setTimeout(done, this.lastPollMs)); // a busy ledger is not read without pause
    }
    try {
      await Promise.all(hinted.map((one) => this.#ask(one)));
    } catch (error) {
      if (!(error instanceof NoConnection) && !(error instanceof Problem)) throw error;
      setTimeout(() => this.poll(), POLL_MS);
    }
  }

  /** Show a request as it is now; return whether anything is known of it. */
  async #ask({ session, request_id, isByRule = false }) {
    const { pending: [row], settled: [result] } = await get("/v1/pending", { session, request: request_id, form: "row" });
    if (row) this.requests.add(row);
    else if (result && isByRule) this.requests.line(rowOf(result), { ...result, isByRule });
    else if (result) this.requests.settle(rowOf(result), result);
    return Boolean(row ?? result);
  }

  /** Fetch who asked for a session's lock, which a hint does not say. */
  async #lockRequested({ session, version }) {
    const { events: [entry] } = await get(path("/v1/sessions/{}/log", session), { after: version - 1, limit: 1 }).catch(() => ({ events: [] }));
    if (entry) this.dispatchEvent(new CustomEvent("lock", { detail: { session, by: entry.actor.name, event: entry.event } }));
  }

  #streamFailed(source) {
    if (this.source !== source) return;
    if (this.state === "live") this.asOf = Date.now();
    this.#close();
    // A gateway without an event stream refuses at once; the page then polls.
    if (source.isRefused) this.noStream = true;
    this.poll().then((ok) => { if (ok) this.#stream(); });
  }

  #close() {
    clearTimeout(this.timer);
    this.source?.close();
    this.source = null;
  }

  /** Browsers allow six connections to a host over HTTP/1.1, so a hidden tab closes its stream. */
  #visible() {
    clearTimeout(this.hiding);
    if (!document.hidden) {
      if (!this.source) this.start();
    } else {
      this.hiding = setTimeout(() => {
        this.#close();
        this.#again(HIDDEN_POLL_MS);
      }, HIDDEN_CLOSE_MS);
    }
  }

  /** Fetch the outcomes of requests that do not wait any more. */
  async #howTheyEnded(gone) {
    for (const row of gone.slice(0, LOOKED_UP_MAX)) {
      try {
        if (!(await this.#ask(row))) this.requests.drop(keyOf(row));
      } catch (error) {
        if (!(error instanceof NoConnection) && !(error instanceof Problem)) throw error;
        this.requests.drop(keyOf(row));
      }
    }
    for (const row of gone.slice(LOOKED_UP_MAX)) this.requests.drop(keyOf(row));
  }
}
