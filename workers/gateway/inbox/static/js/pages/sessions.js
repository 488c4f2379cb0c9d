// Search for requests by words, and for sessions by project, agent, person, outcome and date.

import { NoConnection, Problem, get } from "../api.js";
import { ago, fullTime, zone } from "../clock.js";
import { button, h, sessionLink } from "../dom.js";
import { requestBox } from "../finding.js";

const OUTCOMES = ["allowed", "denied", "rejected", "corrected", "expired", "cancelled"];
const SORTS = { "": "newest event", last_answered: "last answered", most_asked: "most asked", most_rejected: "most rejected" };
const TYPING_MS = 250;
const PAGE_COUNT = 50;
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

  for (const [name, value] of new URLSearchParams(location.search)) {
    const control = form.elements[name];
    if (control) control.type === "checkbox" ? (control.checked = value === "true") : (control.value = value);
  }
  let cursor = null;
  let timer = null;
  let controller = new AbortController();

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
      rows.append(...found.sessions.map(sessionRow));
      const isSorted = Boolean(wanted.query.sort);
      status.textContent = rows.children.length ? (isSorted && found.is_cut ? `Of the newest ${found.among} sessions.` : "") : cursor === null ? "No matching sessions" : "None of the newest sessions match; older ones may";
      more.hidden = cursor === null;
    } catch (error) {
      if (error.name === "AbortError") return;
      if (!(error instanceof NoConnection) && !(error instanceof Problem)) throw error;
      status.textContent = `The search failed: ${error.message}.`;
    }
  }

  form.addEventListener("submit", (event) => event.preventDefault());
  form.addEventListener("input", () => { clearTimeout(timer); timer = setTimeout(load, TYPING_MS); });
  load();
  return { title: "Sessions", leave: () => { requests.leave(); controller.abort(); clearTimeout(timer); } };
}

function queryOf(form) {
  const values = Object.fromEntries([...new FormData(form)].filter(([, value]) => value !== "").map(([name, value]) => [name, name === "open" ? "true" : String(value).trim()]));
  const query = { ...values };
  // Days are in the reader's time zone.
  if (values.since) query.since = new Date(`${values.since}T00:00:00`).toISOString();
  if (values.until) query.until = new Date(`${values.until}T23:59:59.999`).toISOString();
  return { said: values, query };
}

function sessionRow(one) {
  return h("li", { class: "session-row" },
    h("div", { class: "session-name" }, sessionLink(one.session), one.pending ? h("span", { class: "count" }, `${one.pending} waiting`) : null, one.closed_at ? h("small", {}, "closed") : null),
    h("div", { class: "hint" }, [one.project && `project ${one.project}`, one.agent && `agent ${one.agent}`, one.parent && `sub-agent of ${one.parent}`, one.answered_at && `answered ${ago(one.answered_at)}`].filter(Boolean).join(" · ")),
    h("div", { class: "chips" }, ...Object.entries(one.outcomes ?? {}).map(([outcome, count]) => h("span", { class: `chip ${outcome}` }, `${count} ${outcome}`))),
    h("div", { class: "hint when", title: `opened ${fullTime(one.opened_at)}` }, ago(one.at), h("br"), `${one.version} event${one.version === 1 ? "" : "s"}`));
}
