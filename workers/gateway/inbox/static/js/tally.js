// How several requests ended, counted, in words.

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
