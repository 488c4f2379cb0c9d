// What an answer to several selected requests would remember: for each, what its own card offers first, and never a
// broad choice.

import { h } from "./dom.js";
import { reveal } from "./reveal.js";
import { keyOf } from "./store.js";
import { firstChoice, releasedBy, whatIsGranted } from "./why.js";

const SLACK_PX = 2;

/** Return `{row, chosen}` of each request; `chosen` is null for one that can only be allowed once. */
export function picksOf(rows) {
  return rows.map((row) => {
    // What the agent suggests, and the gateway has not tried on this call, may lift anything else.
    const choices = row.offers?.length ? whatIsGranted(row).choices : [];
    const chosen = choices[firstChoice(choices)] ?? null;
    return { row, chosen: chosen?.wide ? null : chosen };
  });
}

/** Return the patterns to send for each request, by its key; null for what its reply grants by itself. */
export function patternsOf(picks) {
  return new Map(picks.map(({ row, chosen }) => [keyOf(row), chosen.isSuggested ? null : chosen.patterns]));
}

/** Return how many other requests an *always* with these picks is known to release. */
export function releasedByAll(picks, pending) {
  const own = new Set(picks.map(({ row }) => keyOf(row)));
  const others = pending.filter((row) => !own.has(keyOf(row)));
  const distinct = [...new Map(picks.map((one) => [nameOf(one), one])).values()];
  return others.filter((row) => distinct.some((one) => releasedBy([one.row], one.chosen, [row]))).length;
}

/** Return the list of grants, each once with its number of requests; `isRead()` tells whether all of it was shown. */
export function grantList(picks) {
  const counts = new Map();
  for (const one of picks) counts.set(nameOf(one), { ...one, count: (counts.get(nameOf(one))?.count ?? 0) + 1 });
  const list = h("ul", { class: "selected-grants", tabindex: "0", "aria-label": "Grants" }, ...[...counts.values()].map(({ row, chosen, count }) => h("li", {},
    h("code", {}, ...reveal(chosen.name ?? chosen.patterns.join(", "))), " for ", ...reveal(row.permission), " in ", ...reveal(row.project ?? row.session), count > 1 ? ` (${count} requests)` : "")));
  let wasRead = false;
  const isRead = () => {
    wasRead ||= list.clientHeight > 0 && list.scrollTop + list.clientHeight >= list.scrollHeight - SLACK_PX;
    return wasRead;
  };
  list.addEventListener("scroll", isRead, { passive: true });
  return { list, isRead };
}

const nameOf = ({ row, chosen }) => JSON.stringify([row.project, row.project ? null : row.session, row.permission, chosen?.patterns]);
