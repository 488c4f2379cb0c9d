// Outcomes of requests in words.

const WORDS = { allowed: "Allowed", denied: "Denied", rejected: "Rejected", corrected: "Rejected with instructions", expired: "Expired", cancelled: "Cancelled" };

const CANCELLED = /^Permission request cancelled: /; // what the agent is told begins with it

/** Return for example `Allowed by ann (once)`; `me` is the reader's name. */
export function outcomeText(result, me) {
  const word = WORDS[result.outcome] ?? result.outcome ?? "Settled";
  if (result.outcome === "expired") return "Expired: nobody answered in time";
  if (result.outcome === "cancelled") return `Cancelled${result.message ? `: ${result.message.replace(CANCELLED, "")}` : ""}`;
  if (result.cause?.kind === "unfrozen") return `${word} by the rules when a freeze ended`;
  if (result.outcome === "denied" && result.reply) return `Denied by the current rules${result.message ? `: ${result.message}` : ""}`;
  const by = result.told ? ` at ${result.told}, as reported by ${result.by}; not seen by the ledger` : result.by ? ` by ${namesOf(result).map((name) => (name === me ? "you" : name)).join(" and ")}` : "";
  const reply = result.reply && result.reply !== "reject" ? ` (${result.reply})` : "";
  return `${word}${by}${reply}`;
}

/** Return the people who answered: all who approved, where several had to. */
function namesOf({ outcome, approvals, by }) {
  return outcome === "allowed" && approvals?.given.length ? approvals.given.map((one) => one.by) : [by];
}

/** Return a class for the outcome's colour. */
export function outcomeKind(outcome) {
  return { allowed: "good", rejected: "bad", denied: "bad", corrected: "bad" }[outcome] ?? "gone";
}
