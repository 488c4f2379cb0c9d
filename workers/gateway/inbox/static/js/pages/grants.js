// Grants with author, reason, start and expiry, and their revocation.

import { call, get, NoConnection, path, Problem } from "../api.js";
import { ago, at, fullTime, zone } from "../clock.js";
import { announce, button, foundLink, h, link, sessionLink } from "../dom.js";
import { reveal } from "../reveal.js";
import { requestPlace } from "../why.js";

const LOOK_AGAIN_MS = 5000;
const PAGES_MAX = 5;

// Read the grants page by page: those that stand for more than so many pages are not shown.
async function read(signal) {
  let found = { grants: [], problems: [], cursor: null };
  for (let page = 0; page < PAGES_MAX && (page === 0 || found.cursor !== null); page++) {
    const next = await get("/v1/grants", { cursor: found.cursor }, signal);
    found = { grants: found.grants.concat(next.grants), problems: found.problems.concat(next.problems), cursor: next.cursor };
  }
  return found;
}

export function show(main, app) {
  const filter = h("input", { type: "search", class: "filter", placeholder: "Filter", "aria-label": "Filter by permission, pattern, project, session or person" });
  const list = h("ul", { class: "grants" });
  const damaged = h("p", { class: "hint", hidden: true });
  const status = h("p", { class: "hint", role: "status" }, "Loading …");
  main.append(h("div", { class: "section-head" }, h("h1", {}, "Grants"), h("p", { class: "summary long" }, `Calls that are allowed without asking. A configured deny takes precedence. Times are in ${zone()}.`), filter), damaged, status, list);
  const mayRevoke = ["approver", "admin"].includes(app.me.role);
  const controller = new AbortController();
  let grants = [];
  let isCut = false;
  let open = null;

  const draw = () => {
    const words = filter.value.trim().toLowerCase();
    const wanted = grants.filter((one) => [one.permission, one.pattern, one.project, one.session, one.by, one.reason].join("\n").toLowerCase().includes(words));
    status.textContent = isCut ? `Only the oldest ${grants.length} grants are shown.` : wanted.length ? "" : grants.length ? "No matching grants" : "No grants: you are asked about every call that no rule decides.";
    list.replaceChildren(...wanted.map((one) => grantRow(one, { mayRevoke, isOpen: open === one.grant_id, ask, keep, revoke })));
  };
  const ask = (one) => { open = one.grant_id; draw(); list.querySelector("[data-confirm]")?.focus(); };
  const keep = () => { open = null; draw(); };
  const revoke = async (one, reason) => {
    try {
      await call("DELETE", path("/v1/grants/{}", one.grant_id), { query: { reason } });
      announce(`Revoked: ${one.permission} ${one.pattern}`);
      open = null;
      await load();
    } catch (error) {
      status.textContent = `Not revoked: ${error.message}.`;
    }
  };
  async function load() {
    try {
      const found = await read(controller.signal);
      grants = found.grants;
      isCut = found.cursor !== null;
      damaged.hidden = !found.problems.length;
      damaged.textContent = `Grants of damaged streams are not shown: ${found.problems.map((one) => one.stream).join(", ")}.`;
      grants.sort((a, b) => (a.at < b.at ? 1 : -1));
      if (!open) draw();
    } catch (error) {
      if (error.name === "AbortError") return;
      if (!(error instanceof NoConnection) && !(error instanceof Problem)) throw error;
      status.textContent = `The grants could not be loaded: ${error.message}.`;
    }
  }

  filter.addEventListener("input", draw);
  app.live.addEventListener("grant", load, { signal: controller.signal });
  const timer = setInterval(() => { if (!document.hidden) load(); }, LOOK_AGAIN_MS);
  load();
  return { title: "Grants", leave: () => { controller.abort(); clearInterval(timer); } };
}

function grantRow(one, { mayRevoke, isOpen, ask, keep, revoke }) {
  const reach = one.scope === "project" ? h("span", {}, "project ", foundLink("project", one.project)) : h("span", {}, "session ", sessionLink(one.session));
  const reason = h("input", { "aria-label": "Reason for revoking (optional)", placeholder: "Reason (optional)", maxlength: "500" });
  return h("li", { class: "grant" },
    h("div", { class: "grant-what" }, h("span", { class: "permission" }, one.permission), h("code", {}, ...reveal(one.pattern))),
    h("div", { class: "hint grant-who" }, "in ", reach, " · by ", foundLink("person", one.by), ", ", h("time", { datetime: one.at, title: fullTime(one.at) }, ago(one.at)),
      one.expires_at ? ` · expires ${at(one.expires_at)}` : " · never expires",
      one.uses ? ` · ${one.uses_left} of ${one.uses} uses left` : "",
      one.last_used_at ? [" · last used ", h("time", { datetime: one.last_used_at, title: fullTime(one.last_used_at) }, ago(one.last_used_at))] : " · no use recorded",
      one.wider ? " · wider than offered" : "",
      one.request_id && one.session ? [" · from request ", link(requestPlace(one), { class: "session-link" }, ...reveal(one.request_id))] : null,
      one.imported ? " · imported from a file" : null,
      one.reason ? h("span", {}, " · ", ...reveal(one.reason)) : null),
    !mayRevoke ? null : isOpen
      ? h("div", { class: "grant-end" }, reason, button("Revoke", () => revoke(one, reason.value.trim()), { kind: "reject small", data: { confirm: "true" } }), button("Keep the grant", keep, { kind: "quiet small" }))
      : h("div", { class: "grant-end" }, button("Revoke…", () => ask(one), { kind: "small", "aria-label": `Revoke ${one.permission} ${one.pattern}` })));
}
