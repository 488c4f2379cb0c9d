// One session: its pending requests, all of its events, and its state at any moment.

import { Deck } from "../deck.js";
import { Chunks, CHUNK } from "../chunks.js";
import { NoConnection, Problem, call, get, path } from "../api.js";
import { WindowedList } from "../list.js";
import { BARS_COUNT, Slider } from "../slider.js";
import { ago, at } from "../clock.js";
import { announce, foundLink, h, link, sessionLink } from "../dom.js";
import { eventDetail, kindOf, sentence, whoText } from "../events.js";
import { laneDrawing } from "../lanes.js";
import { moment } from "../moment.js";
import { reveal } from "../reveal.js";
import { byDeadline } from "../store.js";
import { callInRow } from "../what.js";

const ROW_PX = 58;
const NARROW_PX = 980;
const USES = ["wheel", "touchstart", "pointerdown", "keydown"];
const LOOK_MS = 3000;
const SETTLE_MS = 120;
const OUTLINE_MS = 2000; // an active session is not outlined again for each of its events
const PROBLEMS_SHOWN = 5;
const VERIFY_MS = 300; // it reads the whole log, so the visible part is loaded first
const NAMED_COUNT = 3; // calls in the line of what waits

export function show(main, app, id) {
  const page = new SessionPage(main, app, id);
  page.start();
  return { deck: null, title: id, step: (by) => page.slider.step(by), leave: () => page.leave() };
}

class SessionPage {
  constructor(main, app, id) {
    Object.assign(this, { main, app, id, version: versionOf(location.hash), lanes: new Map(), pressed: new Set() });
    this.mayRelease = ["approver", "admin"].includes(app.me.role);
    this.chunks = new Chunks(id);
    this.isOwn = (row) => row.session === id;
    this.controller = new AbortController();
  }

