// One box that finds requests by words and conditions, such as `git push by:ann project:shop`.

import { NoConnection, Problem, get } from "./api.js";
import { ago, at } from "./clock.js";
import { button, foundLink, h, link, sessionLink } from "./dom.js";
import { outcomeText } from "./outcomes.js";
import { reveal } from "./reveal.js";
import { requestPlace } from "./why.js";

const TYPING_MS = 250;
const PAGE_COUNT = 20;

/** Return the box with its results, and `leave`, which ends what is under way. */
export function requestBox(me) {
  const input = h("input", { type: "search", name: "q", maxlength: 1000, autocomplete: "off", spellcheck: "false", "aria-label": "Find requests", placeholder: "Find requests: git push by:ann outcome:allowed since:30d" });
  const form = h("form", { class: "find-requests", role: "search", "aria-label": "Find requests" }, input);
  const rows = h("ul", { class: "sessions found" });
  const status = h("p", { class: "hint", role: "status" });
  const more = button("More requests", () => load(true), { kind: "small", hidden: true });
  let cursor = null;
  let timer = null;
  let controller = new AbortController();

  async function load(isMore = false) {
    controller.abort();
    controller = new AbortController();
    const q = input.value.trim();
    if (!q) return empty("");
    try {
      const found = await get("/v1/search", { q, limit: PAGE_COUNT, cursor: isMore ? cursor : null }, controller.signal);
      cursor = found.cursor;
      if (!isMore) rows.replaceChildren();
      rows.append(...found.requests.map((one) => requestRow(one, me)));
      status.textContent = [rows.children.length ? null : "No request matches", lagText(found.lag)].filter(Boolean).join(". ");
      more.hidden = cursor === null;
    } catch (error) {
      if (error.name === "AbortError") return;
      if (!(error instanceof NoConnection) && !(error instanceof Problem)) throw error;
      empty(`The search failed: ${error.message}.`);
    }
  }

  function empty(text) {
    rows.replaceChildren();
    status.textContent = text;
    more.hidden = true;
  }

  form.addEventListener("submit", (event) => { event.preventDefault(); clearTimeout(timer); load(); });
  form.addEventListener("input", () => { clearTimeout(timer); timer = setTimeout(load, TYPING_MS); });
  return { element: h("section", { "aria-label": "Requests" }, form, status, rows, h("p", { class: "more-row" }, more)), leave: () => { controller.abort(); clearTimeout(timer); } };
}

function lagText(lag) {
  if (!lag.whole) return "The index is still being built: older requests may be missing";
  return lag.events ? `The index is ${lag.events} event${lag.events === 1 ? "" : "s"} behind` : null;
}

function requestRow(one, me) {
  const outcome = one.outcome === "pending" ? "Waiting" : outcomeText(one, me);
  return h("li", { class: "session-row request-row" },
    h("div", { class: "session-name" }, link(requestPlace(one), { class: "call" }, h("code", {}, ...reveal(one.call))), sessionLink(one.session, one.version)),
    h("div", { class: "hint" }, one.project ? ["project ", foundLink("project", one.project), " · "] : null, one.agent ? ["agent ", foundLink("agent", one.agent), " · "] : null, one.permission),
    h("div", { class: "hint" }, outcome, one.reason ? ": " : null, ...(one.reason ? reveal(one.reason) : [])),
    h("div", { class: "hint when", title: `asked ${at(one.asked_at)}` }, ago(one.asked_at)));
}
