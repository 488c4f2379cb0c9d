// The reason for asking a person, and the effect of an answer, in words.

import { foundLink, h, link, sessionLink } from "./dom.js";
import { inWords } from "./dangers.js";
import { LABELS, capital } from "./labels.js";
import { reveal } from "./reveal.js";
import { revealIn } from "./what.js";

/** Return the reason as a sentence, and the rules with their files. */
export function why(row) {
  const evaluation = row.evaluation ?? {};
  const rules = distinct([...(evaluation.rules ?? []), ...(evaluation.parts ?? []).filter((part) => part.verdict !== "allow").flatMap((part) => part.rules ?? [])]);
  const reason = evaluation.reason ?? (rules.length ? null : "no rule matches");
  return h("div", { class: "why" },
    h("span", { class: "key" }, capital(LABELS.why)),
    h("span", {}, reason ? inWords(capital(reason)) : null, ...rules.slice(0, 3).map((rule, index) => [index || reason ? h("br") : null, ...ruleText(rule)]),
      rules.length > 3 ? ` and ${rules.length - 3} more` : null));
}

/** Return the rules' demands on the answer, or null. */
export function needs(row, me) {
  if (!row.demanded?.length) return null;
  const isAsker = [row.by, row.owner].some((name) => name?.toLowerCase() === me.name.toLowerCase());
  const isOwn = isAsker && row.demands.some((one) => one.not_by === "asker" && (!one.roles?.length || one.roles.includes(me.role)));
  return h("div", { class: "needs" },
    h("span", { class: "key" }, capital(LABELS.demanded)),
    h("span", {}, ...row.demanded.flatMap((text, index) => [index ? "; " : "", ...inWords(index ? text : capital(text))]), isOwn ? h("b", {}, ": you cannot give this answer") : null));
}

export function ruleText(rule) {
  const place = [rule.layer, rule.file ? `${rule.file}${rule.line ? `:${rule.line}` : ""}` : null].filter(Boolean).join(", ");
  return ["rule ", h("code", {}, ...reveal(rule.text)), place ? h("small", {}, ` ${place}`) : null];
}

function distinct(rules) {
  return [...new Map(rules.map((rule) => [JSON.stringify(rule), rule])).values()];
}

/** Return where a call runs: its folder and its project; null for one without either. */
export function place(row) {
  if (!row.cwd && !row.project) return null;
  return h("p", { class: "place" },
    row.cwd ? h("code", {}, ...revealIn(row, row.cwd)) : null, row.cwd && row.project ? " · " : null,
    row.project ? h("span", { class: "project" }, ...reveal(row.project)) : null);
}

/** Return the asking session with its parents, root first, the folder of the call, and with `isLinked` the request's page. */
export function where(row, isLinked = true) {
  const tree = [...(row.lineage ?? []), row.session];
  return h("div", { class: "where" },
    h("span", { class: "key" }, "Where"),
    h("span", {},
      row.cwd ? [h("code", {}, ...revealIn(row, row.cwd)), " · "] : null,
      row.project ? [foundLink("project", row.project), " · "] : null,
      h("span", { class: "tree", "aria-label": tree.length > 1 ? "sub-agent of" : null },
        ...tree.flatMap((session, index) => [index ? h("span", { class: "below", "aria-label": "whose sub-agent is" }, " › ") : null, sessionLink(session)])),
      isLinked ? [" · ", link(requestPlace(row), { class: "request-link", title: "A page of this request alone, to send to somebody" }, "page of this request")] : null));
}

/** Return the address of the page of one request. */
export function requestPlace({ session, request_id: id }) {
  return `/requests/${encodeURIComponent(id)}?session=${encodeURIComponent(session)}`;
}

export const REACHES = { exact: "exactly this", kind: "this kind", all: "more" };

/**
 * Return the choices of a grant by `session` or `always`, the narrowest first, and its reach. `isSuggested` is the one
 * that these replies grant by themselves; any other is sent with the answer.
 */
export function whatIsGranted(row) {
  const reach = row.always_scope === "project" ? `project ${row.project}` : "this session";
  const suggested = [...new Set(row.always)];
  const choices = (row.offers ?? []).map(({ entries, wide, name, reach: how, still_asked: still }) => (
    { patterns: entries, wide: Boolean(wide), name, label: REACHES[how] ?? REACHES.all, still: still ?? [], isSuggested: isSame(entries, suggested) }));
  return { reach, choices: choices.length ? choices : withoutOffers(row, suggested) };
}

/** Return the choices for a request without offers: the suggestion, and its patterns. */
function withoutOffers(row, suggested) {
  const exact = [...new Set(row.patterns)];
  const still = row.still_asked ?? [];
  if (!suggested.length) return [];
  const first = { patterns: suggested, wide: false, label: "as suggested", still, isSuggested: true };
  if (!exact.length || isSame(exact, suggested)) return [first];
  return [first, { patterns: exact, wide: exact.some((one) => /[*?]/.test(one)), label: REACHES.exact, still, isSuggested: false }];
}

/** Return whether two lists have the same texts. */
export function isSame(some, others) {
  return some.length === others.length && some.every((one) => others.includes(one));
}

/** Return the index of the default choice: the agent's suggestion unless it is wide, else the narrowest. */
export function firstChoice(choices) {
  return Math.max(choices.findIndex((one) => one.isSuggested && !one.wide), 0);
}

/** Return the number of requests that a rejection without instructions ends too. */
export function rejectionTakesAlong(row, others) {
  if (row.cascade_reject === "none") return 0;
  const same = others.filter((one) => one.session === row.session && one.request_id !== row.request_id);
  if (row.cascade_reject === "session") return same.length;
  return same.filter((one) => one.tool && row.tool && one.tool.message_id === row.tool.message_id).length;
}

/** Return how many other pending requests of its project an *always* with these patterns is known to release. */
export function releasedBy(rows, chosen, pending) {
  const [first] = rows;
  if (first.always_scope !== "project" || !chosen) return 0;
  const own = new Set(rows.map((row) => `${row.session}\n${row.request_id}`));
  const covers = (one) => isSame(one.patterns, chosen.patterns) && !one.still.length;
  const isCovered = (row) => row.permission === first.permission && row.answering === "anyone" && !row.demanded?.length && whatIsGranted(row).choices.some(covers);
  return pending.filter((row) => row.project === first.project && !own.has(`${row.session}\n${row.request_id}`) && isCovered(row)).length;
}
