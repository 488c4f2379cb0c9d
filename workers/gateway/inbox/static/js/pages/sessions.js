// Search for requests by words, and for sessions by project, agent, person, outcome and date.

import { NoConnection, Problem, get, path } from "../api.js";
import { ago, fullTime, zone } from "../clock.js";
import { button, foundLink, h, link, sessionLink } from "../dom.js";
import { requestBox } from "../finding.js";
import { outcomeKind, outcomeText } from "../outcomes.js";
import { callInRow } from "../what.js";
import { requestPlace } from "../why.js";

const OUTCOMES = ["allowed", "denied", "rejected", "corrected", "expired", "cancelled"];
const SORTS = { "": "newest event", last_answered: "last answered", most_asked: "most asked", most_rejected: "most rejected" };
const TYPING_MS = 250;
const PAGE_COUNT = 50;
const CALLS_COUNT = 3;
const NARROW_PX = 620;

export function show(main, app) {
  const field = (name, label, members = {}) => h("label", {}, h("span", {}, label), h("input", { name, autocomplete: "off", ...members }));
  const form = h("form", { class: "find", role: "search", "aria-label": "Find sessions" },
    field("project", "Project"), field("agent", "Agent"), field("person", "Answered by"),
    h("label", {}, h("span", {}, "Ended as"), h("select", { name: "outcome" }, h("option", { value: "" }, "anything"), ...OUTCOMES.map((one) => h("option", { value: one }, one)))),
    h("label", {}, h("span", {}, "Order"), h("select", { name: "sort" }, ...Object.entries(SORTS).map(([value, text]) => h("option", { value }, text)))),
    field("since", "Since", { type: "date" }), field("until", "Until", { type: "date" }),
    h("label", { class: "tick" }, h("input", { type: "checkbox", name: "open" }), h("span", {}, "open only")));
  const rows = h("ul", { class: "sessions" });
  const status = h("p", { class: "hint", role: "status" });
  const more = button("Load more", () => load(true), { kind: "small", hidden: true });
  // On a phone the search form is folded, so that the sessions come first.
  const find = h("details", { class: "find-fold", open: innerWidth > NARROW_PX || location.search !== "" }, h("summary", {}, "Find by project, agent, person, outcome or date"), form);
  const requests = requestBox(app.me.name);
  main.append(h("h1", {}, "Sessions"), h("p", { class: "hint" }, `Times and dates are in ${zone()}.`), requests.element, find, status, rows, h("p", { class: "more-row" }, more));

  let cursor = null;
  let timer = null;
  let controller = new AbortController();
  let observer = null;

  async function load(isMore = false) {
    controller.abort();
    controller = new AbortController();
    const wanted = queryOf(form);
    const said = new URLSearchParams(Object.entries(wanted.said));
    if (!isMore) history.replaceState(null, "", said.size ? `/sessions?${said}` : "/sessions");
    try {
      const found = await get("/v1/sessions", { ...wanted.query, limit: PAGE_COUNT, cursor: isMore ? cursor : null }, controller.signal);
      cursor = found.cursor;
      if (!isMore) rows.replaceChildren();
      const { signal } = controller;
      if (!isMore) observer = lastCalls(app.me.name, signal);
      rows.append(...found.sessions.map((one) => sessionRow(one, observer)));
      const isSorted = Boolean(wanted.query.sort);
      status.textContent = rows.children.length ? (isSorted && found.is_cut ? `Of the newest ${found.among} sessions.` : "") : cursor === null ? "No matching sessions" : "None of the newest sessions match; older ones may";
      more.hidden = cursor === null;
    } catch (error) {
      if (error.name === "AbortError") return;
      if (!(error instanceof NoConnection) && !(error instanceof Problem)) throw error;
      status.textContent = `The search failed: ${error.message}.`;
    }
  }

  /** Search as the address says. */
  const follow = () => {
    form.reset();
    for (const [name, value] of new URLSearchParams(location.search)) {
      const control = form.elements[name];
      if (control) control.type === "checkbox" ? (control.checked = value === "true") : (control.value = value);
    }
    load();
  };
  for (const way of ["hashchange", "popstate"]) addEventListener(way, follow);
  form.addEventListener("submit", (event) => event.preventDefault());
  form.addEventListener("input", () => { clearTimeout(timer); timer = setTimeout(load, TYPING_MS); });
  follow();
  return {
    title: "Sessions",
    leave: () => {
      for (const way of ["hashchange", "popstate"]) removeEventListener(way, follow);
      requests.leave();
      controller.abort();
      clearTimeout(timer);
    },
  };
}

