// Outcomes of requests in words, as `workers/presentation/words.py` says them; a test compares them.

import { LABELS, OUTCOMES } from "./labels.js";

const BEGINNING = /^(Permission request cancelled|Denied by rule): /; // what the agent is told begins so

/** Return for example `Allowed by ann (once)`; `me` is the reader's name. */
export function outcomeText(result, me) {
  const word = OUTCOMES[result.outcome] ?? result.outcome ?? "Settled";
  // A row of a search has no message.
  const said = result.message ? `: ${result.message.replace(BEGINNING, "")}` : "";
  if (result.decided_by) return `${word} by ${result.decided_by}`;
  if (result.outcome === "expired") return `${word}: ${LABELS.nobody_answered}`;
  if (result.outcome === "cancelled") return `${word}${said}`;
  if (result.cause?.kind === "unfrozen") return `${word} ${LABELS.unfrozen}`;
  if (!result.by) return word;
  const who = result.told ? `${result.by} (told, not seen: answered at ${result.told})` : together(namesOf(result).map((name) => (name === me ? "you" : name)));
  if (result.outcome === "denied" && result.reply) return `${word} ${LABELS.although} ${who} answered ${result.reply}${said}`;
  return `${word} by ${who}${result.outcome === "allowed" && result.reply ? ` (${result.reply})` : ""}`;
}

/** Return the people who answered: all who approved, where several had to. */
function namesOf({ outcome, approvals, by }) {
  return outcome === "allowed" && approvals?.given.length ? approvals.given.map((one) => one.by) : [by];
}

function together(names) {
  return [names.slice(0, -1).join(", "), ...names.slice(-1)].filter(Boolean).join(" and ");
}

/** Return a class for the outcome's colour. */
export function outcomeKind(outcome) {
  return { allowed: "good", rejected: "bad", denied: "bad", corrected: "bad" }[outcome] ?? "gone";
}
