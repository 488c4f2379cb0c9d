// How a request ended, in words.

const WORDS = { allowed: "Allowed", denied: "Denied", rejected: "Rejected", corrected: "Rejected with feedback", expired: "Expired", cancelled: "Withdrawn" };

/** `Allowed by ann (once)`; `me` is the name of whoever looks. */
export function outcomeText(result, me) {
  const word = WORDS[result.outcome] ?? result.outcome ?? "Settled";
  if (result.outcome === "expired") return "Expired: nobody answered in time";
  if (result.outcome === "cancelled") return `Withdrawn${result.message ? `: ${result.message}` : ""}`;
  if (result.outcome === "denied" && result.reply) return `Denied by the rules of now${result.message ? `: ${result.message}` : ""}`;
  const by = result.told ? ` at ${result.told}, as ${result.by} tells; not seen by the ledger` : result.by ? ` by ${result.by === me ? "you" : result.by}` : "";
  const reply = result.reply && result.reply !== "reject" ? ` (${result.reply})` : "";
  return `${word}${by}${reply}`;
}

/** A class for its colour; the words never depend on it. */
export function outcomeKind(outcome) {
  return { allowed: "good", rejected: "bad", denied: "bad", corrected: "bad" }[outcome] ?? "gone";
}