  start() {
    this.head = h("div", { class: "session-head" }, h("h1", {}, this.id));
    this.feed = h("div", { class: "deck", "aria-label": "Pending requests of this session" });
    this.names = h("span", { class: "names" });
    this.fold = h("details", { class: "fold-waiting", ontoggle: () => this.#openWaiting() }, h("summary", {}, this.names), this.feed);
    this.waiting = h("section", { class: "waiting-now", hidden: true, "aria-label": "Waiting now" }, this.fold, link(`/?find=${encodeURIComponent(`session:"${this.id}"`)}`, {}, "In the inbox"));
    this.broken = h("section", { class: "broken", hidden: true, "aria-label": "Problems in this session's log" });
    this.slider = new Slider({ onmove: (version) => this.goTo(version) });
    this.events = h("div", { class: "events", role: "list", "aria-label": "Events" });
    this.state = h("div", { class: "moment", "aria-live": "off" });
    this.when = h("b");
    this.brief = h("span", { class: "hint" });
    // On a phone it is one line below the events until it is opened.
    this.stateFold = h("details", { class: "state-fold", open: innerWidth > NARROW_PX }, h("summary", {}, this.when, " ", this.brief), this.state);
    this.detail = h("section", { class: "event-detail", hidden: true, "aria-label": "Selected event" });
    this.main.append(this.head, this.broken, this.waiting, this.slider.element, h("div", { class: "session" }, h("section", { class: "timeline" }, h("h2", {}, "Events"), this.events), h("aside", { class: "at-moment" }, this.detail, this.stateFold)));
    this.list = new WindowedList(this.events, { height: ROW_PX, render: (key) => this.#row(Number(key)), onshow: (from, to) => this.chunks.want("list", from + 1, to) });
    this.#listen();
    this.look();
    this.stopBeing = this.app.me.role === "auditor" ? null : this.app.presence.inSession(this.id);
  }

  leave() {
    this.controller.abort();
    this.sizing.disconnect();
    clearInterval(this.timer);
    for (const one of [this.settling, this.looking, this.outlining, this.verifying]) clearTimeout(one);
    cancelAnimationFrame(this.drawing);
    this.stopBeing?.();
    this.deck?.destroy();
    this.list.destroy();
  }

  /** Draw the cards of what waits while they are unfolded; the line names them. */
  #openWaiting() {
    this.deck?.destroy();
    this.feed.replaceChildren();
    this.deck = this.fold.open ? new Deck(this.feed, { requests: this.app.requests, me: this.app.me, wanted: this.isOwn }) : null;
    this.app.shown.deck = this.deck;
    this.#drawWaiting();
  }

  #drawWaiting() {
    const rows = [...this.app.requests.rows.values()].filter(this.isOwn).sort(byDeadline);
    const more = rows.length - NAMED_COUNT;
    // An open fold keeps what has just been answered.
    this.waiting.hidden = !rows.length && !this.fold.open;
    this.names.replaceChildren(h("span", {}, h("b", {}, `${rows.length} waiting`), ...rows.slice(0, NAMED_COUNT).map((row, index) => [index ? ", " : ": ", callInRow(row)]), more > 0 ? ` and ${more} more` : ""));
  }

  #listen() {
    const { signal } = this.controller;
    this.chunks.addEventListener("loaded", ({ detail }) => this.#loaded(detail), { signal });
    this.app.requests.addEventListener("change", () => { this.#drawWaiting(); this.#lookSoon(); }, { signal });
    this.#drawWaiting();
    addEventListener("hashchange", () => this.#moved(versionOf(location.hash)), { signal });
    addEventListener("popstate", () => this.#moved(versionOf(location.hash)), { signal });
    addEventListener("resize", () => { this.#draw(); this.slider.drawWhole(this.slider.bars); }, { signal });
    matchMedia("(prefers-color-scheme: dark)").addEventListener("change", () => this.slider.drawWhole(this.slider.bars), { signal });
    // The column beside the events begins below the slider, whose height depends on the number of parallel waits.
    this.sizing = new ResizeObserver(() => {
      this.main.style.setProperty("--slider", `${this.slider.element.offsetHeight}px`);
      this.#stay();
    });
    for (const one of [this.slider.element, this.head, this.waiting]) this.sizing.observe(one);
    for (const use of USES) addEventListener(use, () => { this.isUsed = true; }, { signal, passive: true });
    this.timer = setInterval(() => { if (!document.hidden) this.look(); }, LOOK_MS);
  }

  #lookSoon() {
    clearTimeout(this.looking);
    this.looking = setTimeout(() => this.look(), SETTLE_MS);
  }

  /** Fetch the session's summary, and its new events if there are any. */
  async look() {
    try {
      const summary = await get(path("/v1/sessions/{}", this.id), {}, this.controller.signal);
      const isFirst = !this.summary;
      const grew = summary.version !== this.summary?.version;
      // No event tells who comes and goes.
      const moved = !isFirst && JSON.stringify(summary.clients) !== JSON.stringify(this.summary.clients);
      this.summary = summary;
      this.#drawHead();
      if (grew) this.#grow(isFirst);
      else if (moved && this.version === null) this.#settle();
    } catch (error) {
      this.#said(error);
    }
  }

  #said(error) {
    if (this.controller.signal.aborted) return;
    if (error instanceof Problem && error.status === 404) {
      clearInterval(this.timer);
      this.main.replaceChildren(h("p", { class: "empty" }, `No session ${this.id}, or you have no access to it.`));
    } else if (error instanceof Problem && ["DAMAGED", "NEWER_SCHEMA"].includes(error.code)) this.#cannotGoOn(error);
    else if (!(error instanceof NoConnection) && !(error instanceof Problem)) throw error;
  }

  #grow(isFirst) {
    const { version } = this.summary;
    this.slider.grow(version);
    this.chunks.grow(version);
    this.list.setKeys(Array.from({ length: version }, (_, index) => String(index + 1)));
    this.#outline(isFirst ? 0 : OUTLINE_MS);
    if (isFirst) {
      this.missing = this.version !== null && this.version > version ? this.version : null;
      this.#moved(this.missing === null ? this.version : null);
    } else {
      this.#draw();
      if (this.version === null) this.#settle();
      if (this.checked) this.#markVerified();
    }
  }

  /** Draw the whole session in bars after a delay that combines several changes. */
  #outline(ms) {
    if (this.outlining) return;
    this.outlining = setTimeout(async () => {
      this.outlining = null;
      try {
        const { bars } = await get(path("/v1/sessions/{}/outline", this.id), { limit: 1, lanes: 0, bars: BARS_COUNT }, this.controller.signal);
        this.slider.drawWhole(bars);
      } catch (error) {
        this.#said(error);
      }
    }, ms);
  }

  /** Draw the axis, once in a frame, and fetch the events that it shows. */
  #draw() {
    if (this.drawing) return;
    this.drawing = requestAnimationFrame(() => {
      this.drawing = null;
      if (!this.summary) return;
      const [from, to] = this.slider.look(this.summary.closed_at === null);
      this.chunks.want("axis", from, to);
      this.slider.draw(this.chunks);
    });
  }

  #drawHead() {
    const one = this.summary;
    this.head.replaceChildren(
      h("h1", {}, this.id), this.mark ?? "",
      h("p", { class: "hint" },
        one.project ? ["project ", foundLink("project", one.project), " · "] : null, one.agent ? ["agent ", foundLink("agent", one.agent), " · "] : null,
        [one.dialect ? `${one.dialect} rules` : null, `opened ${at(one.opened_at)}`, one.closed_at ? `closed ${at(one.closed_at)}` : null].filter(Boolean).join(" · "),
        one.parent ? [" · sub-agent of ", sessionLink(one.parent)] : null));
  }

  async verify() {
    this.#mark("", "checking the chain …", "");
    try {
      this.checked = await get(path("/v1/sessions/{}/verify", this.id), {}, this.controller.signal);
      this.#markVerified();
    } catch (error) {
      if (error.name !== "AbortError") this.#mark("", "could not be verified", error.message);
    }
  }

  #markVerified() {
    const { ok, versions, head, problems } = this.checked;
    const total = this.summary?.version ?? versions;
    this.broken.hidden = ok;
    if (!ok) {
      this.#mark("bad", `✗ ${problems.length} problem${problems.length === 1 ? "" : "s"} in the chain`, "Press to check again");
      this.broken.replaceChildren(...brokenLog(this.id, problems));
    } else if (total > versions) this.#mark("good", `✓ first ${versions} of ${total} verified`, "Press to check all of them");
    else this.#mark("good", `✓ chain of ${versions} verified`, `The log agrees with itself; a history that was rewritten whole shows only beside saved heads. Head ${head?.hash ?? ""}`);
  }

  #mark(kind, text, title) {
    this.mark = h("button", { type: "button", class: `mark-verified ${kind}`, title, onclick: () => this.verify() }, text);
    if (this.summary) this.#drawHead();
    else this.head.replaceChildren(h("h1", {}, this.id), this.mark);
  }

