// The members of an answer that are sent, and signed where a rule demands a passkey.

const MEMBERS = ["reply", "message", "updated_input", "expires", "uses", "patterns", "cascade_always"];

export function membersOf(answer) {
  return Object.fromEntries(MEMBERS.filter((name) => answer[name]).map((name) => [name, answer[name]]));
}