function queryOf(form) {
  const values = Object.fromEntries([...new FormData(form)].filter(([, value]) => value !== "").map(([name, value]) => [name, name === "open" ? "true" : String(value).trim()]));
  const query = { ...values };
  // Days are in the reader's time zone.
  if (values.since) query.since = new Date(`${values.since}T00:00:00`).toISOString();
  if (values.until) query.until = new Date(`${values.until}T23:59:59.999`).toISOString();
  return { said: values, query };
}

/** Return a row: who worked where, the last calls and how they ended. */
function sessionRow(one, observer) {
  const asked = Object.values(one.outcomes ?? {}).reduce((sum, count) => sum + count, one.pending);
  // The place of the calls is kept for them, so that nothing moves when they come.
  const calls = h("ol", { class: `last-calls of-${Math.min(asked, CALLS_COUNT)}`, "aria-label": "Last calls", hidden: !asked });
  const counts = Object.entries(one.outcomes ?? {}).map(([outcome, count]) => `${count} ${outcome}`);
  const row = h("li", { class: "session-row", data: { session: one.session } },
    h("div", { class: "session-who" }, one.agent ? foundLink("agent", one.agent) : null, one.agent && one.project ? " in " : null, one.project ? foundLink("project", one.project) : null,
      one.pending ? link(`/?find=${encodeURIComponent(`session:"${one.session}"`)}`, { class: "count" }, `${one.pending} waiting`) : null, one.closed_at ? h("small", {}, "closed") : null),
    h("div", { class: "hint when", title: `opened ${fullTime(one.opened_at)}` }, ago(one.at)),
    calls,
    h("div", { class: "hint session-name" }, sessionLink(one.session), one.parent ? [" · sub-agent of ", sessionLink(one.parent)] : null,
      ` · ${[`${one.version} event${one.version === 1 ? "" : "s"}`, ...counts, one.answered_at && `answered ${ago(one.answered_at)}`].filter(Boolean).join(" · ")}`));
  observer.observe(row);
  return row;
}

/** Return an observer that fetches and draws the last calls of a row once it comes near the screen. */
function lastCalls(me, signal) {
  const draw = async (row) => {
    const { session } = row.dataset;
    const found = await get(path("/v1/sessions/{}", session), { calls: CALLS_COUNT }, signal).catch(ignored);
    row.querySelector(".last-calls").replaceChildren(...(found?.last_calls ?? []).map((one) => h("li", {},
      link(requestPlace({ session, request_id: one.request_id }), { class: "call" }, ...callInRow(one)),
      one.outcome ? h("span", { class: `how ${outcomeKind(one.outcome)}` }, outcomeText(one, me)) : h("span", { class: "how waits" }, "Waiting"))));
  };
  const observer = new IntersectionObserver((entries) => {
    for (const { target } of entries.filter((one) => one.isIntersecting)) {
      observer.unobserve(target);
      draw(target);
    }
  }, { rootMargin: "200px" });
  signal.addEventListener("abort", () => observer.disconnect());
  return observer;
}

function ignored(error) {
  if (error.name !== "AbortError" && !(error instanceof NoConnection) && !(error instanceof Problem)) throw error;
}