  /** Show only the damage of a session that the gateway cannot read. */
  #cannotGoOn(problem) {
    clearInterval(this.timer);
    if (!this.checked) this.verify();
    for (const one of [this.slider.element, this.list.root.closest(".session")]) one.hidden = true;
    if (this.checked && !this.checked.ok) return;
    this.broken.hidden = false;
    this.broken.replaceChildren(h("p", { class: "status bad", role: "alert" }, `This session cannot be read: ${problem.message}.`));
  }

  /** Move to a version (null: now), and set the address accordingly. */
  goTo(version) {
    history.replaceState(null, "", `${location.pathname}${version === null ? "" : `#${version}`}`);
    this.#moved(version, { isOwn: true });
  }

  #moved(version, { isOwn = false } = {}) {
    const before = this.version;
    this.version = version;
    this.slider.show(version);
    for (const one of new Set([before, version])) if (one !== null) this.list.refresh(String(one));
    if (version !== null) {
      const isSeen = this.list.element(String(version))?.getBoundingClientRect();
      if (!isOwn || !isSeen || isSeen.top < this.slider.element.getBoundingClientRect().bottom || isSeen.bottom > innerHeight) this.list.reveal(String(version));
    }
    if (version !== null) this.missing = null;
    this.#say();
    this.#draw();
    this.#drawDetail();
    this.#settle();
  }

  /** Fetch the state when the slider has stopped. */
  #settle() {
    clearTimeout(this.settling);
    this.settling = setTimeout(() => this.#ask(), SETTLE_MS);
  }

  async #ask() {
    this.asking?.abort();
    this.asking = new AbortController();
    const asked = this.version;
    this.state.dataset.busy = "true";
    this.verifying ??= setTimeout(() => this.verify(), VERIFY_MS);
    try {
      const row = await get(path("/v1/sessions/{}/state", this.id), { at: asked, brief: true }, this.asking.signal);
      if (asked !== this.version) return;
      this.#drawState(row, asked);
      delete this.state.dataset.busy;
    } catch (error) {
      if (error.name !== "AbortError") this.#said(error);
    }
  }

  /** Draw the state, and keep the focus on the button of a claim. */
  #drawState(row, asked) {
    const focused = this.state.contains(document.activeElement) ? document.activeElement.dataset.claim : undefined;
    const release = this.mayRelease ? { give: (one) => this.#release(one), pressed: this.pressed } : null;
    const when = asked === null ? "Now" : `After event ${asked}`;
    this.when.textContent = when;
    this.brief.textContent = `${row.counts.pending} waiting · ${row.counts.approved} approved`;
    this.state.replaceChildren(h("h2", {}, when), ...moment(row, asked === null, release));
    if (focused) [...this.state.querySelectorAll("[data-claim]")].find((one) => one.dataset.claim === focused)?.focus();
  }

  /** Give back the claim of a runner that has died. */
  async #release(one) {
    try {
      await call("POST", path("/v1/sessions/{}/asks/{}/release", this.id, one.request_id), { body: { reason: "released in the inbox" } });
      announce("The claim is released");
      this.#lookSoon();
    } catch (error) {
      if (error instanceof Problem || error instanceof NoConnection) this.slider.say(`Not released: ${error.message}`);
      else throw error;
    }
  }

  /** Keep the event of a link in the middle while the page loads, until somebody scrolls. */
  #stay() {
    if (this.version !== null && this.summary && !this.isUsed) this.list.reveal(String(this.version));
  }

  #say() {
    const total = this.summary?.version ?? 0;
    const row = this.version === null ? null : this.chunks.at(this.version);
    if (this.missing) return this.slider.say(`There is no event ${this.missing} yet; this is now, after ${total}`);
    this.slider.say(this.version === null ? `Now, after ${total} event${total === 1 ? "" : "s"}` : `Event ${this.version} of ${total}${row ? `, ${at(row.entry.at)}` : ""}`);
    this.slider.label.title = row ? ago(row.entry.at) : "";
  }

  #drawDetail() {
    const row = this.version === null ? null : this.chunks.at(this.version);
    this.detail.hidden = !row;
    if (row) this.detail.replaceChildren(h("h2", {}, `Event ${this.version}`), ...eventDetail(row));
  }

  #loaded(index) {
    this.lanes.clear();
    for (const key of [...this.list.shown.keys()]) if (Math.abs(Math.floor((Number(key) - 1) / CHUNK) - index) <= 1) this.list.refresh(key);
    this.#draw();
    this.#say();
    if (this.version !== null && this.detail.hidden) this.#drawDetail();
  }

  /** Return the waits around a version, by request. */
  #near(version) {
    const index = Math.floor((version - 1) / CHUNK);
    if (!this.lanes.has(index)) {
      const waits = this.chunks.waitsBetween(index * CHUNK + 1, (index + 1) * CHUNK);
      this.lanes.set(index, new Map(waits.map((one) => [one.request_id, one])));
    }
    return this.lanes.get(index);
  }

  #row(version) {
    const row = this.chunks.at(version);
    const isChosen = this.version === version;
    const drawing = laneDrawing(version, this.#near(version), ROW_PX);
    if (!row) return h("div", { class: "event loading", role: "listitem" }, drawing, h("div", { class: "event-body" }, h("span", { class: "number" }, String(version)), h("span", { class: "sentence" }, "…")));
    const { entry } = row;
    return h("div", { class: `event ${kindOf(entry)}`, role: "listitem" }, drawing,
      h("button", { type: "button", class: "event-body", "aria-pressed": String(isChosen), onclick: () => this.goTo(version) },
        h("span", { class: "number" }, String(version)),
        h("span", { class: "sentence" }, ...reveal(sentence(row))),
        h("span", { class: "under" }, `${at(entry.at)} · ${whoText(entry.actor)}`)));
  }
}

function versionOf(hash) {
  return /^#v?\d{1,12}$/.test(hash) ? Number(hash.replace(/\D/g, "")) : null;
}

/** Return the damage of a log: what, where, its effect, and what to do. */
function brokenLog(id, problems) {
  const shown = problems.slice(0, PROBLEMS_SHOWN);
  return [
    h("p", { class: "status bad", role: "alert" }, h("strong", {}, "This session's log is not what the ledger wrote. "), "Events were changed, lost, inserted or moved: what is shown here may be wrong, and every request is refused."),
    h("ul", { class: "problems" }, ...shown.map((one) => h("li", {}, one.version ? h("span", { class: "number" }, `at event ${one.version}: `) : null, ...reveal(one.text))), problems.length > shown.length ? h("li", { class: "hint" }, `and ${problems.length - shown.length} more`) : null),
    h("p", { class: "hint" }, "On a machine of the ledger, ", h("code", {}, `permission-ledger verify ${id}`), " reports the same. Restore the log from a backup or an export, or continue in a new session."),
  ];
}
