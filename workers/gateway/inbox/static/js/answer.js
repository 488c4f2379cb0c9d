// The members of an answer that are sent, and signed where a rule demands a passkey.

import { keyOf } from "./store.js";

const MEMBERS = ["reply", "message", "updated_input", "expires", "uses", "patterns", "cascade_always"];

/** Return the members for one request; an answer to several may have patterns of its own for each. */
export function membersOf(answer, row = null) {
  const own = row && answer.patternsOf ? { ...answer, patterns: answer.patternsOf.get(keyOf(row)) } : answer;
  return Object.fromEntries(MEMBERS.filter((name) => own[name]).map((name) => [name, own[name]]));
}
