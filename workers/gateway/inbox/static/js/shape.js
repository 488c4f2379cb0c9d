// Which requests are alike enough to stand as one item, and what differs between them.

import { dangerKinds, effectOf } from "./effects.js";
import { planOf, questionsOf } from "./question.js";

export const GROUP_LEAST = 2;
export const GROUP_MOST = 50;
const SHOWN_ELSEWHERE = new Set(["offered", "permission", "tool", "asker", "agent"]); // the head and each line have them
const MILD = new Set(["network", "outside"]); // dangers that the class of the call weighs already
const BESIDE = new Set(["folder", "remark"]); // the agent's own remark, which changes nothing of the call
const CUT = /… \(\d+ more characters\)/;

const known = new WeakMap();

/** Return whether an answer to a request must be signed with a passkey. */
export function isSigned(row) {
  return row.demands?.some((one) => one.answer_by === "passkey") ?? false;
}

/** Return whether a request may be answered together with others: not what needs an answer of its own. */
export function mayGoTogether(row) {
  return row.answering === "anyone" && !isSigned(row) && !row.approvals && !row.reopened && !questionsOf(row).length && planOf(row) === null;
}

/** Return whether a request stays out of a bulk answer until it is added by hand: nothing brings it back, or it is dangerous. */
export function isGrave(row) {
  return effectOf(row) === "irreversible" || dangerKinds(row).some((kind) => !MILD.has(kind));
}

/** Return whether one line with the words of the first request says all of each of these requests. */
export function isOneLine(rows) {
  const [first] = rows;
  const isSaid = (one) => SHOWN_ELSEWHERE.has(one.kind) || BESIDE.has(one.kind) || first.would_run.includes(one.text);
  return rows.every((row) => row.description && !row.redacted && !row.description.odd?.length && mayGoTogether(row) && !isGrave(row) && row.description.sections.every(isSaid))
    && !CUT.test(first.would_run) && differing(rows)[0].length === 0;
}

/** Return what alike requests have in common, as a text; null for a request that stands alone. */
export function likenessOf(row) {
  if (!known.has(row)) known.set(row, madeLikeness(row));
  return known.get(row);
}

function madeLikeness(row) {
  if (!row.description?.shape || !mayGoTogether(row)) return null;
  const { rules = [], parts = [] } = row.evaluation ?? {};
  const asking = [rules.map((rule) => rule.text), parts.map((part) => [part.verdict, part.rules?.[0]?.text])];
  return JSON.stringify([row.description.shape, row.project, row.dialect, row.always_scope, row.cascade_reject, row.always, row.demanded, asking]);
}

/** Return the texts of a request by place; those that are equal in a whole group are drawn once. */
function textsOf(row) {
  const texts = new Map();
  const put = (place, label, text, section = {}) => {
    let name = place;
    for (let again = 2; texts.has(name); again += 1) name = `${place} ${again}`;
    texts.set(name, { label, text, marks: section.marks, kind: section.kind });
  };
  for (const one of row.description.sections) {
    if (!SHOWN_ELSEWHERE.has(one.kind) && !one.repeats) put(`${one.kind} ${one.origin} ${one.label}`, one.label, one.text, one);
  }
  put("reason", "why", row.evaluation?.reason ?? "");
  put("still asked", "still asked", (row.still_asked ?? []).join("; "));
  put("dangers", "danger", row.description.dangers.map((one) => one.says).join("; "));
  return texts;
}

/** Return, for each of these requests, the texts that are not equal in all of them. */
export function differing(rows) {
  const all = rows.map(textsOf);
  const places = [...new Set(all.flatMap((texts) => [...texts.keys()]))];
  const differ = places.filter((place) => new Set(all.map((texts) => texts.get(place)?.text)).size > 1);
  return all.map((texts, index) => differ.map((place) => {
    const other = all[index ? 0 : 1]?.get(place)?.text ?? "";
    const own = texts.get(place) ?? { label: all.find((one) => one.has(place)).get(place).label, text: "" };
    return { ...own, span: changed(own.text, other) };
  }));
}

/** Return where a text differs from another, in whole words: from the first difference to the last. */
function changed(text, other) {
  const [own, others] = [text.split(/(\s+)/), other.split(/(\s+)/)];
  let from = 0;
  while (from < own.length && from < others.length && own[from] === others[from]) from += 1;
  let left = 0;
  while (left < own.length - from && left < others.length - from && own.at(-1 - left) === others.at(-1 - left)) left += 1;
  const start = own.slice(0, from).join("").length;
  return [start, text.length - own.slice(own.length - left).join("").length];
}
