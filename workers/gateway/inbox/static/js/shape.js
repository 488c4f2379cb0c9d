// Which requests are alike enough to stand as one item, and what differs between them.

import { dangerKinds, effectOf } from "./effects.js";

export const GROUP_LEAST = 2;
export const GROUP_MOST = 50;
const SHOWN_ELSEWHERE = new Set(["offered", "permission", "tool", "asker", "agent"]); // the head and each line have them
const MILD = new Set(["network", "outside"]); // dangers that the class of the call weighs already

/** Return whether a request may be answered together with others: not what needs an answer of its own. */
export function mayGoTogether(row) {
  return row.answering === "anyone" && row.kind === "call" && !row.by_passkey && !row.approvals && !row.reopened;
}

/** Return whether a request stays out of a bulk answer until it is added by hand: nothing brings it back, or it is dangerous. */
export function isGrave(row) {
  return effectOf(row) === "irreversible" || dangerKinds(row).some((kind) => !MILD.has(kind));
}

/** Return whether one line with the words of the first request says all of each of these requests. */
export function isOneLine(rows) {
  const [first] = rows;
  return Boolean(first.one_line) && rows.every((row) => row.one_line === first.one_line && mayGoTogether(row) && !isGrave(row));
}

/** Return what alike requests have in common, as a text; null for a request that stands alone. */
export function likenessOf(row) {
  if (!row.alike || !mayGoTogether(row)) return null;
  return JSON.stringify([row.alike, row.project, row.dialect, row.always_scope, row.cascade_reject]);
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
