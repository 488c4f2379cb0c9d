// Several requests, counted in words: what they would do, and how they ended.

import { dangerKinds, effectOf } from "./effects.js";

const FACTS = {
  irreversible: ["cannot be undone", "cannot be undone"],
  "runs-downloaded": ["runs downloaded code", "run downloaded code"],
  privileges: ["acts with other rights", "act with other rights"],
  deletes: ["deletes", "delete"],
  secrets: ["reads secrets", "read secrets"],
  unread: ["is not understood", "are not understood"],
  outside: ["reaches outside its folder", "reach outside their folders"],
  changes_elsewhere: ["changes something elsewhere", "change something elsewhere"],
  changes_here: ["changes files here", "change files here"],
  reads: ["reads", "read"],
};
const HARMLESS = new Set(["outside", "changes_here", "reads"]);
const GRAVE = new Set(Object.keys(FACTS).filter((name) => !HARMLESS.has(name) && name !== "changes_elsewhere"));
const WORDS = { allowed: "allowed", denied: "denied", rejected: "rejected", corrected: "rejected with instructions", expired: "expired", cancelled: "withdrawn" };

/** Return `{text, isGood, others}` of results, such as `allowed 7, 1 was answered by somebody else`; null of none. */
export function tallyOf(results, me) {
  if (!results.length) return null;
  const counts = new Map();
  const others = new Set();
  let elsewhere = 0;
  for (const one of results) {
    const isAnothers = one.by && one.by !== me && !one.cause && ["allowed", "rejected", "corrected"].includes(one.outcome);
    if (isAnothers) {
      elsewhere += 1;
      others.add(one.by);
    } else {
      const word = WORDS[one.outcome] ?? "settled";
      counts.set(word, (counts.get(word) ?? 0) + 1);
    }
  }
  const said = [...counts].map(([word, count]) => `${word} ${count}`);
  if (elsewhere) said.push(`${elsewhere} ${elsewhere > 1 ? "were" : "was"} answered by somebody else`);
  const text = said.join(", ");
  return { text: text.charAt(0).toUpperCase() + text.slice(1), isGood: counts.size === 1 && counts.has("allowed") && !elsewhere, others: [...others] };
}

/** Return what these requests would do, the gravest first: `{text, isGrave}`, such as `5 delete`. What is harmless is left out beside what is grave. */
export function factsOf(rows) {
  const kinds = rows.map((row) => new Set([effectOf(row), ...dangerKinds(row)]));
  const facts = Object.entries(FACTS).flatMap(([name, [one, many]]) => {
    const count = kinds.filter((found) => found.has(name)).length;
    return count ? [{ name, text: `${count} ${count > 1 ? many : one}`, isGrave: GRAVE.has(name) }] : [];
  });
  return facts.some(({ isGrave }) => isGrave) ? facts.filter(({ name }) => !HARMLESS.has(name)) : facts;
}
