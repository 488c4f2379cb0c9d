// One request: its card while it is pending; afterwards what was asked, who answered how, and what became of the call.

import { NoConnection, Problem, get, path } from "../api.js";
import { fullTime } from "../clock.js";
import { Deck } from "../deck.js";
import { h, link } from "../dom.js";
import { outcomeKind, outcomeText } from "../outcomes.js";
import { nextOf } from "./next.js";
import { reveal } from "../reveal.js";
import { keyOf } from "../store.js";
import { callInRow, inOneLine, whatRuns } from "../what.js";
import { needs, requestPlace, where, why } from "../why.js";

const AGAIN_MS = 3000;

export function show(main, app, id) {
  const page = new RequestPage(main, app, id, new URLSearchParams(location.search).get("session"));
  page.load();
  return { deck: page.deck, title: `Request ${id}`, leave: () => page.leave() };
}

class RequestPage {
  constructor(main, app, id, session) {
    Object.assign(this, { main, app, id, session, key: null, found: null });
    this.controller = new AbortController();
    const { signal } = this.controller;
    this.feed = h("div", { class: "deck", "aria-label": "The request" });
    this.about = h("div", { class: "one-request" }, h("p", { class: "empty" }, "Loading …"));
    this.next = h("p", { class: "next" });
    main.append(h("div", { class: "request-page" }, this.about, this.feed, this.next));
    this.deck = new Deck(this.feed, { requests: app.requests, me: app.me, wanted: (row) => keyOf(row) === this.key });
    app.requests.addEventListener("change", () => this.#changed(), { signal });
  }

  leave() {
    this.controller.abort();
    clearTimeout(this.timer);
    this.deck.destroy();
  }

  async load() {
    try {
      const { requests } = await get(path("/v1/requests/{}", this.id), { session: this.session }, this.controller.signal);
      this.#draw(requests);
    } catch (error) {
      if (error.name === "AbortError") return;
      if (!(error instanceof NoConnection) && !(error instanceof Problem)) throw error;
      this.about.replaceChildren(h("p", { class: "empty" }, error instanceof NoConnection ? "No connection to the gateway; trying again …" : `Not shown: ${error.message}.`));
      if (error instanceof NoConnection) this.timer = setTimeout(() => this.load(), AGAIN_MS);
    }
  }

  #draw(found) {
    if (found.length !== 1) return this.about.replaceChildren(...(found.length ? several(found) : unknown(this.id, this.session)));
    const [one] = found;
    this.found = one;
    this.key = keyOf(one);
    const { requests } = this.app;
    // Its card needs no list of all that waits.
    this.deck.wanted = (row) => one.outcome === null && keyOf(row) === this.key;
    if (one.outcome === null) requests.cards.keep(one.request);
    if (one.outcome === null && !requests.rows.has(this.key)) requests.add(one.request);
    this.about.replaceChildren(...(one.outcome === null ? [h("h1", { class: "spoken" }, "Request ", ...reveal(inOneLine(one.request)))] : settled(one, this.app.me)));
    // A feed without a card is a barrier for screen readers.
    this.feed.hidden = one.outcome !== null;
    this.deck.draw();
    this.#drawNext();
    if (one.outcome === null) this.deck.focus(this.key);
  }

  /** Show the outcome once the request is no longer pending. */
  #changed() {
    if (!this.found) return;
    if (this.found.outcome === null && this.app.requests.isFilled && !this.app.requests.rows.has(this.key)) {
      clearTimeout(this.timer);
      this.timer = setTimeout(() => this.load(), 0);
    }
    this.#drawNext();
  }

  #drawNext() {
    const row = nextOf(this.app.requests, this.key);
    this.next.replaceChildren(...(row ? ["Next: ", link(requestPlace(row), {}, h("code", {}, ...reveal(inOneLine(row))))] : [link("/", {}, "Inbox")]));
  }
}

function unknown(id, session) {
  return [h("h1", {}, "Unknown request"),
    h("p", {}, "No session that you may see", ...(session ? [" and that is named ", h("code", {}, ...reveal(session))] : []), " has a request ", h("code", {}, ...reveal(id)), "."),
    h("p", { class: "hint" }, "Its session may belong to a project that your token does not reach, or the link may be cut off.")];
}

function several(found) {
  return [h("h1", {}, "Several sessions have this request"),
    h("ul", { class: "several" }, ...found.map((one) => h("li", {}, link(requestPlace(one), {}, ...reveal(one.session)), ": ", h("code", {}, ...reveal(inOneLine(one.request))), ` (${one.outcome ?? "pending"})`)))];
}

function settled(one, me) {
  const row = { ...one.request, session: one.session };
  return [h("h1", {}, ...callInRow(row)),
    h("p", { class: `status ${outcomeKind(one.outcome)}` }, outcomeText(one, me.name)),
    h("article", { class: "card" }, h("div", { class: "what" }, ...whatRuns(row)), h("div", { class: "facts" }, where(row, false), why(row), needs(row, me))),
    h("dl", { class: "facts-list" }, ...facts(one, row).filter(Boolean).map(([name, ...what]) => h("div", {}, h("dt", {}, name), h("dd", {}, ...what))))];
}

/** Return what became of the request, and links to its session at those moments. */
function facts(one, row) {
  const moment = (version) => link(`/sessions/${encodeURIComponent(one.session)}#${version}`, {}, `event ${version}`);
  const claim = one.claim;
  return [
    ["Asked", `${fullTime(row.asked_at)} by `, ...reveal(row.by), ": ", moment(row.version)],
    ["Ended", `${fullTime(one.at)}: `, moment(one.version)],
    one.feedback ? ["Instructions", ...reveal(one.feedback)] : null,
    one.updated_input === null ? null : ["Ran instead", h("code", {}, ...reveal(JSON.stringify(one.updated_input)))],
    claim ? ["Claimed", `${fullTime(claim.at)} by `, ...reveal(claim.runner), `: ${CLAIMS[claim.status] ?? claim.status}`, one.claim_ended_at ? `, ${fullTime(one.claim_ended_at)}` : ""] : null,
    !claim && one.ran ? ["Run", "The agent reported that the call has run."] : null,
  ];
}

const CLAIMS = { open: "may be running; no end is recorded", finished: "it has run", unknown: "it may have run; its end is not known", released: "given back" };
